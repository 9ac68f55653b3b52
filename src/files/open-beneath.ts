// Files below a root that other processes change meanwhile: no link is followed on the way, whatever is swapped and when.
// Node has no openat(2), but on Linux a path that begins with /proc/self/fd/<descriptor> does the same: it starts at the
// folder that was opened, not at its name.
import { randomUUID } from 'node:crypto';
import type { PathLike, Stats } from 'node:fs';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  read,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  write,
} from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';

type Refusal = 'path' | 'link' | 'hard_link' | 'folder' | 'not_a_folder' | 'special' | 'busy';

/** What this module refuses, with the reason as message. What the system refuses comes as node's own error. */
export class PathRefused extends Error {
  readonly kind: Refusal;

  constructor(kind: Refusal, reason: string) {
    super(reason);
    this.name = 'PathRefused';
    this.kind = kind;
  }
}

export interface Owner {
  uid: number;
  gid: number;
}

/** Where a walk begins, and which folder that is. */
export interface Root {
  path: string;
  dev: number;
  ino: number;
  isRaceFree: boolean;
}

/** A name as text, or as the bytes that the file system has. */
export type Name = string | Buffer;

/** A folder that was reached without following a link. It stays the same one, whatever becomes of its name. */
export interface Folder extends Disposable {
  /** The folder itself, for calls of node:fs that follow links. */
  readonly here: PathLike;
  /** What is in it by this name, for calls of node:fs that follow no link at the end. One part of a path, not checked. */
  at(name: Name): PathLike;
  /** Throws PathRefused for a link and for a file, and node's ENOENT. */
  enter(name: Name): Folder;
}

const MAX_PATH_LENGTH = 4096;
const MAX_CHUNK_BYTES = 16_777_216;
/** Each level holds a descriptor while a tree is listed or removed. */
export const MAX_DEPTH = 64;
const NAMES_AT_ONCE = 10_000;
/** A process that goes on writing to a folder must not keep its removal going as long as it likes. */
const MAX_ROUNDS = 100;
const PACE_MS = 5;

/** Only names the inode: needs no right to read it. Missing in node's constants; the same on all platforms that node has. */
const O_PATH = 0o10000000;
const ROOT = O_PATH | constants.O_DIRECTORY;
const AS_FOLDER = ROOT | constants.O_NOFOLLOW;
/** O_NONBLOCK: neither a pipe nor a lease that another process holds can make `open` wait. */
const TO_READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
const TO_CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

const readAsync = promisify(read);
const writeAsync = promisify(write);
/** Of node's own errors, such as ENOENT. */
export const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;
const shown = (name: Name) => JSON.stringify(name.toString());

/**
 * `path` may be a link, or lie behind one, as long as it leads to the folder that it leads to now: another one in its place
 * is refused. Throws node's ENOENT.
 *
 * Where there is no /proc/self/fd (all but Linux), each part is looked at before it is passed. That refuses links that are
 * there, but not one that is put there between the look and the use: not race-free.
 */
export function toRoot(path: string, { isRaceFree = existsSync('/proc/self/fd') } = {}): Root {
  const { dev, ino } = statSync(path);
  return { path, dev, ino, isRaceFree };
}

/** The names in a path, without `.` and empty ones. Throws PathRefused for `..` and NUL. */
export function toParts(path: string): string[] {
  if (path.includes('\0')) throw new PathRefused('path', 'it has a NUL character');
  if (path.length > MAX_PATH_LENGTH) throw new PathRefused('path', `it is longer than ${MAX_PATH_LENGTH} characters`);
  if (process.platform === 'win32' && /[\\:]/.test(path))
    throw new PathRefused('path', String.raw`it has a "\" or ":"`);
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw new PathRefused('path', 'it has a ".."');
  return parts;
}

function byDescriptor(descriptor: number): Folder {
  const here = `/proc/self/fd/${descriptor}`;
  const prefix = Buffer.from(`${here}/`);
  const at = (name: Name) => (typeof name === 'string' ? `${here}/${name}` : Buffer.concat([prefix, name]));
  return {
    here,
    at,
    enter(name) {
      try {
        return byDescriptor(openSync(at(name), AS_FOLDER));
      } catch (error) {
        if (codeOf(error) === 'ENOTDIR') refuseAllButFolder(lstatSync(at(name)), name);
        throw error;
      }
    },
    [Symbol.dispose]: () => closeSync(descriptor),
  };
}

