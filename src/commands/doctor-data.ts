// What homard doctor looks at in the data: directory, disk, secrets, who has the lock, the database itself, backups.
import { constants } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { AgentError, messageOf } from '../kernel/index.ts';
import { readArchiveFile } from '../store/archive-reader.ts';
import { backupsIn, listBackups } from '../store/backup-file.ts';
import type { Database } from '../store/database.ts';
import { checkDeeply, checkNewest } from '../store/integrity.ts';
import { UNFINISHED, appliedTo, migrations } from '../store/migrations/index.ts';
import { openDatabase } from '../store/open.ts';
import { inspectDirectory, toRealPath } from '../store/pglite/directory.ts';
import { SECRET_FILES } from '../store/secret-files.ts';
import { toSize } from './backup.ts';
import type { Collect, DoctorConfig, Finding, RunningServer } from './doctor.ts';
import { toProblem } from './doctor.ts';

type Found = Omit<Finding, 'name'>;

const FEW_BYTES = 500_000_000;
const TOO_FEW_BYTES = 50_000_000;
const OLD_BACKUP_DAYS = 3;

export async function inspectDirectoryOf({ directory }: DoctorConfig, collect: Collect): Promise<void> {
  const found = await stat(directory).catch(() => undefined);
  await collect('data directory', async () => {
    if (!found) return { state: 'ok', message: `${directory} is made at the first start` };
    if (!found.isDirectory()) {
      return { state: 'problem', message: `${directory} is a file.`, hint: 'Choose another HOMARD_DATA.' };
    }
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    return isPrivate(found.mode)
      ? { state: 'ok', message: directory }
      : { state: 'problem', message: `${directory} can be read by others.`, hint: `chmod 700 ${directory}` };
  });
  if (!found) return;
  await collect('disk', async () => {
    const { bavail, bsize } = await statfs(directory);
    const free = bavail * bsize;
    const state = free < TOO_FEW_BYTES ? 'problem' : free < FEW_BYTES ? 'warning' : 'ok';
    const hint = 'Make space: below 32 MB the server takes no more messages.';
    return { state, message: `${toSize(free)} free`, ...(state !== 'ok' && { hint }) };
  });
  await collect('secrets', async () => {
    const open: string[] = [];
    for (const name of SECRET_FILES) {
      const file = await stat(join(directory, name)).catch(() => undefined);
      if (file && !isPrivate(file.mode)) open.push(join(directory, name));
    }
    if (!open.length) return { state: 'ok', message: 'for this user only' };
    return { state: 'problem', message: `Others can read ${open.join(' ')}.`, hint: `chmod 600 ${open.join(' ')}` };
  });
}

const isPrivate = (mode: number): boolean => process.platform === 'win32' || (mode & 0o077) === 0;

interface DatabaseLook {
  config: DoctorConfig;
  server: RunningServer | undefined;
  version: string;
  isDeep: boolean;
  collect: Collect;
}

export async function inspectDatabase(look: DatabaseLook): Promise<void> {
  const { config, server, version, isDeep, collect } = look;
  const { directory, databaseUrl } = config;
  if (!databaseUrl && isFresh(directory)) {
    return await collect('database', () => Promise.resolve({ state: 'ok', message: 'made at the first start' }));
  }
  let database: Database;
  try {
    database = await openDatabase({ directory, url: databaseUrl });
  } catch (error) {
    const isLocked = error instanceof AgentError && error.code === 'store.locked';
    return await collect('database', async () => (isLocked ? await askServer(server, isDeep) : toUnreadable(error)));
  }
  await using opened = database;
  await collect('schema', async () => schemaOf(await appliedTo(opened.kysely), version));
  await collect('database', () => (isDeep ? lookDeeply(opened) : lookBriefly(opened)));
}

/** A directory that cannot be looked at is told by the opening. */
function isFresh(directory: string): boolean {
  try {
    return inspectDirectory(toRealPath(join(directory, 'db'))) === 'fresh';
  } catch {
    return false;
  }
}

function toUnreadable(error: unknown): Found {
  if (!(error instanceof AgentError) || error.code !== 'store.unreadable') return toProblem(error);
  return {
    ...toProblem(error),
    hint: 'Restore the newest backup: homard restore <file> --replace keeps this one aside.',
  };
}

