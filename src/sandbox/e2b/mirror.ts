// Keeps a folder of the host and the workspace of a machine alike: the folder is the record, the machine has a copy. What a
// command changed comes back after it; what the host changed goes there at once.
import type { Sandbox as Machine } from 'e2b';
import { spawn } from 'node:child_process';
import { lchownSync, lstatSync, symlinkSync } from 'node:fs';
import { join, posix } from 'node:path';
import { Readable } from 'node:stream';
import type { Folder, Owner, Root } from '../../files/open-beneath.ts';
import {
  codeOf,
  createPace,
  openFolder,
  openParent,
  removeEntry,
  replaceFile,
  toParts,
  toRoot,
} from '../../files/open-beneath.ts';
import type { Log } from '../../kernel/index.ts';
import { askMachine, runInMachine } from './machine.ts';
import { WORKSPACE } from './command.ts';
import type { Entries, Entry } from './entries.ts';
import { LIST, chooseEntries, parseList } from './entries.ts';
import { createTarReader } from './tar.ts';
import { sandboxError } from '../errors.ts';
import type { SandboxLimits, Slot } from '../sandbox.ts';

export interface Mirror {
  /** Brings paths of the host to the machine, with all below them, or removes them there; '' is all. */
  send(path: string, signal: AbortSignal): Promise<void>;
  /** Brings back what was changed in the machine since the last time. */
  fetch(signal: AbortSignal): Promise<void>;
}

const LIST_BYTES = 64_000_000;
/** Of the names in one call; the kernel takes 2 MB of arguments. */
const BATCH_BYTES = 100_000;
const WRITES_AT_ONCE = 8;
const BYTES_AT_ONCE = 1_000_000;

// The folder is at the root of the file system, which a user may write only with sudo.
const ENTER = `
if ! { mkdir -p ${WORKSPACE} 2>/dev/null && [ -w ${WORKSPACE} ]; }; then
  sudo -n install -d -m 755 -o "$(id -u)" -g "$(id -g)" ${WORKSPACE} || exit
fi
cd ${WORKSPACE} || exit`;
const TAKE = `${ENTER}
archive=$1; folder=$2; shift 2
[ $# = 0 ] || rm -rf -- "$@" || exit
if [ "$archive" ]; then
  mkdir -p -- "$folder" || exit
  tar --extract --file "$archive" --directory "$folder" --no-same-owner --preserve-permissions || exit
  rm -f -- "$archive"
fi
${LIST}`;
// Only standard output counts: what changed or went away meanwhile is told at the next time.
const GIVE = `cd ${WORKSPACE} && { tar --create --format=gnu --hard-dereference --no-recursion --ignore-failed-read -- "$@" 2>/dev/null || true; }`;

export interface MirrorConfig {
  machine: Machine;
  slot: Slot;
  limits: SandboxLimits;
  log: Log;
}

