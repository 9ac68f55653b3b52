// PostgreSQL 15 or newer as the database of many processes.
import { Kysely, PostgresDialect } from 'kysely';
import type { Pool, PoolConfig, QueryArrayConfig } from 'pg';
import type { Log } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import type { Schema } from './schema.ts';

const OLDEST = 15;
/** Every value as the text that PostgreSQL sent. */
const asText = { getTypeParser: () => (value: string | Buffer) => value };

/** Throws `store.pg_missing`, `store.unreachable`, `store.too_old`; no message holds the password. */
export async function openPostgres(url: string, { log }: { log: Log }): Promise<Database> {
  const pg = await loadClient();
  pg.types.setTypeParser(pg.types.builtins.INT8, Number);
  const config: PoolConfig = {
    connectionString: url,
    max: 10,
    application_name: 'homard',
    statement_timeout: 30_000,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  };
  const pool = new pg.Pool(config);
  pool.on('error', (error) => log.warn({ err: error }, `A database connection was lost: ${messageOf(error)}`));
  try {
    await checkVersion(pool, url);
  } catch (error) {
    await pool.end();
    throw error;
  }
  return {
    kind: 'postgres',
    lanes: 2,
    kysely: new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) }),
    async exec(name, text, values) {
      const query: QueryArrayConfig = { name, text, values: [...values], rowMode: 'array', types: asText };
      return (await pool.query<(string | null)[]>(query)).rows;
    },
    [Symbol.asyncDispose]: () => pool.end(),
  };
}

async function loadClient(): Promise<Pick<typeof import('pg'), 'Pool' | 'types'>> {
  try {
    return (await import('pg')).default;
  } catch (error) {
    throw storeError('pg_missing', 'HOMARD_DATABASE_URL is set, but the PostgreSQL client is not installed.', { cause: error });
  }
}

async function checkVersion(pool: Pool, url: string): Promise<void> {
  let version: number;
  try {
    const { rows } = await pool.query<{ server_version_num: string }>('show server_version_num');
    version = Math.floor(Number(rows[0]?.server_version_num) / 10_000);
  } catch (error) {
    throw storeError('unreachable', `PostgreSQL at ${whereOf(url)} cannot be used: ${messageOf(error)}`, { cause: error });
  }
  if (version < OLDEST) throw storeError('too_old', `PostgreSQL at ${whereOf(url)} is version ${version}.`);
}

/** Host and database of a url, never user or password. */
function whereOf(url: string): string {
  if (!URL.canParse(url)) return 'the given address';
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}
