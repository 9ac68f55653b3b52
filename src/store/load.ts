// Puts the rows of a backup into an empty database, and looks whether they arrived.
import type { Transaction } from 'kysely';
import { sql } from 'kysely';
import type { ArchiveContent, ArchiveSink } from './archive-reader.ts';
import type { ArchiveHeader } from './archive.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { appliedTo, migrate, migrations } from './migrations/index.ts';
import type { Schema } from './schema.ts';
import { hashTable } from './snapshot.ts';
import type { Table } from './tables.ts';
import { continueSequences, insertLines, plainSession, readTables } from './tables.ts';

export interface LoadConfig {
  /** Reads the archive into a sink. */
  read: (sink: ArchiveSink) => Promise<ArchiveContent>;
  /** Where the contents of files and secrets go. */
  sink: Pick<ArchiveSink, 'file' | 'secrets'>;
  /** For people. */
  place: string;
  /** The database was made for this: what is in it may be dropped. */
  isDraft?: boolean;
}

/**
 * All rows or none, with equal hashes; then the database is brought to this release. Throws `store.not_empty`,
 * `store.backup_newer`, `store.backup_damaged`.
 */
export async function loadArchive(
  database: Database,
  { read, sink, place, isDraft = false }: LoadConfig,
): Promise<ArchiveContent> {
  const { kysely } = database;
  let transaction: Awaited<ReturnType<ReturnType<typeof kysely.startTransaction>['execute']>> | undefined;
  let tables = new Map<string, Table>();
  const begin = async (header: ArchiveHeader) => {
    assertKnown(header);
    // Before anything is changed; once more below, where nobody can come between.
    if (!isDraft) await assertEmpty(kysely, await readTables(kysely), place);
    await toLevelOf(database, { applied: header.migrations, place, isDraft });
    transaction = await kysely.startTransaction().execute();
    await plainSession(transaction);
    tables = new Map((await readTables(transaction)).map((table) => [table.name, table]));
    await claimEmpty(transaction, [...tables.values()], place);
  };
  try {
    const content = await read({
      ...sink,
      begin,
      rows: async ({ name, columns }, lines) => {
        const table = tables.get(name);
        if (!table || !columns.every((column) => table.columns.some((known) => known.name === column))) {
          throw storeError(
            'backup_damaged',
            `The backup holds a table ${JSON.stringify(name)} that its release had not.`,
          );
        }
        await insertLines(table, columns, lines).execute(transaction!);
      },
    });
    await compare(transaction!, content, tables);
    await continueSequences(transaction!, [...tables.values()]);
    await transaction!.commit().execute();
    await migrate(kysely);
    return content;
  } catch (error) {
    if (transaction && !transaction.isCommitted && !transaction.isRolledBack) {
      // The first error counts; a connection that was lost has rolled back by itself.
      await transaction
        .rollback()
        .execute()
        .catch(() => undefined);
    }
    throw error;
  }
}

/** Throws `store.backup_newer`. */
export function assertKnown({ migrations: applied, version }: ArchiveHeader): void {
  const unknown = applied.find((name) => !Object.hasOwn(migrations, name));
  if (unknown === undefined) return;
  throw storeError('backup_newer', `The backup was made by Homard ${version}, which knows more (${unknown}).`);
}

interface Level {
  applied: readonly string[];
  place: string;
  isDraft: boolean;
}

/** An older backup is loaded into the tables of its time, and brought up with them. */
async function toLevelOf(database: Database, { applied, place, isDraft }: Level): Promise<void> {
  const { kysely } = database;
  let present = await appliedTo(kysely);
  if (present.length > applied.length && isDraft) {
    // A new database comes with the tables of this release.
    await sql`drop schema public cascade`.execute(kysely);
    await sql`create schema public`.execute(kysely);
    present = [];
  }
  if (present.length > applied.length) {
    throw storeError('not_empty', `${place} was set up by a newer release than the backup is of.`, {
      hint: 'Give an empty database, without any table of Homard.',
    });
  }
  const last = applied.at(-1);
  if (last !== undefined && present.length < applied.length) await migrate(kysely, last);
}

/** Throws `store.not_empty`. Whoever would write at this moment waits until the end of the transaction. */
export async function claimEmpty(
  transaction: Transaction<Schema>,
  tables: readonly Table[],
  place: string,
): Promise<void> {
  if (tables.length) await sql`lock table ${sql.join(tables.map(({ name }) => sql.table(name)))}`.execute(transaction);
  await assertEmpty(transaction, tables, place);
}

async function assertEmpty(kysely: Database['kysely'], tables: readonly Table[], place: string): Promise<void> {
  const filled = await firstFilled(kysely, tables);
  if (filled !== undefined) throw storeError('not_empty', `${place} is not empty: it has rows in the table ${filled}.`);
}

/** A table that has rows. */
export async function firstFilled(kysely: Database['kysely'], tables: readonly Table[]): Promise<string | undefined> {
  for (const { name } of tables) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(kysely);
    if (rows.length) return name;
  }
  return undefined;
}

async function compare(
  transaction: Transaction<Schema>,
  { header, total }: ArchiveContent,
  tables: ReadonlyMap<string, Table>,
): Promise<void> {
  for (const { name, columns } of header.tables) {
    const table = tables.get(name);
    const ours = table?.columns.map((column) => column.name).join();
    const found = table && ours === columns.join() ? await hashTable(transaction, table) : undefined;
    if (found?.sha256 !== total.tables[name]?.sha256) {
      throw storeError(
        'backup_damaged',
        `The table ${JSON.stringify(name)} does not read back as it was in the backup.`,
      );
    }
  }
}