export function createMirror({ machine, slot, limits, log }: MirrorConfig): Mirror {
  const { fileBytes } = limits;
  const record: FolderRecord = { top: toRoot(join(slot.directory, 'ws')), ...(slot.user && { owner: slot.user }) };
  /** What the folder of the host has, as it was in the machine when it came or went. */
  let known = new Map<string, Entry>();
  /** Of what stayed behind the last time. */
  let leftStamps = new Map<string, string>();
  let last: Promise<unknown> = Promise.resolve();
  /** One after another: each leaves `known` as the machine is. */
  const inOrder = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  };

  async function send(given: string, signal: AbortSignal): Promise<void> {
    const parts = toParts(given);
    const path = parts.join('/');
    const name = parts.pop();
    // A part of it may have become a link since it was written: then this rejects.
    using folder = openIfThere(record.top, parts);
    const isThere = folder && lstatSync(folder.at(name ?? '.'), { throwIfNoEntry: false });
    const archive = isThere ? await sendArchive(machine, { folder, name, signal }) : '';
    const removed = path ? [`./${path}`] : [];
    const step = [TAKE, archive, ['.', ...parts].join('/'), ...removed] as const;
    const found = await parseList(await askMachine(machine, step, { limitBytes: LIST_BYTES, signal }));
    if (!path) {
      known = found;
      return;
    }
    const isOf = (other: string) => other === path || other.startsWith(`${path}/`) || path.startsWith(`${other}/`);
    for (const other of known.keys()) if (isOf(other)) known.delete(other);
    for (const [other, entry] of found) if (isOf(other)) known.set(other, entry);
  }

  async function fetch(signal: AbortSignal): Promise<void> {
    const list = await askMachine(machine, [`${ENTER}\n${LIST}`], { limitBytes: LIST_BYTES, signal });
    const found = await parseList(list);
    const pace = createPace();
    const step = () => {
      signal.throwIfAborted();
      return pace();
    };
    await removeGone(record, { known, found, step });
    const { taken, left, room } = await chooseEntries({ known, found }, limits);
    tellLeft(left);
    const request: Request = { wanted: new Map(), room, signal, step };
    for (const entry of taken) {
      await step();
      if (entry.kind !== 'd') request.wanted.set(entry.path, entry);
      else {
        makeFolder(record, entry.path);
        known.set(entry.path, entry);
      }
    }
    for (const batch of toBatches([...request.wanted.keys()])) await give(batch, request);
  }

  /** What stays behind is in the machine, and with it goes. */
  function tellLeft(left: Entry[]): void {
    const isNew = left.some(({ path, stamp }) => leftStamps.get(path) !== stamp);
    leftStamps = new Map(left.map(({ path, stamp }) => [path, stamp]));
    if (!isNew) return;
    const data = { files: left.slice(0, 20).map(({ path }) => path), count: left.length, slot: slot.id };
    log.warn(data, 'Files of a command are larger or more than allowed, and will be lost with their machine');
  }

  async function give(paths: string[], request: Request): Promise<void> {
    const { wanted, signal, step } = request;
    const writes = createWrites();
    const reader = createTarReader(fileBytes, async ({ name, kind, content }) => {
      const path = posix.normalize(name);
      const entry = wanted.get(path);
      if (!entry || (entry.kind === 'l') !== (kind === 'link')) return;
      wanted.delete(path);
      // It may have grown since it was listed; then the next time tells what became of it.
      const more = Math.max(content.byteLength - entry.bytes, 0);
      if (more > request.room) return;
      request.room -= more;
      await step();
      await writes.add(content.byteLength, async () => {
        await writeEntry(record, entry, content);
        known.set(path, { ...entry, bytes: content.byteLength });
      });
    });
    let reading: Promise<void> = Promise.resolve();
    try {
      await runInMachine(machine, {
        argv: ['/bin/bash', '-c', GIVE, 'homard', ...paths.map((path) => `./${path}`)],
        signal,
        onOutput(stream, chunk) {
          if (stream !== 'stdout') return;
          reading = reading.then(() => reader.push(chunk));
          // It is awaited below, but may fail before.
          reading.catch(() => undefined);
        },
      });
      await reading;
    } finally {
      await reading.catch(() => undefined);
      await writes.settle();
    }
    writes.check();
  }

  return {
    send: (path, signal) => inOrder(() => send(path, signal)),
    fetch: (signal) => inOrder(() => fetch(signal)),
  };
}

/** The folder of the host; no link in it is followed. */
interface FolderRecord {
  top: Root;
  owner?: Owner;
}

/** Still to come from the machine. */
interface Request {
  wanted: Map<string, Entry>;
  room: number;
  signal: AbortSignal;
  /** Awaited in loops: throws when the signal is aborted, and gives way to the event loop. */
  step: () => Promise<void> | undefined;
}

