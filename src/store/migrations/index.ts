import { createHash } from 'node:crypto';
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { Migrator } from 'kysely/migration';
import { messageOf } from '../../kernel/index.ts';
import { storeError } from '../errors.ts';
import { core } from './0001-core.ts';
import { files } from './0002-files.ts';
import { feed } from './0003-feed.ts';
import { transcripts } from './0004-transcripts.ts';
import { transcriptWorkspace } from './0005-transcript-workspace.ts';
import { claim } from './0006-claim.ts';

/** Append-only: a released migration never changes. The same on both back ends. */
export const migrations: Record<string, Migration> = {
  '0001_core': core,
  '0002_files': files,
  '0003_feed': feed,
  '0004_transcripts': transcripts,
  '0005_transcript_workspace': transcriptWorkspace,
  '0006_claim': claim,
};

/** Stands among the applied migrations of a database that is no whole one yet, so that no release starts on it. */
export const UNFINISHED = 'zz_homard_grow_is_unfinished';

/**
 * Brings a database to this release; safe when several processes do it at once. Throws `store.newer_schema` when a newer
 * release was here, and changes nothing then; `store.unfinished` while another database is being moved into this one.
 * `upTo` names the last one wanted of a database that has fewer.
 */
export async function migrate<T>(db: Kysely<T>, upTo?: string): Promise<string[]> {
  const present = await appliedTo(db);
  if (present.includes(UNFINISHED)) {
    throw storeError('unfinished', 'An embedded database is being moved into this one, and not all of it has arrived.');
  }
  if (isCurrent(present)) return [];
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  const { error, results } = await (upTo === undefined ? migrator.migrateToLatest() : migrator.migrateTo(upTo));
  if (!error) return (results ?? []).map((result) => result.migrationName);
  const message = messageOf(error);
  if (message.includes('corrupted migrations')) {
    throw storeError('newer_schema', 'The database was written by a newer version of Homard.', { cause: error });
  }
  throw storeError('migration_failed', `The database could not be brought to this version: ${message}`, {
    cause: error,
  });
}

/** One cheap statement at each start, where the migrator takes several, locks, and looks into the catalogue. */
export async function appliedTo<T>(db: Kysely<T>): Promise<string[]> {
  return await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db).then(
    ({ rows }) => rows.map(({ name }) => name),
    () => [], // a new database has no such table, and whatever else is wrong the migrator tells
  );
}

const isCurrent = (applied: readonly string[]): boolean =>
  applied.length === Object.keys(migrations).length && applied.every((name) => Object.hasOwn(migrations, name));

/** Names what migrations do, by the statements they would run: a packed database with another fingerprint is stale. */
export async function fingerprintOf(steps: Record<string, Migration> = migrations): Promise<string> {
  const hash = createHash('sha256');
  const nowhere = new Kysely<never>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => void hash.update(`${query.sql}\0`),
  });
  for (const [name, { up }] of Object.entries(steps)) {
    hash.update(`${name}\0`);
    await up(nowhere);
  }
  return hash.digest('hex').slice(0, 12);
}