function byPath(here: Buffer): Folder {
  const at = (name: Name) => Buffer.concat([here, Buffer.from('/'), Buffer.from(name)]);
  return {
    here,
    at,
    enter(name) {
      refuseAllButFolder(lstatSync(at(name)), name);
      return byPath(at(name));
    },
    [Symbol.dispose]: () => {},
  };
}

function refuseAllButFolder(found: Stats, name: Name): void {
  if (found.isSymbolicLink()) throw new PathRefused('link', `${shown(name)} is a link`);
  if (!found.isDirectory()) throw new PathRefused('not_a_folder', `${shown(name)} is not a folder`);
}

/** Throws PathRefused for all but a plain file with one name. */
export function refuseAllButFile(found: Stats, name: string): void {
  if (found.isSymbolicLink()) throw new PathRefused('link', `${shown(name)} is a link`);
  if (found.isDirectory()) throw new PathRefused('folder', `${shown(name)} is a folder`);
  if (!found.isFile()) throw new PathRefused('special', `${shown(name)} is a pipe, a socket or a device`);
  if (found.nlink > 1) throw new PathRefused('hard_link', `${shown(name)} has other names, too (hard links)`);
}

function openRoot({ path, dev, ino, isRaceFree }: Root): Folder {
  const folder = isRaceFree ? byDescriptor(openSync(path, ROOT)) : byPath(Buffer.from(path));
  const found = statSync(folder.here);
  if (found.dev === dev && found.ino === ino && found.isDirectory()) return folder;
  folder[Symbol.dispose]();
  throw new PathRefused('link', 'the root is another folder than it was; it may be a link, but always to the same one');
}

/** For the caller to dispose. With `make`, folders that are missing are made, for the owner that it names. */
export function openFolder(root: Root, parts: readonly string[], make?: { owner?: Owner }): Folder {
  let folder = openRoot(root);
  try {
    for (const name of parts) {
      const next = make ? enterOrMake(folder, name, make.owner) : folder.enter(name);
      folder[Symbol.dispose]();
      folder = next;
    }
    return folder;
  } catch (error) {
    folder[Symbol.dispose]();
    throw error;
  }
}

/** The folder that a path is in, as `openFolder`, and its last name. Throws PathRefused for the root itself. */
export function openParent(
  root: Root,
  parts: readonly string[],
  make?: { owner?: Owner },
): { folder: Folder; name: string } {
  const name = parts.at(-1);
  if (name === undefined) throw new PathRefused('path', 'it is the root itself');
  return { folder: openFolder(root, parts.slice(0, -1), make), name };
}

