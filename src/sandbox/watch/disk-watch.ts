// Whether commands over a folder take more disk than they have. What counts is a count of its files, with what was removed
// and is still held. A count takes time, and a command can make it long; until it can be had, what the file system loses
// decides.
import { statfsSync, statSync } from 'node:fs';
import { ENTRY_BYTES, measureFolder } from './disk-use.ts';
import { measureHeld } from './held.ts';
import type { ProcessUse } from './processes.ts';
import { createSlice } from './slice.ts';

/**
 * Between two counts passes so many times what one takes, a twentieth of a core, but no more than a second where that leaves
 * four times: others who free as much as a command writes may hide it until then.
 */
const REST = 20;
const HASTY_REST = 4;
const MOST_REST_MS = 1000;
const SLACK_BYTES = 16_000_000;
/** Others may have written, and then a look is too early. */
const LOSING_LOOKS = 2;
const MAX_KEPT = 100;
/** Of the free disk: where only a count has missed something, less may be lost without an end. */
const LOST_PART = 1 / 20;

/** A folder with commands over it. */
export interface Disk {
  readonly directory: string;
  readonly device: number;
  readonly inode: number;
  /** What it may take, and what it may with what it had when its commands began. */
  limit: number;
  most: number;
  onLimit: () => void;
  /** Of its commands: others began later when it is not the same. */
  session: number;
  /** Never rejects. */
  counting: Promise<unknown> | undefined;
  nextAt: number;
  nextHastyAt: number;
  /** What was known to be used when the file system had so much free; more, where it got more. */
  used: number;
  free: number;
  /** By the last count, and how much was free then; less or more, where the file system says that it has changed. */
  counted: { bytes: number; free: number } | undefined;
  /** What the last count found. */
  found: number | undefined;
  /** What was free when the last count began or ended, and at how many looks too much of it was lost. */
  base: number;
  losing: number;
  /** When it was last sure that all that its processes hold was seen. */
  whole: { used: number; free: number };
  /** Much is lost at the last close look, and its processes hold what cannot be seen. */
  isSuspect: boolean;
}

/** Kept when its commands have ended, so that later ones begin with what is known of it; by its path, the oldest first. */
const disks = new Map<string, Disk>();

/** Called when commands begin over a folder where none are; `onLimit` may be called often. */
export function openDisk(directory: string, limit: number, onLimit: () => void): Disk {
  const info = statSync(directory, { throwIfNoEntry: false });
  const { dev: device = -1, ino: inode = -1 } = info ?? {};
  const kept = disks.get(directory);
  const disk = kept?.device === device && kept.inode === inode ? kept : createDisk(directory, { device, inode });
  disks.delete(directory);
  disks.set(directory, disk);
  for (const path of [...disks.keys()].slice(0, -MAX_KEPT)) disks.delete(path);
  const free = freeBytes(directory) ?? disk.free;
  // What was removed meanwhile, such as by the server, is gone; what was written may be anybody's.
  if (disk.counted && !disk.counting) {
    const bytes = Math.max(0, disk.counted.bytes - Math.max(0, free - disk.counted.free));
    disk.counted = { bytes, free };
  }
  Object.assign(disk, { limit, most: Number.POSITIVE_INFINITY, onLimit, free, losing: 0, isSuspect: false });
  disk.session++;
  void countBefore(disk);
  return disk;
}

/** Called when the last command over a folder has ended. A count that runs goes on, for the next. */
export function closeDisk(disk: Disk): void {
  disk.onLimit = () => {};
  const free = freeBytes(disk.directory);
  if (disk.counted && free !== undefined && disk.counted.free - free > SLACK_BYTES) {
    if (!disk.counting) void keepCounting(disk, count(disk));
  }
}

function createDisk(directory: string, place: { device: number; inode: number }): Disk {
  const free = freeBytes(directory) ?? 0;
  return {
    directory,
    ...place,
    limit: 0,
    most: 0,
    onLimit: () => {},
    session: 0,
    counting: undefined,
    nextAt: 0,
    nextHastyAt: 0,
    used: 0,
    free,
    counted: undefined,
    found: undefined,
    base: free,
    losing: 0,
    whole: { used: 0, free },
    isSuspect: false,
  };
}

/** Undefined when it cannot be told. Like a count, with a price for each file. */
function freeBytes(directory: string): number | undefined {
  try {
    const system = statfsSync(directory);
    return system.bfree * system.bsize - (system.files - system.ffree) * ENTRY_BYTES;
  } catch {
    return undefined;
  }
}

/** What commands begin with; that of those before may still be counted. */
async function countBefore(disk: Disk): Promise<void> {
  const { session, directory, free: began, found = 0 } = disk;
  await disk.counting;
  if (session !== disk.session) return;
  const { bytes: used } = await keepCounting(disk, count(disk));
  if (session !== disk.session) return;
  const free = freeBytes(directory) ?? began;
  // What was written while it was counted was not there before. Others write as well: what was there at the last count
  // is not new.
  const before = Math.max(Math.min(used, found), used - Math.max(0, began - free));
  // A little is always written by somebody: that ends nobody who only removes.
  const kept = Math.min(used, before + SLACK_BYTES);
  disk.most = Math.max(disk.limit, Math.min(before + SLACK_BYTES, 2 * disk.limit), kept);
  Object.assign(disk, { used: before, whole: { used: before, free: began } });
  if (used > disk.most) disk.onLimit();
}