/** A few writes at once. */
function createWrites() {
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let bytes = 0;
  const check = () => {
    if (failures.length) throw failures[0];
  };
  return {
    /** Resolves when there is room for another one. Rejects with what an earlier one failed with. */
    async add(size: number, write: () => Promise<void>): Promise<void> {
      bytes += size;
      const done = write()
        .catch((error: unknown) => void failures.push(error))
        .finally(() => {
          bytes -= size;
          running.delete(done);
        });
      running.add(done);
      while (running.size >= WRITES_AT_ONCE || bytes > BYTES_AT_ONCE) await Promise.race(running);
      check();
    },
    /** Resolves when none is running. */
    settle: () => Promise.all(running),
    /** Throws what one of them failed with. */
    check,
  };
}

/** Undefined where it is not there. Throws PathRefused where a link or a file is on the way. */
function openIfThere(top: Root, parts: readonly string[]): Folder | undefined {
  try {
    return openFolder(top, parts);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function writeEntry({ top, owner }: FolderRecord, entry: Entry, content: Uint8Array): Promise<void> {
  const { folder, name } = openParent(top, toParts(entry.path), { owner });
  using _ = folder;
  if (entry.kind === 'f') {
    // The server must be able to read it, whatever the command thinks.
    await replaceFile(folder, name, { data: content, mode: entry.mode | 0o600, owner });
    return;
  }
  await removeEntry(folder, name);
  symlinkSync(Buffer.from(content).toString(), folder.at(name));
  if (owner) lchownSync(folder.at(name), owner.uid, owner.gid);
}

function makeFolder({ top, owner }: FolderRecord, path: string): void {
  openFolder(top, toParts(path), { owner })[Symbol.dispose]();
}

/** What is gone in the machine, or has become of another kind, goes from the host and from `known`. */
async function removeGone(
  { top }: FolderRecord,
  { known, found, step }: { known: Map<string, Entry>; found: Entries; step: Request['step'] },
): Promise<void> {
  const gone = [...known.values()].filter(({ path, kind }) => found.get(path)?.kind !== kind);
  const isGone = new Set(gone.map(({ path }) => path));
  for (const { path } of gone) {
    // Else it goes with its folder.
    if (isGone.has(posix.dirname(path))) continue;
    await step();
    using folder = openIfThere(top, toParts(posix.dirname(path)));
    if (folder) await removeEntry(folder, posix.basename(path));
  }
  for (const path of isGone) known.delete(path);
}

/** What has this name in the folder, the folder itself without one. Resolves to the path of the archive in the machine. */
async function sendArchive(
  machine: Machine,
  { folder, name = '.', signal }: { folder: Folder; name?: string | undefined; signal: AbortSignal },
): Promise<string> {
  const place = `/tmp/.homard-${crypto.randomUUID()}`;
  const env = { PATH: process.env['PATH'] ?? '', COPYFILE_DISABLE: '1', LC_ALL: 'C' };
  // tar follows links on the way to what it is told to take, none below: so it begins in the folder that was opened.
  const tar = spawn('tar', ['-cf', '-', '--', name === '.' ? name : `./${name}`], {
    cwd: folder.here.toString(),
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
    signal,
  });
  const ended = new Promise<number | null>((resolve, reject) => tar.once('error', reject).once('close', resolve));
  const [, exitCode] = await Promise.all([
    machine.files.write(place, Readable.toWeb(tar.stdout) as ReadableStream, { useOctetStream: true, signal }),
    ended,
  ]);
  if (exitCode !== 0) throw sandboxError('failed', `tar could not read the files of the workspace (${exitCode}).`);
  return place;
}

function toBatches(paths: string[]): string[][] {
  const batches: string[][] = [];
  let bytes = BATCH_BYTES;
  for (const path of paths) {
    bytes += Buffer.byteLength(path) + 16;
    if (bytes > BATCH_BYTES) {
      batches.push([]);
      bytes = Buffer.byteLength(path) + 16;
    }
    batches.at(-1)?.push(path);
  }
  return batches;
}
