import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { Migrator } from 'kysely/migration';
import { messageOf } from '../../kernel/index.ts';
import { storeError } from '../errors.ts';
import { core } from './0001-core.ts';

/** Append-only: a released migration never changes. The same on both back ends. */
export const migrations: Record<string, Migration> = { '0001_core': core };

/**
 * Brings a database to this release; safe when several processes do it at once. Throws `store.newer_schema` when a newer
 * release was here, and changes nothing then.
 */
export async function migrate<T>(db: Kysely<T>): Promise<string[]> {
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  const { error, results } = await migrator.migrateToLatest();
  if (!error) return (results ?? []).map((result) => result.migrationName);
  const message = messageOf(error);
  if (message.includes('corrupted migrations')) {
    throw storeError('newer_schema', 'The database was written by a newer version of Homard.', { cause: error });
  }
  throw storeError('migration_failed', `The database could not be brought to this version: ${message}`, {
    cause: error,
  });
}