/**
 * Cheap, for every 100 ms: counts again when there was time to rest, or when the file system lost as much as would pass the
 * limit.
 */
export function lookAtDisk(disk: Disk, findProcesses: () => ProcessUse[]): void {
  const free = freeBytes(disk.directory);
  if (free === undefined) return;
  disk.free = Math.max(disk.free, free);
  const now = performance.now();
  if (disk.counting || now < disk.nextHastyAt) {
    if (isLosing(disk, free)) disk.onLimit();
    return;
  }
  if (disk.isSuspect || disk.used + disk.free - free > disk.most) {
    void keepCounting(disk, countAll(disk, findProcesses, free));
  } else if (now >= disk.nextAt) {
    void keepCounting(disk, count(disk)).then(({ bytes }) => {
      if (bytes > disk.most) disk.onLimit();
    });
  }
}

/** What may be lost before a count tells whose it is. */
function allowanceOf({ limit, counted }: Disk): number {
  return Math.max(0, limit - (counted?.bytes ?? 0)) + Math.max(SLACK_BYTES, limit / 4);
}

/**
 * Whether the file system loses so much that it need not be counted: more than this folder and all others that are being
 * counted may take. After that, the others begin anew, since one of them may have been it.
 */
function isLosing(disk: Disk, free: number): boolean {
  const others = disksBeside(disk).filter((other) => other.counting !== undefined);
  let allowance = allowanceOf(disk);
  for (const other of others) allowance += allowanceOf(other);
  disk.losing = disk.base - free > allowance ? disk.losing + 1 : 0;
  if (disk.losing < LOSING_LOOKS) return false;
  // Until a count says better, it is taken for this one's: the next command may not take it once more.
  disk.counted = { bytes: (disk.counted?.bytes ?? 0) + disk.base - free, free };
  for (const one of [disk, ...others]) Object.assign(one, { base: free, losing: 0 });
  return true;
}

const disksBeside = (disk: Disk) =>
  [...disks.values()].filter((other) => other !== disk && other.device === disk.device);

function keepCounting<T>(disk: Disk, work: Promise<T>): Promise<T> {
  const counting = work.finally(() => {
    disk.counting = undefined;
  });
  disk.counting = counting;
  return counting;
}

interface Count {
  bytes: number;
  /** False where there may be more. */
  isWhole: boolean;
}

/** What is known is not lowered by a count that may have missed something. */
async function count(disk: Disk): Promise<Count> {
  const { directory, device } = disk;
  const slice = createSlice();
  const began = freeBytes(directory) ?? disk.base;
  Object.assign(disk, { base: began, losing: 0 });
  let isWhole = true;
  const bytes = await measureFolder(directory, { device, slice, onMiss: () => (isWhole = false) });
  const free = freeBytes(directory) ?? disk.base;
  const known = isWhole ? 0 : (disk.counted?.bytes ?? 0);
  const grown = disk.counted
    ? Math.max(bytes, known) - disk.counted.bytes
    : Math.min(bytes, Math.max(0, disk.base - free));
  // What this one took, the others did not.
  for (const other of disksBeside(disk)) {
    other.base -= grown;
    other.whole.free -= grown;
  }
  const now = performance.now();
  disk.nextAt = now + Math.max(Math.min(slice.busyMs * REST, MOST_REST_MS), slice.busyMs * HASTY_REST);
  disk.nextHastyAt = now + slice.busyMs * HASTY_REST;
  if (isWhole || bytes > known) disk.counted = { bytes, free };
  if (isWhole || bytes > (disk.found ?? 0)) disk.found = bytes;
  Object.assign(disk, { base: free, losing: 0 });
  return { bytes, isWhole };
}

/**
 * Also what was removed and is still held. Where processes hold what cannot be looked at, such as descriptors that are on
 * their way through a socket, or rename what is to be counted, a loss of more than twice the limit that nothing explains is
 * taken for theirs. A loss alone is not: another program may have written as much. Honest programs rename and remove, too,
 * so where that is all, much of the disk must be lost.
 */
async function countAll(disk: Disk, findProcesses: () => ProcessUse[], free: number): Promise<void> {
  const { session, device } = disk;
  const counted = await count(disk);
  let used = counted.bytes;
  // Processes may keep whoever looks at them waiting.
  if (used > disk.most) disk.onLimit();
  if (session !== disk.session) return;
  const held = await measureHeld(findProcesses(), { device, slice: createSlice() });
  if (session !== disk.session) return;
  used += held.disk;
  // What a count missed may be what was there before: that it is less explains nothing, and makes no loss.
  const grown = counted.isWhole ? used - disk.whole.used : Math.max(0, used - disk.whole.used);
  const isWhole = held.isWhole && counted.isWhole;
  const part = held.isWhole ? LOST_PART * disk.whole.free : 0;
  const isHiding = !isWhole && disk.whole.free - free - grown > Math.max(2 * disk.limit, part);
  if (used > disk.most || (isHiding && disk.isSuspect)) disk.onLimit();
  if (isWhole) disk.whole = { used, free };
  if (counted.isWhole) Object.assign(disk, { used, free });
  disk.isSuspect = isHiding;
}
