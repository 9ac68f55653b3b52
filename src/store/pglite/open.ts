import { existsSync, mkdirSync, renameSync, rmSync, rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Kysely, PostgresDialect } from 'kysely';
import type { Log } from '../../kernel/index.ts';
import { AgentError, messageOf } from '../../kernel/index.ts';
import type { Database } from '../database.ts';
import { storeError } from '../errors.ts';
import type { Schema } from '../schema.ts';
import { inspectDirectory, toRealPath } from './directory.ts';
import { syncDirectory } from './durable-fs.ts';
import { startWorker } from './link.ts';
import type { Link } from './link.ts';
import { lockDirectory } from './lock.ts';
import { createMaintenance } from './maintenance.ts';
import { createPglitePool } from './pool.ts';

export interface PgliteDatabase extends Database {
  readonly kind: 'pglite';
  /** How often PostgreSQL has synced a file since the start. */
  syncs(): Promise<number>;
}

const DRAIN_MS = 10_000;

/**
 * Opens the embedded database, and makes it first if the directory is absent or empty (3-4 s). At most one process a
 * directory. Rejects with `store.locked`, `store.unreadable` or `store.not_durable`; then nothing in it was changed.
 */
export async function openPglite(directory: string, { log }: { log?: Log | undefined } = {}): Promise<PgliteDatabase> {
  let path = directory;
  let lock: Disposable | undefined;
  try {
    path = toRealPath(directory);
    inspectDirectory(path);
    mkdirSync(dirname(path), { recursive: true });
    lock = lockDirectory(path);
    if (inspectDirectory(path) === 'fresh') await make(path);
    return createDatabase(await startExisting(path), lock, log);
  } catch (error) {
    lock?.[Symbol.dispose]();
    if (error instanceof AgentError) throw error;
    throw storeError('unreadable', `The data directory ${path} cannot be opened: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** PostgreSQL's own pid file may appear in a directory that it then refuses; it goes again. */
async function startExisting(directory: string): Promise<Link> {
  const pidFile = join(directory, 'postmaster.pid');
  const hadPid = existsSync(pidFile);
  try {
    return await startWorker({ directory, isNew: false });
  } catch (error) {
    if (!hadPid) rmSync(pidFile, { force: true });
    throw error;
  }
}

/** Made beside its place and moved there when it is complete and on disk: a crash leaves no half of a database. */
async function make(directory: string): Promise<void> {
  const draft = `${directory}.unfinished`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  const link = await startWorker({ directory: draft, isNew: true });
  try {
    await link.send({ op: 'close', client: 0 });
  } finally {
    await link.stop();
  }
  if (existsSync(directory)) rmdirSync(directory);
  renameSync(draft, directory);
  syncDirectory(dirname(directory));
}

function createDatabase(link: Link, lock: Disposable, log?: Log): PgliteDatabase {
  const pool = createPglitePool(link, log);
  const maintenance = createMaintenance({ query: (text) => pool.query(text), log });
  const connect = async () => {
    maintenance.count();
    return pool.connect();
  };
  const kysely = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: { ...pool, connect } }) });

  async function close(): Promise<void> {
    try {
      maintenance.stop();
      await pool.drain(DRAIN_MS);
      await kysely.destroy();
      await link.send({ op: 'close', client: 0 });
    } catch (error) {
      // What was acknowledged is on disk already; the next start replays the log.
      log?.warn({ err: error }, `The embedded database was not closed in order: ${messageOf(error)}`);
    } finally {
      await link.stop();
      lock[Symbol.dispose]();
    }
  }

  let closing: Promise<void> | undefined;
  return {
    kind: 'pglite',
    lanes: 1,
    kysely,
    exec: (name, text, values) => {
      maintenance.count();
      return pool.exec(name, text, values);
    },
    syncs: async () => Number(await link.send({ op: 'syncs', client: 0 })),
    [Symbol.asyncDispose]: () => (closing ??= close()),
  };
}