function enterOrMake(parent: Folder, name: string, owner: Owner | undefined): Folder {
  try {
    return parent.enter(name);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
  try {
    mkdirSync(parent.at(name), 0o755);
  } catch (error) {
    // Somebody else was quicker: then it is theirs.
    if (codeOf(error) === 'EEXIST') return parent.enter(name);
    throw error;
  }
  const folder = parent.enter(name);
  if (owner) chownSync(folder.here, owner.uid, owner.gid);
  return folder;
}

export interface OpenFile extends Disposable {
  readonly descriptor: number;
  readonly stat: Stats;
}

/** Opens a plain file to read. Throws PathRefused for all else, and node's ENOENT. Never waits. */
export function openFile(folder: Folder, name: string): OpenFile {
  // Before it is opened: opening a pipe or a device may do something to it.
  refuseAllButFile(lstatSync(folder.at(name)), name);
  let descriptor: number;
  try {
    descriptor = openSync(folder.at(name), TO_READ);
  } catch (error) {
    if (codeOf(error) === 'ELOOP') throw new PathRefused('link', `${shown(name)} is a link`);
    if (codeOf(error) === 'EAGAIN') throw new PathRefused('busy', `${shown(name)} is locked by a command`);
    throw error;
  }
  try {
    const stat = fstatSync(descriptor);
    refuseAllButFile(stat, name);
    return { descriptor, stat, [Symbol.dispose]: () => closeSync(descriptor) };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** Fewer bytes than `length` where the file ends before. */
export async function readRange(file: OpenFile, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const size = Math.min(length - done, MAX_CHUNK_BYTES);
    const { bytesRead } = await readAsync(file.descriptor, bytes, done, size, offset + done);
    if (!bytesRead) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

/**
 * The file is there whole, or what was there stays: written beside its place, then renamed over it. It is not flushed.
 * Replaces a link itself, not what it leads to; node's EISDIR for a folder.
 */
export async function replaceFile(
  folder: Folder,
  name: string,
  content: { data: Uint8Array; mode: number; owner?: Owner },
): Promise<Stats> {
  const draft = `.${randomUUID()}.draft`;
  const descriptor = openSync(folder.at(draft), TO_CREATE, 0o600);
  try {
    const { data, mode, owner } = content;
    for (let at = 0; at < data.byteLength;) {
      const size = Math.min(data.byteLength - at, MAX_CHUNK_BYTES);
      at += (await writeAsync(descriptor, data, at, size)).bytesWritten;
    }
    fchmodSync(descriptor, mode);
    if (owner) fchownSync(descriptor, owner.uid, owner.gid);
    renameSync(folder.at(draft), folder.at(name));
    return fstatSync(descriptor);
  } catch (error) {
    rmSync(folder.at(draft), { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

interface Removal {
  depth: number;
  /** The outermost folder that is being removed. */
  base?: Folder;
  /** How often in a row something had to be looked at again. */
  rounds: { done: number };
  pace: () => Promise<void> | undefined;
}

/** With all that is in it, whatever its depth. What is not there is removed. A link goes, not what it leads to. */
export function removeEntry(folder: Folder, name: string): Promise<void> {
  return removeIn(folder, name, { depth: 0, rounds: { done: 0 }, pace: createPace() });
}

async function removeIn(parent: Folder, name: Name, removal: Removal): Promise<void> {
  const { depth, base, rounds } = removal;
  for (; rounds.done < MAX_ROUNDS; rounds.done++) {
    await removal.pace();
    try {
      const found = lstatSync(parent.at(name));
      if (!found.isDirectory()) return unlinkSync(parent.at(name));
      using folder = parent.enter(name);
      // Package managers leave folders that their owner may not write to.
      if ((found.mode & 0o700) !== 0o700) chmodSync(folder.here, 0o700);
      // Its turn comes in a later round of the outermost folder.
      if (base && depth > MAX_DEPTH) {
        rounds.done = 0;
        return renameSync(parent.at(name), base.at(randomUUID()));
      }
      const inner = { ...removal, depth: depth + 1, base: base ?? folder };
      const children = namesIn(folder, NAMES_AT_ONCE);
      for (const child of children) await removeIn(folder, child, inner);
      if (children.length === NAMES_AT_ONCE) rounds.done = 0;
      return rmdirSync(parent.at(name));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return;
      if (!isChanged(error)) throw error;
    }
  }
  throw new PathRefused('busy', `a command keeps writing to ${shown(name)}`);
}

/** As bytes, in no order. Not asynchronous: 10,000 names take milliseconds, few names less than a change of thread. */
export function namesIn(folder: Folder, limit: number): Buffer[] {
  const names: Buffer[] = [];
  // latin1 keeps each byte; UTF-8 would lose names that are none.
  const stream = opendirSync(folder.here, { encoding: 'latin1', bufferSize: 256 });
  try {
    while (names.length < limit) {
      const entry = stream.readSync();
      if (!entry) break;
      names.push(Buffer.from(entry.name, 'latin1'));
    }
    return names;
  } finally {
    stream.closeSync();
  }
}

/** It went away, or became something else, between two looks at it. */
export function isChanged(error: unknown): boolean {
  if (error instanceof PathRefused) return error.kind === 'link' || error.kind === 'not_a_folder';
  return ['ENOENT', 'ENOTDIR', 'EISDIR', 'ENOTEMPTY', 'EEXIST'].includes(codeOf(error) ?? '');
}

/** To await in a long loop: gives way to the event loop when 5 ms have passed. */
export function createPace(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < PACE_MS) return undefined;
    return setImmediate().then(() => void (since = performance.now()));
  };
}
