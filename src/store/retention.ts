// Conversations that nobody has touched for as long as the configuration keeps them.
import { sql } from 'kysely';
import type { ConversationKey } from '../kernel/index.ts';
import { fromColumn } from './column.ts';
import type { Database } from './database.ts';
import { removeOne } from './removal.ts';

export interface RetentionConfig {
  /** Conversations touched at or after it stay, and those with runs that are not over. */
  before: Date;
  /** Told of each that is gone. */
  onRemoved?: (key: ConversationKey) => Promise<unknown>;
}

/** Looked for at once. */
const PAGE = 200;

/** One after another, so that others come in between. Answers how many are gone; each leaves a tombstone. */
export async function removeUntouched(database: Database, { before, onRemoved }: RetentionConfig): Promise<number> {
  let removed = 0;
  let last = { at: '-infinity', tenant: '', owner: '', id: '' };
  for (;;) {
    const { rows } = await sql<typeof last>`
      select updated_at::text as at, tenant_id as tenant, owner, id from conversation c
      where updated_at < ${before} and (updated_at, tenant_id, owner, id) > (${last.at}::timestamptz, ${last.tenant}, ${last.owner}, ${last.id})
        and not exists (select from run where run.tenant_id = c.tenant_id and run.owner = c.owner
          and run.conversation = c.id and run.status in ('queued', 'running', 'waiting'))
      order by updated_at, tenant_id, owner, id limit ${PAGE}`.execute(database.kysely);
    for (const { tenant, owner, id } of rows) {
      const key = { tenant: fromColumn(tenant), owner: fromColumn(owner), conversation: fromColumn(id) };
      if (!(await removeOne(database, key, { untouchedSince: before }))) continue;
      removed++;
      await onRemoved?.(key);
    }
    if (rows.length < PAGE) return removed;
    last = rows.at(-1)!;
  }
}
