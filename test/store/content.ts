// Databases with rows in every table, and what all of their rows add up to.
import { sql } from 'kysely';
import type { Database } from '../../src/store/database.ts';
import { createSqlJournal } from '../../src/store/journal.ts';
import { hashTable } from '../../src/store/snapshot.ts';
import { plainSession, readTables } from '../../src/store/tables.ts';
import { toColumn } from '../../src/store/column.ts';

export const owner = { tenant: 'tenant', owner: 'ann' };

export interface FillConfig {
  conversations: number;
  entries: number;
  prefix?: string;
}

/** Conversations with entries that are hard on quoting, a run and a step each; the runs go on for ever. */
export async function fill(database: Database, { conversations, entries, prefix = 'c' }: FillConfig): Promise<void> {
  const journal = createSqlJournal(database);
  const text = '中文 "quoted" \\u0000 \\ \n\r\t\u2028 👩‍🚀 \ud800 %0000 \u0000 ' + 'x'.repeat(200);
  await Promise.all(
    Array.from({ length: conversations }, async (_, i) => {
      const run = crypto.randomUUID();
      const key = { ...owner, conversation: `${prefix}-${i}` };
      const message = { parts: [{ type: 'text' as const, text: `${i} ${text}` }] };
      const request = { agent: 'a', model: 'm' };
      await journal.submit({ ...key, run, worker: 'w', message, request });
      const bodies = Array.from({ length: entries - 1 }, () => ({ kind: 'user' as const, body: message }));
      const step = { n: 1, kind: 'model' as const, call: null, state: 'started' as const };
      const commit = { ...key, run, epoch: 1, commits: 0, worker: 'w', status: 'running' as const };
      await journal.commit({ ...commit, entries: bodies, steps: [step] });
    }),
  );
  const tombstone = { tenant_id: owner.tenant, owner: owner.owner, conversation: toColumn(`${prefix}\0`), version: 1 };
  await database.kysely
    .insertInto('tombstone')
    .values({ ...tombstone, hash: 'h' })
    .execute();
}

/** By table. */
export async function hashes(database: Database): Promise<Record<string, string>> {
  return await database.kysely.transaction().execute(async (transaction) => {
    await plainSession(transaction);
    const found: Record<string, string> = {};
    for (const table of await readTables(transaction)) {
      const { rows, sha256 } = await hashTable(transaction, table);
      found[table.name] = `${rows} ${sha256}`;
    }
    return found;
  });
}

export const countOf = async (database: Database, table: string): Promise<number> =>
  (await sql<{ n: number }>`select count(*)::int as n from ${sql.table(table)}`.execute(database.kysely)).rows[0]!.n;
