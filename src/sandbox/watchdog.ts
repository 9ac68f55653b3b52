// Ends commands that take more memory or disk than their sandbox has, where no cgroup does it: looks ten times a second at
// all commands of this process, cheaply, and closely only where the cheap look may mean that a limit is passed.
import { statfsSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { measureFolder } from './disk-use.ts';
import {
  createChildrenFinder,
  measureHeld,
  measureMemory,
  measureSharedMemory,
  measureTree,
  type FindChildren,
  type ProcessUse,
} from './processes.ts';
import { cpuMs, createSlice } from './slice.ts';

/** Whether limits are watched on this system; where not, `watchLimits` does nothing. */
export const canWatch = process.platform === 'linux';

const LOOK_MS = 100;
/** Between two looks passes so many times what one takes: watching has a twentieth of a core at most. */
const REST = 20;
const HASTY_REST = 4;
const MAX_MEASURE_REST_MS = 500;
/** Each pause of a close look is time to take more. */
const HASTY_SLICE_MS = 10;
/** Between spawning (vfork) and its program, a child has its parent's memory. */
const CONFIRM_MS = 20;
const DISK_SLACK_BYTES = 16_000_000;

interface Command {
  pid: number;
  onLimit: (reason: 'memory_limit' | 'disk_limit') => void;
}

/** A folder with all commands over it, whose limits they share. */
interface Place {
  directory: string;
  commands: Set<Command>;
  memory: {
    limit: number;
    isMeasuring: boolean;
    nextAt: number;
    /** Of the last close look: what it found, and what the cheap look had said. */
    found: number;
    bound: number;
    /** Of the machine, at its lowest since the place is watched. */
    shared: number;
  };
  disk: {
    device: number;
    limit: number;
    isMeasuring: boolean;
    nextAt: number;
    nextHastyAt: number;
    /** What was known to be used when the file system had so much free. */
    used: number;
    free: number;
  };
}

const places = new Map<string, Place>();
let timer: NodeJS.Timeout | undefined;

/**
 * Watches a command whose first process is `pid` until the returned function is called or `onLimit` was, once. The limits
 * are those of all commands that are watched over the same `directory`: of memory, the command with the most is ended; of
 * disk, all are. Who starts with a full disk gets 16 MB more, so that files can still be removed, up to twice the limit.
 */
export function watchLimits(
  target: { pid: number; directory: string; memoryBytes: number; diskBytes: number },
  onLimit: (reason: 'memory_limit' | 'disk_limit') => void,
): () => void {
  if (!canWatch) return () => {};
  const place = places.get(target.directory) ?? createPlace(target);
  places.set(target.directory, place);
  const command: Command = { pid: target.pid, onLimit };
  place.commands.add(command);
  timer ??= setTimeout(look, LOOK_MS).unref();
  return () => forget(place, command);
}

function forget(place: Place, command: Command): void {
  place.commands.delete(command);
  if (!place.commands.size && places.get(place.directory) === place) places.delete(place.directory);
}

function tell(place: Place, command: Command, reason: 'memory_limit' | 'disk_limit'): void {
  if (!place.commands.has(command)) return;
  forget(place, command);
  command.onLimit(reason);
}

function createPlace(target: { directory: string; memoryBytes: number; diskBytes: number }): Place {
  const { directory, memoryBytes, diskBytes } = target;
  const place: Place = {
    directory,
    commands: new Set(),
    memory: {
      limit: memoryBytes,
      isMeasuring: false,
      nextAt: 0,
      found: 0,
      bound: 0,
      shared: measureSharedMemory(),
    },
    disk: {
      device: statSync(directory, { throwIfNoEntry: false })?.dev ?? -1,
      limit: Number.POSITIVE_INFINITY,
      isMeasuring: true,
      nextAt: 0,
      nextHastyAt: 0,
      used: 0,
      free: freeBytes(directory),
    },
  };
  void measureBefore(place, diskBytes);
  return place;
}

function look(): void {
  const began = cpuMs();
  const findChildren = createChildrenFinder();
  for (const place of places.values()) {
    lookAtMemory(place, findChildren);
    lookAtDisk(place, findChildren);
  }
  const ms = cpuMs() - began;
  timer = places.size ? setTimeout(look, Math.max(LOOK_MS, ms * REST)).unref() : undefined;
}

type Trees = Map<Command, ProcessUse[]>;

function treesOf(place: Place, findChildren: FindChildren): Trees {
  return new Map([...place.commands].map((command) => [command, measureTree(command.pid, findChildren)]));
}

function lookAtMemory(place: Place, findChildren: FindChildren): void {
  const { memory } = place;
  const trees = treesOf(place, findChildren);
  const shared = measureSharedMemory();
  memory.shared = Math.min(memory.shared, shared);
  let bound = shared - memory.shared;
  for (const uses of trees.values()) for (const use of uses) bound += use.bytes;
  if (bound <= memory.limit || memory.isMeasuring) return;
  const mayHaveGrown = memory.found + bound - memory.bound > memory.limit;
  if (mayHaveGrown || performance.now() >= memory.nextAt) void measureClosely(place, trees, bound);
}

async function measureClosely(place: Place, trees: Trees, bound: number): Promise<void> {
  const { memory } = place;
  const began = performance.now();
  memory.isMeasuring = true;
  let found = await measureTrees(place, trees);
  const ms = performance.now() - began;
  if (found.total > memory.limit) {
    await sleep(CONFIRM_MS);
    found = await measureTrees(place, known(trees, treesOf(place, createChildrenFinder())));
    if (found.total > memory.limit && found.largest) tell(place, found.largest, 'memory_limit');
  }
  Object.assign(memory, { found: found.total, bound, isMeasuring: false });
  memory.nextAt = performance.now() + Math.min(ms * REST, MAX_MEASURE_REST_MS);
}

/** Of `now`, the processes that were there `before`. */
function known(before: Trees, now: Trees): Trees {
  const old = new Set([...before.values()].flat().map((use) => use.pid));
  return new Map([...now].map(([command, uses]) => [command, uses.filter((use) => old.has(use.pid))]));
}

async function measureTrees(place: Place, trees: Trees): Promise<{ total: number; largest: Command | undefined }> {
  const { limit, shared } = place.memory;
  let total = 0;
  let largest: Command | undefined;
  let most = -1;
  for (const [command, uses] of trees) {
    const found = await measureMemory(uses, { enough: limit, slice: createSlice(HASTY_SLICE_MS) });
    let { bytes } = found;
    if (bytes <= limit && measureSharedMemory() - shared > found.files) {
      const held = await measureHeld(uses, { device: place.disk.device, slice: createSlice() });
      bytes += Math.max(0, held.memory - found.files);
    }
    total += bytes;
    if (bytes > most) [largest, most] = [command, bytes];
  }
  return { total, largest };
}

/** 0 when it cannot be told. */
function freeBytes(directory: string): number {
  try {
    const system = statfsSync(directory);
    return system.bfree * system.bsize;
  } catch {
    return 0;
  }
}

async function measureBefore(place: Place, diskBytes: number): Promise<void> {
  const { disk } = place;
  const used = await measureDisk(place);
  // What was written while it was counted was not there before; who else writes does not make it more.
  const before = Math.max(0, used - Math.max(0, disk.free - freeBytes(place.directory)));
  disk.limit = Math.max(diskBytes, Math.min(before + DISK_SLACK_BYTES, 2 * diskBytes));
  disk.used = before;
}

/** Counts again when there was time to rest, or when the file system lost as much as would pass the limit. */
function lookAtDisk(place: Place, findChildren: FindChildren): void {
  const { disk } = place;
  if (disk.isMeasuring) return;
  const now = performance.now();
  const free = freeBytes(place.directory);
  disk.free = Math.max(disk.free, free);
  const isHasty = disk.used + disk.free - free > disk.limit && now >= disk.nextHastyAt;
  if (!isHasty && now < disk.nextAt) return;
  disk.isMeasuring = true;
  void (isHasty ? measureAll(place, findChildren, free) : measureDisk(place)).then((used) => {
    if (used > disk.limit) for (const command of place.commands) tell(place, command, 'disk_limit');
  });
}

async function measureDisk(place: Place): Promise<number> {
  const { disk } = place;
  const slice = createSlice();
  const used = await measureFolder(place.directory, { device: disk.device, slice });
  const now = performance.now();
  disk.nextAt = now + slice.busyMs * REST;
  disk.nextHastyAt = now + slice.busyMs * HASTY_REST;
  disk.isMeasuring = false;
  return used;
}

/** Also what was removed and is still open. */
async function measureAll(place: Place, findChildren: FindChildren, free: number): Promise<number> {
  const { disk } = place;
  let used = await measureDisk(place);
  for (const uses of treesOf(place, findChildren).values()) {
    used += (await measureHeld(uses, { device: disk.device, slice: createSlice() })).disk;
  }
  Object.assign(disk, { used, free });
  return used;
}
