// Backups as files: whole or not there, read once more before they count, and the oldest ones removed.
import { once } from 'node:events';
import { readFile, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PassThrough, Readable, pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import { createBlobs } from '../files/blobs.ts';
import { openDraft } from '../files/atomic.ts';
import type { ArchiveContent } from './archive-reader.ts';
import { readArchive } from './archive-reader.ts';
import { writeArchive } from './archive.ts';
import type { Database } from './database.ts';
import { SECRET_FILES } from './secret-files.ts';
import { isSettingAside } from './snapshot.ts';
import { assertRoom } from './space.ts';

export interface PackConfig {
  /** Data directory. */
  directory: string;
  /** The release that writes. */
  version: string;
  hasSecrets?: boolean;
  /** The backup is written to the data directory, too. */
  isKept?: boolean;
  /** Nobody else uses the database before the backup is read to its end. */
  isAlone?: boolean;
  /** Milliseconds to wait after each 64 KB, so that other work comes first. */
  pauseMs?: number;
}

/** A whole backup as packed bytes; destroying it frees the snapshot. Throws `store.disk_full` where there is no room. */
export async function packArchive(database: Database, config: PackConfig): Promise<Readable> {
  const { directory, version, hasSecrets = false, isKept = false, isAlone = false, pauseMs = 0 } = config;
  await assertRoom(database, { directory, isKept, isSetAside: isSettingAside(database, isAlone) });
  const blobs = createBlobs(join(directory, 'files'));
  const secrets = hasSecrets ? await loadSecrets(directory) : undefined;
  const openFile: Parameters<typeof writeArchive>[1]['openFile'] = (owner, id) => blobs.open(owner, id);
  const lines = writeArchive(database, { version, openFile, pauseMs, isAlone, ...(secrets && { secrets }) });
  const zip = createGzip();
  // Whoever reads it is told of errors; the pipeline ends the other side.
  pipeline(Readable.from(lines, { highWaterMark: 2 }), zip, () => undefined);
  return zip;
}

async function loadSecrets(directory: string): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const name of SECRET_FILES) {
    try {
      secrets[name] = await readFile(join(directory, name), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return secrets;
}

/**
 * Writes packed bytes to `path`, over whatever is there, when they turned out to be a whole backup. Throws
 * `store.backup_damaged` where they are none.
 */
export async function saveBackup(
  source: AsyncIterable<Uint8Array>,
  path: string,
): Promise<ArchiveContent & { bytes: number }> {
  await using draft = await openDraft(dirname(path));
  const copy = new PassThrough();
  const reading = readArchive('The backup', copy);
  // Told below; a source that fails is told first.
  reading.catch(() => undefined);
  const failed = reading.then(
    () => undefined,
    () => 'failed',
  );
  let bytes = 0;
  try {
    for await (const chunk of source) {
      await draft.write(chunk);
      bytes += chunk.byteLength;
      if (!copy.write(chunk) && (await Promise.race([once(copy, 'drain').then(() => undefined), failed])) === 'failed')
        break;
    }
  } catch (error) {
    copy.destroy();
    throw error;
  }
  copy.end();
  const content = await reading;
  await draft.keepAs(path);
  return { ...content, bytes };
}

export interface BackupFile {
  path: string;
  at: Date;
  bytes: number;
}

const AUTOMATIC = /^auto-[\dTZ-]+\.gz$/;

/** For a name: to the second, in UTC, sorting as time does. */
const stampOf = (at: Date) => at.toISOString().replace(/\.\d+/, '').replaceAll(':', '');

/** Where the server keeps its own backups. */
export const backupsIn = (directory: string): string => join(directory, 'backups');

export const automaticName = (at: Date): string => `auto-${stampOf(at)}.gz`;
export const manualName = (at: Date): string => `homard-${stampOf(at)}.gz`;

/** Whatever lies there, newest first. */
export async function listBackups(folder: string): Promise<BackupFile[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const found = names
    .filter((name) => name.endsWith('.gz'))
    .map(async (name): Promise<BackupFile> => {
      const { mtime, size } = await stat(join(folder, name));
      return { path: join(folder, name), at: mtime, bytes: size };
    });
  return (await Promise.all(found)).toSorted((a, b) => b.at.getTime() - a.at.getTime());
}

/** Keeps the newest `keep` of those that the server made itself. */
export async function removeOldBackups(folder: string, keep: number): Promise<void> {
  const names = (await readdir(folder)).filter((name) => AUTOMATIC.test(name)).toSorted();
  for (const name of names.slice(0, Math.max(0, names.length - keep))) await rm(join(folder, name), { force: true });
}
