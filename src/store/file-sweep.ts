// Files that nobody names any more: their conversations were deleted, or they were never sent.
import { sql } from 'kysely';
import type { Blobs } from '../files/blobs.ts';
import { alone } from './alone.ts';
import { fromColumn } from './column.ts';
import type { Database } from './database.ts';

export interface SweepConfig {
  /** Files given, or sent with a message, at or after it stay. */
  before: Date;
  signal?: AbortSignal;
}

/** Removed in one transaction; more would keep others waiting. */
const AT_ONCE = 20;

interface Row {
  tenant: string;
  owner: string;
  id: string;
}

/** One owner after another, so that others come in between. */
export async function sweepFiles(database: Database, blobs: Blobs, { before, signal }: SweepConfig): Promise<number> {
  const owners = await sql<
    Omit<Row, 'id'>
  >`select distinct tenant_id as tenant, owner from file where at < ${before}`.execute(database.kysely);
  let removed = 0;
  for (const owner of owners.rows) {
    signal?.throwIfAborted();
    const unnamed = await findUnnamed(database, owner, before);
    for (let at = 0; at < unnamed.length; at += AT_ONCE) {
      signal?.throwIfAborted();
      removed += await removeBatch(database, blobs, { owner, ids: unnamed.slice(at, at + AT_ONCE), before });
    }
  }
  return removed;
}

/** A message names a file as `"<64 hex digits>"`. The messages are read once, whatever the number of files. */
async function findUnnamed({ kysely }: Database, { tenant, owner }: Omit<Row, 'id'>, before: Date): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with said as (
      select body as text from journal where tenant_id = ${tenant} and owner = ${owner} and kind = 'user'
        and body like '%"type":"file"%'
      union all select message from run where tenant_id = ${tenant} and owner = ${owner} and message is not null
    ), named as materialized (
      select distinct hit[1] as id from said, regexp_matches(text, '"([0-9a-f]{64})"', 'g') as hit
    )
    select id from file where tenant_id = ${tenant} and owner = ${owner} and at < ${before}
      and id not in (select id from named) order by id`.execute(kysely);
  return rows.map(({ id }) => id);
}

interface Batch {
  owner: Omit<Row, 'id'>;
  ids: readonly string[];
  before: Date;
}

/** Each is looked at once more: it may have been sent again meanwhile. */
async function removeBatch(database: Database, blobs: Blobs, { owner, ids, before }: Batch): Promise<number> {
  const { tenant, owner: name } = owner;
  const blobOwner = { tenant: fromColumn(tenant), owner: fromColumn(name) };
  return await alone(database, async (transaction) => {
    const found = await sql<{ id: string }>`select id from file where tenant_id = ${tenant} and owner = ${name}
      and id in (${sql.join(ids)}) and at < ${before} order by id for update`.execute(transaction);
    const gone: string[] = [];
    for (const { id } of found.rows) if (await blobs.remove(blobOwner, id, before)) gone.push(id);
    if (gone.length) {
      await sql`delete from file where tenant_id = ${tenant} and owner = ${name} and id in (${sql.join(gone)})`.execute(
        transaction,
      );
    }
    return gone.length;
  });
}
