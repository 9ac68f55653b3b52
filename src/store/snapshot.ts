// All tables at one instant, row by row, while others write.
import { createHash } from 'node:crypto';
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Database } from './database.ts';
import { appliedTo } from './migrations/index.ts';
import type { Schema } from './schema.ts';
import type { Table } from './tables.ts';
import { plainSession, readTables, selectLines } from './tables.ts';

export interface Snapshot extends AsyncDisposable {
  tables: Table[];
  /** Applied migrations, in their order. */
  migrations: string[];
  /** Rows at that instant, by table. */
  counts: Map<string, number>;
  /** The rows of a table in its order, in constant memory; once. */
  lines(table: Table): AsyncGenerator<string>;
}

/** Rows a fetch, at first and at most; as many as give about FETCH_BYTES. */
const FETCH_ROWS = 16;
const MOST_ROWS = 512;
const FETCH_BYTES = 512 * 1024;

let cursors = 0;

/**
 * On a server: one repeatable-read transaction on a connection of its own. The embedded database has one connection, so its
 * rows are set aside at once, and read between the statements of the others. These wait for that long: 50 MB 0.3 to 0.5 s,
 * 200 MB 1.3 to 2.1 s, and so on. In slices it would be of more than one instant: what is deleted between two of them would
 * be missing. Whoever is alone there keeps the connection for the whole of it, and sets nothing aside.
 */
export async function openSnapshot(
  database: Database,
  { isAlone = false }: { isAlone?: boolean | undefined } = {},
): Promise<Snapshot> {
  const { kysely } = database;
  const transaction = await kysely.startTransaction().setIsolationLevel('repeatable read').execute();
  const isSetAside = isSettingAside(database, isAlone);
  const names = new Map<string, string>();
  try {
    await plainSession(transaction);
    const tables = await readTables(transaction);
    // A failing statement would end the transaction.
    const { rows: marks } = await sql`select 1 where to_regclass('kysely_migration') is not null`.execute(transaction);
    const migrations = marks.length ? await appliedTo(transaction) : [];
    const counts = new Map<string, number>();
    for (const table of tables) {
      const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(table.name)}`.execute(
        transaction,
      );
      counts.set(table.name, rows[0]!.n);
      const cursor = `homard_snapshot_${++cursors}`;
      names.set(table.name, cursor);
      await declare(transaction, { cursor, table, isHeld: isSetAside });
    }
    if (isSetAside) await transaction.commit().execute();
    const reader = isSetAside ? kysely : transaction;
    return {
      tables,
      migrations,
      counts,
      lines: ({ name }) => fetchAll(reader, names.get(name)!),
      async [Symbol.asyncDispose]() {
        // What cannot be ended has ended, with its connection; whatever broke that was told already.
        if (!isSetAside) await transaction.rollback().execute().catch(ignore);
        else for (const cursor of names.values()) await sql`close ${sql.id(cursor)}`.execute(kysely).catch(ignore);
      },
    };
  } catch (error) {
    if (!transaction.isCommitted && !transaction.isRolledBack) await transaction.rollback().execute().catch(ignore);
    throw error;
  }
}

const ignore = () => undefined;

/** Whether a snapshot takes room on the disk of the database. */
export const isSettingAside = ({ kind }: Database, isAlone: boolean): boolean => kind === 'pglite' && !isAlone;

/** SHA-256 over the rows of a table as `selectLines` gives them. Inside a transaction, after `plainSession`. */
export async function hashTable(transaction: Kysely<Schema>, table: Table): Promise<{ rows: number; sha256: string }> {
  const cursor = `homard_hash_${++cursors}`;
  await declare(transaction, { cursor, table, isHeld: false });
  const hash = createHash('sha256');
  let rows = 0;
  for await (const line of fetchAll(transaction, cursor)) {
    hash.update(line).update('\n');
    rows++;
  }
  await sql`close ${sql.id(cursor)}`.execute(transaction);
  return { rows, sha256: hash.digest('hex') };
}

interface Cursor {
  cursor: string;
  table: Table;
  /** Lives on after the transaction. */
  isHeld: boolean;
}

async function declare(transaction: Kysely<Schema>, { cursor, table, isHeld }: Cursor): Promise<void> {
  const hold = sql.raw(isHeld ? 'with hold' : '');
  await sql`declare ${sql.id(cursor)} no scroll cursor ${hold} for ${selectLines(table)}`.execute(transaction);
}

async function* fetchAll(kysely: Kysely<Schema>, cursor: string): AsyncGenerator<string> {
  for (let wanted = FETCH_ROWS; ;) {
    const { rows } = await sql<{ line: string }>`fetch ${sql.lit(wanted)} from ${sql.id(cursor)}`.execute(kysely);
    let bytes = 1;
    for (const { line } of rows) {
      bytes += line.length;
      yield line;
    }
    if (rows.length < wanted) return;
    wanted = Math.max(1, Math.min(wanted * 2, MOST_ROWS, Math.ceil((rows.length * FETCH_BYTES) / bytes)));
  }
}
