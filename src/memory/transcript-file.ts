// One readable file on disk. Every byte of it has its place by what the record says, so that two processes which write it
// at once write the same; only the time of the last change is written over. Writing is synchronous: six calls of some
// microseconds each, where six promises through the thread pool were a fifth of a turn's CPU.
import { closeSync, constants, fstatSync, lstatSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { mkdir, open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { UPDATED_AT } from './transcript-format.ts';
import { toAsideName } from './transcript-names.ts';

/** It is as it was left as long as these are the same. Milliseconds. */
export interface FileState {
  bytes: number;
  mtime: number;
}

/** Through a link another place would be written to. Not on Windows, where making one takes rights. */
const NO_LINK = constants.O_NOFOLLOW ?? 0;

/** Writes behind the end of a file that is as it was left; undefined, and nothing written, where it is not. Without a time its length tells. */
export function append(
  path: string,
  left: Pick<FileState, 'bytes'> & { mtime: number | null },
  { text, updatedAt }: { text: string; updatedAt: string },
): FileState | undefined {
  const file = openFile(path);
  if (file === undefined) return undefined;
  try {
    const { size, mtimeMs } = fstatSync(file);
    if (size !== left.bytes || (left.mtime !== null && mtimeMs !== left.mtime)) return undefined;
    if (!text) return { bytes: size, mtime: mtimeMs };
    return writeAt(file, left.bytes, { text: Buffer.from(text), updatedAt });
  } finally {
    closeSync(file);
  }
}

/** A new file, with its folder; undefined, and nothing written, where there is one. */
export function create(path: string, text: string): FileState | undefined {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  let file: number;
  try {
    file = openSync(path, flags, 0o600);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return undefined;
    if (codeOf(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    file = openSync(path, flags, 0o600);
  }
  try {
    return writeAt(file, 0, { text: Buffer.from(text) });
  } finally {
    closeSync(file);
  }
}

/** Is it still as it was left? `mtime` null: its length tells. Throws where that cannot be seen. */
export function isAsLeft(path: string, left: { bytes: number; mtime: number | null }): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size === left.bytes && (left.mtime === null || found.mtimeMs === left.mtime);
}

/** The content; undefined where there is no file, null where there is something else. */
export async function load(path: string): Promise<Buffer | null | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | NO_LINK);
    try {
      return (await file.stat()).isFile() ? await file.readFile() : null;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    if (isElse(error)) return null;
    throw error;
  }
}

/** Completes a file that holds the beginning of `whole`; where it does not, or is another since it was read, nothing is written. */
export function complete(
  path: string,
  found: Buffer,
  { whole, updatedAt }: { whole: Buffer; updatedAt: string },
): FileState | 'differs' | 'changed' {
  const compared = Buffer.from(found);
  const { start, bytes } = UPDATED_AT;
  whole.copy(compared, Math.min(start, compared.length), start, start + bytes);
  if (compared.length > whole.length || !whole.subarray(0, compared.length).equals(compared)) return 'differs';
  const file = openFile(path);
  if (file === undefined) return 'changed';
  try {
    if (fstatSync(file).size !== found.length) return 'changed';
    return writeAt(file, found.length, { text: whole.subarray(found.length), updatedAt });
  } finally {
    closeSync(file);
  }
}

/** Keeps what is there under another name beside it, or in `folder` below its own; answers the new path. */
export async function setAside(path: string, place: { what: string } | { folder: string }): Promise<string> {
  const name = basename(path);
  const now = new Date();
  if ('what' in place) {
    const target = join(dirname(path), toAsideName(name, place.what, now));
    await rename(path, target);
    return target;
  }
  const folder = join(dirname(path), place.folder);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const isFree = (await load(join(folder, name))) === undefined;
  const target = join(folder, isFree ? name : toAsideName(name, place.folder, now));
  await rename(path, target);
  return target;
}

function openFile(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDWR | NO_LINK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || isElse(error)) return undefined;
    throw error;
  }
}

function writeAt(
  file: number,
  place: number,
  { text, updatedAt }: { text: Uint8Array; updatedAt?: string },
): FileState {
  for (let at = 0; at < text.byteLength;) at += writeSync(file, text, at, text.byteLength - at, place + at);
  if (updatedAt !== undefined) writeSync(file, updatedAt, UPDATED_AT.start);
  // Not the length that it has now: another process may have gone on already.
  return { bytes: place + text.byteLength, mtime: fstatSync(file).mtimeMs };
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** A link, or a folder. */
const isElse = (error: unknown): boolean => ['ELOOP', 'EISDIR', 'EMLINK'].includes(codeOf(error) ?? '');
