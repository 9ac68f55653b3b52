import { Kysely, PostgresDialect } from 'kysely';
import type { ClientBase, ClientConfig, CustomTypesConfig, Pool } from 'pg';
import type { Log } from '../kernel/index.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import type { Database, Value } from './database.ts';
import { storeError } from './errors.ts';
import type { Schema } from './schema.ts';

type Pg = (typeof import('pg'))['default'];

const INT8 = 20;
const OLDEST = 150_000;
const asText: CustomTypesConfig = { getTypeParser: () => (value: string) => value };
/** No client-side timeout: a commit that a timer gave up on may still have happened. */
const SESSION = "set statement_timeout = '30s'; set timezone = 'UTC'; set datestyle = 'ISO'";

/** The key of the advisory lock that every connection of a server shares, and that a move into the database has alone. */
export const PRESENCE = 114_849_160_196_708;

export interface PostgresConfig {
  log?: Log | undefined;
  /** See OpenConfig. */
  isServer?: boolean | undefined;
}

/**
 * Connects to PostgreSQL 15 or newer: at most 10 connections, statements of at most 30 s. Rejects with
 * `store.pg_missing`, `store.unreachable`, `store.too_old` or `store.unfinished`; no message holds the password.
 */
export async function openPostgres(url: string, options: PostgresConfig = {}): Promise<Database> {
  const pg = await loadPg();
  const place = placeOf(pg, url);
  const pool = createPool(pg, url, options);
  try {
    await checkServer(pool, place);
  } catch (error) {
    await pool.end();
    throw error;
  }
  const kysely = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  let closing: Promise<void> | undefined;
  return {
    kind: 'postgres',
    lanes: 2,
    kysely,
    exec: async (name: string, text: string, values: readonly Value[]) => {
      const query = { name, text, values: [...values], rowMode: 'array' as const, types: asText };
      return (await pool.query<(string | null)[]>(query)).rows;
    },
    [Symbol.asyncDispose]: () => (closing ??= pool.end()),
  };
}

async function loadPg(): Promise<Pg> {
  try {
    return (await import('pg')).default;
  } catch (error) {
    throw storeError('pg_missing', 'PostgreSQL is configured, but its client package "pg" is not installed.', {
      cause: error,
    });
  }
}

/** Host and database for people. The errors of a bad URL quote it whole, so they are not passed on. */
function placeOf(pg: Pg, url: string): string {
  try {
    if (!/^postgres(ql)?:\/\//.test(url)) throw new TypeError('Not a PostgreSQL URL');
    const { host, port, database } = new pg.Client({ connectionString: url });
    return `${host}:${port}, database "${database ?? ''}"`;
  } catch {
    throw storeError('unreachable', 'The database URL is not of the form postgres://user:password@host:5432/database.');
  }
}

function createPool(pg: Pg, url: string, { log, isServer = false }: PostgresConfig): Pool {
  const parserOf = pg.types.getTypeParser as (oid: number, format?: string) => unknown;
  const types: CustomTypesConfig = {
    getTypeParser: (oid: number, format?: string) => (oid === INT8 ? Number : parserOf(oid, format)),
  };
  const config: ClientConfig = {
    connectionString: url,
    application_name: 'homard',
    types,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  };
  const pool = new pg.Pool({
    ...config,
    max: 10,
    // An idle server is still there for others to see.
    min: isServer ? 1 : 0,
    onConnect: (client) => prepareSession(client, isServer) as unknown as void,
  });
  // A connection that the server closes is replaced at the next use, and fails what runs on it. Without listeners it would
  // end the process: the pool's own one is there only while the connection is idle, not within a transaction.
  pool.on('connect', (client) => {
    let isTold = false;
    client.on('error', (error) => {
      if (!isTold) log?.warn({ err: error }, `A PostgreSQL connection was lost: ${messageOf(error)}`);
      isTold = true;
    });
  });
  pool.on('error', () => undefined); // told above
  return pool;
}

async function prepareSession(client: ClientBase, isServer: boolean): Promise<void> {
  await client.query(SESSION);
  if (!isServer) return;
  const { rows } = await client.query<{ ok: boolean }>(`select pg_try_advisory_lock_shared(${PRESENCE}) as ok`);
  if (!rows[0]?.ok) throw storeError('unfinished', 'An embedded database is being moved into this one right now.');
}

async function checkServer(pool: Pool, place: string): Promise<void> {
  let version: string | undefined;
  try {
    version = (await pool.query<{ server_version_num: string }>('show server_version_num')).rows[0]?.server_version_num;
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw storeError('unreachable', `Cannot use PostgreSQL at ${place}: ${reasonOf(error)}`, { cause: error });
  }
  if (Number(version) < OLDEST) {
    throw storeError('too_old', `PostgreSQL at ${place} has version ${Math.floor(Number(version) / 10_000)}.`);
  }
}

/** localhost gives one error an address; the first one says enough. */
function reasonOf(error: unknown): string {
  return messageOf(error instanceof AggregateError ? error.errors[0] : error);
}
