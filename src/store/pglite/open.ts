import { existsSync, mkdirSync, renameSync, rmSync, rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Log } from '../../kernel/index.ts';
import type { Database } from '../database.ts';
import { toOpenError } from '../errors.ts';
import { inspectDirectory, toRealPath } from './directory.ts';
import { syncDirectory, syncTree } from './durable-fs.ts';
import { startWorker } from './link.ts';
import type { Link } from './link.ts';
import { lockDirectory } from './lock.ts';
import { createRevivingLink } from './revive.ts';
import { unpackTemplate } from './template.ts';

export interface PgliteDatabase extends Database {
  readonly kind: 'pglite';
  /** How often PostgreSQL has synced a file since the start. */
  syncs(): Promise<number>;
}

export interface PgliteConfig {
  log?: Log | undefined;
  /** Names the file of a packed database that a new directory becomes a copy of; without it, or that file, initdb runs. */
  template?: (() => Promise<string>) | undefined;
}

/**
 * Opens the embedded database, and makes it first if the directory is absent or empty: from the template where there is
 * one, else by initdb (3-10 s). At most one process a directory. Rejects with `store.locked`, `store.unreadable` or
 * `store.not_durable`, or `store.disk_full`; then nothing in it was changed.
 */
export async function openPglite(directory: string, config: PgliteConfig = {}): Promise<PgliteDatabase> {
  let path = directory;
  let lock: Disposable | undefined;
  let link: Link | undefined;
  try {
    path = toRealPath(directory);
    inspectDirectory(path);
    mkdirSync(dirname(path), { recursive: true });
    lock = lockDirectory(path);
    // Loads the engine while the directory is made.
    link = startWorker();
    if (inspectDirectory(path) === 'fresh') await make(path, config.template);
    const opened = openExisting(link, path);
    // Kysely is loaded while the engine starts.
    const [{ createDatabase }] = await Promise.all([import('./database.ts'), opened]);
    const open = async () => {
      const again = startWorker();
      await openExisting(again, path);
      return again;
    };
    return createDatabase(createRevivingLink(link, { directory: path, open, log: config.log }), lock, config.log);
  } catch (error) {
    await link?.stop();
    lock?.[Symbol.dispose]();
    throw toOpenError(`The data directory ${path} cannot be opened`, error);
  }
}

/** PostgreSQL's own pid file may appear in a directory that it then refuses; it goes again. */
async function openExisting(link: Link, directory: string): Promise<void> {
  const pidFile = join(directory, 'postmaster.pid');
  const hadPid = existsSync(pidFile);
  try {
    await link.open({ directory, isNew: false });
  } catch (error) {
    if (!hadPid) rmSync(pidFile, { force: true });
    throw error;
  }
}

/** Made beside its place and moved there when it is complete and on disk: a crash leaves no half of a database. */
async function make(directory: string, template: PgliteConfig['template']): Promise<void> {
  const draft = `${directory}.unfinished`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  // A bundle may have no place for one: initdb makes the same.
  const file = await template?.().catch(() => undefined);
  const isUnpacked = file !== undefined && (await unpackTemplate(file, draft));
  if (!isUnpacked) await initialise(draft);
  await syncTree(draft);
  if (existsSync(directory)) rmdirSync(directory);
  renameSync(draft, directory);
  syncDirectory(dirname(directory));
}

/** PostgreSQL's initdb, in a thread of its own. Syncs nothing. */
async function initialise(directory: string): Promise<void> {
  const link = startWorker();
  try {
    await link.open({ directory, isNew: true });
    await link.send({ op: 'close', client: 0 });
  } finally {
    await link.stop();
  }
}
