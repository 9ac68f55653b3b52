// Whether what is stored can be read and adds up: a little of it at each start, all of it when asked for.
import { sql } from 'kysely';
import { messageOf } from '../kernel/index.ts';
import { fromColumn } from './column.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { hashTable } from './snapshot.ts';
import { plainSession, readTables } from './tables.ts';

/** Milliseconds at a start are dear: the newest conversations are the ones that go on. */
const NEWEST = 20;

/**
 * Reads the first rows of each table, and whether the newest conversations have the entries that their rows tell of. Answers
 * a sentence for each that has not; throws `store.damaged` for what cannot be read at all.
 */
export async function checkNewest(database: Database): Promise<string[]> {
  for (const { name } of await readTables(database.kysely)) {
    await readable(name, sql`select * from ${sql.table(name)} limit 5`.execute(database.kysely));
  }
  return await readable('journal', findGaps(database, NEWEST));
}

export interface DeepCheck {
  tables: { name: string; rows: number }[];
  /** Sentences; empty: all is well. */
  problems: string[];
}

/** Reads every row. What cannot be read is a problem, and the rest is read all the same. */
export async function checkDeeply(database: Database): Promise<DeepCheck> {
  const tables: DeepCheck['tables'] = [];
  const problems: string[] = [];
  const collect = async (work: () => Promise<void>) => {
    await work().catch((error: unknown) => void problems.push(messageOf(error)));
  };
  for (const table of await readTables(database.kysely)) {
    await collect(async () => {
      const read = database.kysely.transaction().execute(async (transaction) => {
        await plainSession(transaction);
        return await hashTable(transaction, table);
      });
      tables.push({ name: table.name, rows: (await readable(table.name, read)).rows });
    });
  }
  await collect(async () => void problems.push(...(await readable('journal', findGaps(database, 1_000_000_000)))));
  return { tables, problems };
}

async function readable<T>(table: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code !== 'XX001' && code !== 'XX002') throw error;
    throw storeError('damaged', `The table ${table} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}

/** A conversation has all entries up to its version; a fork those behind the ones that it shares. */
async function findGaps({ kysely }: Database, newest: number): Promise<string[]> {
  const { rows } = await sql<{ id: string; owner: string; version: number; wanted: number; found: number }>`
    select c.id, c.owner, c.version, c.version - coalesce(c.parent_seq, 0) as wanted, j.found::int as found
    from (select * from conversation order by updated_at desc limit ${newest}) c, lateral (
      select count(*) filter (where length(body) > 0) as found, max(seq) as last, max(bytes_to) as bytes from journal
      where tenant_id = c.tenant_id and owner = c.owner and conversation = c.id and seq > coalesce(c.parent_seq, 0)) j
    where j.found <> c.version - coalesce(c.parent_seq, 0)
      or (j.found > 0 and (j.last <> c.version or j.bytes <> c.bytes))
    limit 5`.execute(kysely);
  return rows.map(({ id, owner, wanted, found }) => {
    const name = `${JSON.stringify(fromColumn(id))} of ${JSON.stringify(fromColumn(owner))}`;
    return `The conversation ${name} has ${found} of ${wanted} entries, or not the ones that it tells of.`;
  });
}
