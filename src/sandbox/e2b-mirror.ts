// Keeps a folder of the host and the workspace of a machine alike: the folder is the record, the machine has a copy. What a
// command changed comes back after it; what the host changed goes there at once.
import type { Sandbox as Machine } from 'e2b';
import { spawn } from 'node:child_process';
import { lchownSync, symlinkSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { Readable } from 'node:stream';
import type { Folder, Owner, Root } from '../files/open-beneath.ts';
import { openFolder, removeEntry, replaceFile, toParts, toRoot } from '../files/open-beneath.ts';
import type { Log } from '../kernel/index.ts';
import { askMachine, runInMachine } from './e2b-machine.ts';
import { WORKSPACE } from './e2b-command.ts';
import { createTarReader } from './e2b-tar.ts';
import { sandboxError } from './errors.ts';
import type { SandboxLimits, Slot } from './sandbox.ts';

export interface Mirror {
  /** Brings paths of the host to the machine, with all below them, or removes them there; '' is all. */
  send(path: string, signal: AbortSignal): Promise<void>;
  /** Brings back what was changed in the machine since the last time. */
  fetch(signal: AbortSignal): Promise<void>;
}

interface Entry {
  path: string;
  kind: 'd' | 'f' | 'l';
  bytes: number;
  mode: number;
  /** Another one after every change. */
  stamp: string;
}

const LIST_BYTES = 64_000_000;
/** Of the names in one call; the kernel takes 2 MB of arguments. */
const BATCH_BYTES = 100_000;

const LIST = `find . -xdev -mindepth 1 \\( -type d -o -type f -o -type l \\) -printf '%y %s %m %C@.%i %P\\0' && printf 'end\\0'`;
// The folder is at the root of the file system, which a user may write only with sudo.
const ENTER = `
if ! { mkdir -p ${WORKSPACE} 2>/dev/null && [ -w ${WORKSPACE} ]; }; then
  sudo -n install -d -m 755 -o "$(id -u)" -g "$(id -g)" ${WORKSPACE} || exit
fi
cd ${WORKSPACE} || exit`;
const TAKE = `${ENTER}
archive=$1; shift
[ $# = 0 ] || rm -rf -- "$@" || exit
if [ "$archive" ]; then
  tar --extract --file "$archive" --no-same-owner --preserve-permissions || exit
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
  const ws = join(slot.directory, 'ws');
  const { fileBytes, diskBytes } = limits;
  const record: FolderRecord = { top: toRoot(ws), ...(slot.user && { owner: slot.user }) };
  let known = new Map<string, Entry>();
  let last: Promise<unknown> = Promise.resolve();
  /** One after another: each leaves `known` as the machine is. */
  const inOrder = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  };

  async function send(path: string, signal: AbortSignal): Promise<void> {
    const isThere = await exists(join(ws, path));
    const archive = isThere ? await sendArchive(machine, { ws, path: path || '.', signal }) : '';
    const removed = path ? [`./${path}`] : [];
    const found = parseList(await askMachine(machine, [TAKE, archive, ...removed], { limitBytes: LIST_BYTES, signal }));
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
    const found = parseList(list);
    await removeGone(record, { known, found });
    const changed = [...found.values()].filter(({ path, stamp }) => known.get(path)?.stamp !== stamp);
    for (const { path, kind } of changed) if (kind === 'd') makeFolder(record, path);
    const wanted = new Map(leaveOut(changed, found).map((entry) => [entry.path, entry]));
    known = new Map([...found].filter(([path]) => !wanted.has(path)));
    for (const batch of toBatches([...wanted.keys()])) {
      await give(batch, { wanted, signal });
    }
  }

  /** What is more than the limits allow stays in the machine, and with it goes. */
  function leaveOut(changed: Entry[], found: Map<string, Entry>): Entry[] {
    const isChanged = new Set(changed);
    let total = 0;
    for (const entry of found.values()) if (!isChanged.has(entry)) total += entry.bytes;
    const kept: Entry[] = [];
    const left: string[] = [];
    for (const entry of changed) {
      if (entry.kind === 'd') continue;
      if (entry.bytes > fileBytes || total + entry.bytes > diskBytes) left.push(entry.path);
      else {
        total += entry.bytes;
        kept.push(entry);
      }
    }
    if (left.length) {
      const data = { files: left.slice(0, 20), count: left.length, slot: slot.id };
      log.warn(data, 'Files of a command are larger than sandbox.limits and will be lost with their machine');
    }
    return kept;
  }

  async function give(paths: string[], { wanted, signal }: { wanted: Map<string, Entry>; signal: AbortSignal }) {
    const reader = createTarReader(fileBytes, async ({ name, kind, content }) => {
      const entry = wanted.get(posix.normalize(name));
      if (!entry || (entry.kind === 'l') !== (kind === 'link')) return;
      await writeEntry(record, entry, content);
      known.set(entry.path, entry);
    });
    let reading: Promise<void> = Promise.resolve();
    await runInMachine(machine, {
      argv: ['/bin/bash', '-c', GIVE, 'homard', ...paths.map((path) => `./${path}`)],
      signal,
      onOutput(stream, chunk) {
        if (stream === 'stdout') reading = reading.then(() => reader.push(chunk));
      },
    });
    await reading;
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

/** Calls `work` with the folder that a path is in, made where it is missing, and its name there. */
async function inParent(
  { top, owner }: FolderRecord,
  path: string,
  work: (folder: Folder, name: string) => Promise<unknown>,
): Promise<void> {
  const parts = toParts(path);
  const name = parts.pop();
  if (name === undefined) return;
  using folder = openFolder(top, parts, { owner });
  await work(folder, name);
}

async function writeEntry(record: FolderRecord, entry: Entry, content: Uint8Array): Promise<void> {
  const { owner } = record;
  await inParent(record, entry.path, async (folder, name) => {
    if (entry.kind === 'f') {
      // The server must be able to read it, whatever the command thinks.
      await replaceFile(folder, name, { data: content, mode: entry.mode | 0o600, owner });
      return;
    }
    await removeEntry(folder, name);
    symlinkSync(Buffer.from(content).toString(), folder.at(name));
    if (owner) lchownSync(folder.at(name), owner.uid, owner.gid);
  });
}

function makeFolder({ top, owner }: FolderRecord, path: string): void {
  openFolder(top, toParts(path), { owner })[Symbol.dispose]();
}

async function removeGone(
  record: FolderRecord,
  { known, found }: { known: Map<string, Entry>; found: Map<string, Entry> },
): Promise<void> {
  for (const { path, kind } of known.values()) {
    if (found.get(path)?.kind === kind) continue;
    const parent = posix.dirname(path);
    const wentWithParent = known.get(parent)?.kind === 'd' && found.get(parent)?.kind !== 'd';
    if (!wentWithParent) await inParent(record, path, removeEntry);
  }
}

/** The path of the archive in the machine. */
async function sendArchive(
  machine: Machine,
  { ws, path, signal }: { ws: string; path: string; signal: AbortSignal },
): Promise<string> {
  const place = `/tmp/.homard-${crypto.randomUUID()}`;
  const env = { PATH: process.env['PATH'] ?? '', COPYFILE_DISABLE: '1', LC_ALL: 'C' };
  const tar = spawn('tar', ['-C', ws, '-cf', '-', '--', path === '.' ? path : `./${path}`], {
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

/** Sorted: a folder comes before what is in it. */
function parseList(list: Buffer): Map<string, Entry> {
  const lines = list.toString().split('\0');
  if (lines.at(-2) !== 'end') throw sandboxError('failed', 'The list of files of a machine is not complete.');
  const entries: Entry[] = [];
  for (const line of lines.slice(0, -2)) {
    const [, kind, bytes, mode, change, path] = /^([dfl]) (\d+) (\d+) (\S+) (.+)$/s.exec(line) ?? [];
    if (!path || !isPlain(path)) continue;
    if (kind === 'd') entries.push({ path, kind, bytes: 0, mode: 0, stamp: 'd' });
    else if (kind === 'f' || kind === 'l') {
      const bits = Number.parseInt(mode ?? '', 8) & 0o777;
      entries.push({ path, kind, bytes: Number(bytes), mode: bits, stamp: `${kind}${bytes} ${change}` });
    }
  }
  return new Map(entries.sort((a, b) => (a.path < b.path ? -1 : 1)).map((entry) => [entry.path, entry]));
}

/** Nothing that leads elsewhere; a name that is no UTF-8 cannot be asked for. */
const isPlain = (path: string): boolean =>
  !path.includes('\uFFFD') && path.split('/').every((name) => name !== '' && name !== '.' && name !== '..');

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

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );
