// What is in the workspace of a machine, as the machine tells it, and what of it the limits let come to the host.
import { posix } from 'node:path';
import { createPace } from '../../files/open-beneath.ts';
import { sandboxError } from '../errors.ts';
import type { SandboxLimits } from '../sandbox.ts';

export interface Entry {
  /** Below the workspace. */
  path: string;
  kind: 'd' | 'f' | 'l';
  bytes: number;
  mode: number;
  /** Another one after every change. */
  stamp: string;
}

/** By path. */
export type Entries = ReadonlyMap<string, Entry>;

/** Writes what `parseList` reads; a folder comes before what is in it. */
export const LIST = `find . -xdev -mindepth 1 \\( -type d -o -type f -o -type l \\) -printf '%y %s %m %C@.%i %P\\0' && printf 'end\\0'`;

/** In the workspace, folders and all. */
const MOST_ENTRIES = 50_000;
/** What an empty file or a folder takes of a disk, too. */
const LEAST_BYTES = 1_024;
/** Beyond it, neither side can open a path. */
const LONGEST_PATH = 4_000;

/** In the order of the list. Gives way to the event loop. Rejects with `sandbox.failed` where its end is missing. */
export async function parseList(list: Buffer): Promise<Map<string, Entry>> {
  const pace = createPace();
  const entries = new Map<string, Entry>();
  let line = '';
  for (let at = 0, end = list.indexOf(0); end >= 0; at = end + 1, end = list.indexOf(0, at)) {
    await pace();
    line = list.toString('utf8', at, end);
    const entry = toEntry(line);
    if (entry) entries.set(entry.path, entry);
  }
  if (line !== 'end') throw sandboxError('failed', 'The list of files of a machine is not complete.');
  return entries;
}

function toEntry(line: string): Entry | undefined {
  const [, kind, bytes, mode, change, path] = /^([dfl]) (\d+) (\d+) (\S+) (.+)$/s.exec(line) ?? [];
  if (!path || !isPlain(path)) return undefined;
  if (kind === 'd') return { path, kind, bytes: 0, mode: 0, stamp: 'd' };
  if (kind !== 'f' && kind !== 'l') return undefined;
  const bits = Number.parseInt(mode ?? '', 8) & 0o777;
  return { path, kind, bytes: Number(bytes), mode: bits, stamp: `${kind}${bytes} ${change}` };
}

/** Nothing that leads elsewhere; a name that is no UTF-8 cannot be asked for. */
const isPlain = (path: string): boolean =>
  !path.includes('\uFFFD') && path.split('/').every((name) => name !== '' && name !== '.' && name !== '..');

export interface Choice {
  /** A folder comes before what is in it. */
  taken: Entry[];
  /** What is more than the limits allow. */
  left: Entry[];
  /** Bytes that may still be added when all that is taken is there. */
  room: number;
}

/** Chooses from what was changed. `known` is what the host has; nothing in it has become of another kind. */
export async function chooseEntries(
  { known, found }: { known: Entries; found: Entries },
  { fileBytes, diskBytes }: Pick<SandboxLimits, 'fileBytes' | 'diskBytes'>,
): Promise<Choice> {
  const pace = createPace();
  const [changed, left]: [Entry[], Entry[]] = [[], []];
  for (const entry of found.values()) {
    await pace();
    if (known.get(entry.path)?.stamp === entry.stamp) continue;
    // Sorting a million would take seconds.
    (changed.length < MOST_ENTRIES ? changed : left).push(entry);
  }
  changed.sort((a, b) => (a.path < b.path ? -1 : 1));
  let room = diskBytes;
  for (const entry of known.values()) room -= costOf(entry);
  let count = known.size;
  const taken = new Map<string, Entry>();
  const isFolder = (path: string) => path === '.' || (known.get(path) ?? taken.get(path))?.kind === 'd';
  for (const entry of changed) {
    await pace();
    const { path, bytes } = entry;
    const before = known.get(path);
    const more = costOf(entry) - (before ? costOf(before) : 0);
    const fits = bytes <= fileBytes && (more <= 0 || more <= room) && (before || count < MOST_ENTRIES);
    if (!fits || path.length > LONGEST_PATH || !isFolder(posix.dirname(path))) {
      left.push(entry);
      continue;
    }
    room -= more;
    if (!before) count++;
    taken.set(path, entry);
  }
  return { taken: [...taken.values()], left, room };
}

const costOf = ({ bytes }: Entry): number => Math.max(bytes, LEAST_BYTES);
