// Moves an embedded database to PostgreSQL: in batches, so that a move that was killed goes on where it was; a table counts
// as moved when all its rows read back with the same hash. See docs/ARCHITECTURE.md.
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { firstFilled } from './load.ts';
import { UNFINISHED, appliedTo, migrate, migrations } from './migrations/index.ts';
import { PRESENCE } from './postgres.ts';
import type { Schema } from './schema.ts';
import { hashTable, openSnapshot } from './snapshot.ts';
import type { Table } from './tables.ts';
import { continueSequences, insertLines, plainSession, readTables } from './tables.ts';

export interface MovedTable {
  name: string;
  rows: number;
  /** Of its rows on both sides. */
  sha256: string;
  /** Rows that an earlier, interrupted move had brought already. */
  resumed: number;
}

export interface GrowConfig {
  source: Database;
  target: Database;
  /** Told after each table. */
  onTable?: (table: MovedTable) => void;
  /** Told after each batch. */
  onBatch?: (batch: { name: string; rows: number }) => void;
}

/** Rows a transaction. */
const BATCH_ROWS = 1000;
const BATCH_BYTES = 2_000_000;

/**
 * Copies all rows; `source` must have no other user and is not changed but for leases, which end: its runs go on in the
 * target at once. Until all is there no server starts on the target. Throws `store.not_empty`, `store.in_use`,
 * `store.grow_differs`.
 */
export async function growDatabase(config: GrowConfig): Promise<MovedTable[]> {
  return await config.target.kysely.connection().execute(async (held) => {
    const { rows } = await sql<{ ok: boolean }>`select pg_try_advisory_lock(${sql.lit(PRESENCE)}) as ok`.execute(held);
    if (!rows[0]?.ok) throw storeError('in_use', 'A server, or another move, works on the new database.');
    try {
      return await move(config);
    } finally {
      // A connection that was lost has freed it, and the first error counts.
      await sql`select pg_advisory_unlock(${sql.lit(PRESENCE)})`.execute(held).catch(() => undefined);
    }
  });
}

async function move({ source, target, onTable, onBatch }: GrowConfig): Promise<MovedTable[]> {
  const isResumed = await inspect(target);
  await migrate(source.kysely);
  await source.kysely
    .updateTable('run')
    .set({ lease_until: new Date(0) })
    .where('status', '=', 'running')
    .execute();
  if (!isResumed) await prepare(target);
  const tables = new Map((await readTables(target.kysely)).map((table) => [table.name, table]));
  await using snapshot = await openSnapshot(source);
  const moved: MovedTable[] = [];
  for (const table of snapshot.tables) {
    const theirs = tables.get(table.name);
    if (!theirs) throw storeError('grow_differs', `The new database has no table ${table.name}.`);
    const wanted = await hashAlone(source, table);
    const resumed = await startOf(target, { table: theirs, sha256: wanted.sha256 });
    // In the order of the source's columns on both sides: one that a migration added may stand elsewhere.
    const columns = table.columns.map(({ name }) => name);
    for await (const batch of batchesOf(snapshot.lines(table), resumed)) {
      await send(target.kysely, { table: theirs, columns, batch });
      onBatch?.({ name: table.name, rows: batch.length });
    }
    const found = await hashAlone(target, { ...theirs, columns: table.columns });
    if (found.sha256 !== wanted.sha256) {
      throw storeError('grow_differs', `The table ${table.name} does not read back as it was sent.`);
    }
    moved.push({ name: table.name, ...wanted, resumed });
    onTable?.(moved.at(-1)!);
  }
  await target.kysely.transaction().execute(async (transaction) => {
    await continueSequences(transaction, [...tables.values()]);
    await sql`drop table homard_grow`.execute(transaction);
    await sql`delete from kysely_migration where name = ${UNFINISHED}`.execute(transaction);
  });
  return moved;
}

/** Whether a move was interrupted there. What cannot be moved into is refused before anything is changed. */
async function inspect({ kysely }: Database): Promise<boolean> {
  const present = await appliedTo(kysely);
  if (present.includes(UNFINISHED)) {
    const known = Object.keys(migrations).join();
    if (present.filter((name) => name !== UNFINISHED).join() === known) return true;
    throw storeError('grow_differs', 'The interrupted move was begun by another release of Homard.');
  }
  await assertEmpty(kysely);
  return false;
}

/** Makes the tables, once. */
async function prepare({ kysely }: Database): Promise<void> {
  await migrate(kysely);
  await kysely.transaction().execute(async (transaction) => {
    const tables = await readTables(transaction);
    await sql`lock table ${sql.join(tables.map(({ name }) => sql.table(name)))}`.execute(transaction);
    await assertEmpty(transaction);
    await sql`create table homard_grow(name text primary key, sha256 text not null, rows bigint not null)`.execute(
      transaction,
    );
    await sql`insert into kysely_migration(name, timestamp) values (${UNFINISHED}, ${new Date().toISOString()})`.execute(
      transaction,
    );
  });
}

/** Throws `store.not_empty`. */
async function assertEmpty(kysely: Kysely<Schema>): Promise<void> {
  const filled = await firstFilled(kysely, await readTables(kysely));
  if (filled === undefined) return;
  const hint = 'Nothing was changed. Give "homard grow" an empty database.';
  throw storeError('not_empty', `The new database is not empty: it has rows in the table ${filled}.`, { hint });
}

async function hashAlone(database: Database, table: Table) {
  return await database.kysely.transaction().execute(async (transaction) => {
    await plainSession(transaction);
    return await hashTable(transaction, table);
  });
}

/** How many rows are there already. What the move brought of another state of the source goes first. */
async function startOf({ kysely }: Database, { table, sha256 }: { table: Table; sha256: string }): Promise<number> {
  return await kysely.transaction().execute(async (transaction) => {
    const { rows } = await sql<{ rows: number; sha256: string }>`select rows, sha256 from homard_grow
      where name = ${table.name}`.execute(transaction);
    if (rows[0]?.sha256 === sha256) return rows[0].rows;
    if (rows[0]) await sql`delete from ${sql.table(table.name)}`.execute(transaction);
    else if ((await firstFilled(transaction, [table])) !== undefined) {
      throw storeError(
        'grow_differs',
        `The table ${table.name} of the new database has rows that this move did not bring.`,
      );
    }
    await sql`insert into homard_grow values (${table.name}, ${sha256}, 0)
      on conflict (name) do update set sha256 = excluded.sha256, rows = 0`.execute(transaction);
    return 0;
  });
}

/** Without the first `skip` lines. */
async function* batchesOf(lines: AsyncIterable<string>, skip: number): AsyncGenerator<string[]> {
  let batch: string[] = [];
  let bytes = 0;
  let seen = 0;
  for await (const line of lines) {
    if (++seen <= skip) continue;
    batch.push(line);
    bytes += line.length;
    if (batch.length < BATCH_ROWS && bytes < BATCH_BYTES) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length) yield batch;
}

interface Batch {
  table: Table;
  columns: readonly string[];
  batch: readonly string[];
}

/** The rows and their number in one transaction: a batch is there once, whenever the move is killed. */
async function send(kysely: Kysely<Schema>, { table, columns, batch }: Batch): Promise<void> {
  await kysely.transaction().execute(async (transaction) => {
    await plainSession(transaction);
    await insertLines(table, columns, batch).execute(transaction);
    await sql`update homard_grow set rows = rows + ${batch.length} where name = ${table.name}`.execute(transaction);
  });
}