function schemaOf(applied: string[], version: string): Found {
  if (applied.includes(UNFINISHED)) {
    return {
      state: 'problem',
      message: 'A move into this database is not finished.',
      hint: 'Run "homard grow" again.',
    };
  }
  const unknown = applied.filter((name) => !Object.hasOwn(migrations, name));
  if (unknown.length) {
    const message = `The database is newer than Homard ${version}: ${unknown.join(', ')}.`;
    return { state: 'problem', message, hint: 'Start the newer release, or restore a backup from before it.' };
  }
  const missing = Object.keys(migrations).length - applied.length;
  if (!missing) return { state: 'ok', message: `that of Homard ${version}` };
  const hint = 'The next start does it, or "homard migrate". Make a backup before.';
  return { state: 'warning', message: `${missing} steps behind Homard ${version}.`, hint };
}

async function lookBriefly(database: Database): Promise<Found> {
  const problems = await checkNewest(database);
  if (problems.length) return toGaps(problems);
  const [row] = await database.exec('doctor', 'select count(*) from conversation', []);
  return { state: 'ok', message: `${database.kind}, ${row?.[0]} conversations, the newest ones are whole` };
}

async function lookDeeply(database: Database): Promise<Found> {
  const { tables, problems } = await checkDeeply(database);
  if (problems.length) return toGaps(problems);
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  return { state: 'ok', message: `${database.kind}, all ${rows} rows of ${tables.length} tables were read` };
}

function toGaps(problems: string[]): Found {
  const hint = '"homard restore <file> --replace" brings the newest backup back, and keeps this database aside.';
  return { state: 'problem', message: problems.join(' '), hint };
}

/** The embedded database of a running server: only the server can look at it. */
async function askServer(server: RunningServer | undefined, isDeep: boolean): Promise<Found> {
  if (!server) {
    const hint = 'Stop that process; a server says where it listens in the file server.json of the data directory.';
    return { state: 'problem', message: 'Another process has the database, and does not say who it is.', hint };
  }
  const headers = { ...(server.token !== undefined && { authorization: `Bearer ${server.token}` }) };
  const place = `the server at ${server.address} (process ${server.pid})`;
  let health: { status?: string; version?: string; problem?: { reason: string; hint: string } };
  try {
    const response = await fetch(`${server.address}/health`, { headers, signal: AbortSignal.timeout(5000) });
    health = (await response.json()) as typeof health;
  } catch (error) {
    const hint = 'Look at its log; restart it.';
    return { state: 'problem', message: `${place} has the database and does not answer: ${messageOf(error)}`, hint };
  }
  if (health.problem) return { state: 'problem', message: health.problem.reason, hint: health.problem.hint };
  if (health.status !== 'ok')
    return { state: 'problem', message: `${place} says: ${health.status}`, hint: 'Restart it.' };
  const message = `${place}, Homard ${health.version ?? '?'}, says: ok`;
  return isDeep ? { state: 'warning', message, hint: 'Stop the server for --deep.' } : { state: 'ok', message };
}

export async function inspectBackups(
  { directory, databaseUrl }: DoctorConfig,
  { collect, isDeep }: { collect: Collect; isDeep: boolean },
): Promise<void> {
  if (!databaseUrl && isFresh(directory)) return;
  await collect('backups', async () => {
    const folder = backupsIn(directory);
    const [newest] = await listBackups(folder);
    const hint = '"homard backup" makes one; a server with "backup.everyHours" makes them by itself.';
    if (!newest) return { state: 'warning', message: `There is none in ${folder}.`, hint };
    const days = (Date.now() - newest.at.getTime()) / 86_400_000;
    const message = `${newest.path}, ${toSize(newest.bytes)}, ${days < 1 ? 'of today' : `${Math.floor(days)} days old`}`;
    if (isDeep) await readArchiveFile(newest.path);
    if (days > OLD_BACKUP_DAYS) return { state: 'warning', message, hint };
    return { state: 'ok', message: isDeep ? `${message}, whole` : message };
  });
}
