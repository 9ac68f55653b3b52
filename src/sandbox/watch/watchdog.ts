// Ends commands that take more memory or disk than their sandbox has: looks ten times a second at all commands of this
// process, cheaply, and closely only where the cheap look may mean that a limit is passed. Where a cgroup holds the memory,
// it only asks that one.
import { setTimeout as sleep } from 'node:timers/promises';
import { closeDisk, type Disk, lookAtDisk, openDisk } from './disk-watch.ts';
import { measureHeld } from './held.ts';
import {
  createChildrenFinder,
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
/** A look may seem to take long, as when the process has just begun: a limit must not wait for that. */
const MOST_LOOK_MS = 300;
/** Between two looks passes so many times what one takes: watching has a twentieth of a core at most. */
const REST = 20;
const MAX_MEASURE_REST_MS = 500;
/** Each pause of a close look is time to take more. */
const HASTY_SLICE_MS = 10;
/** Between spawning (vfork) and its program, a child has its parent's memory. */
const CONFIRM_MS = 20;

interface Command {
  /** Its processes are these and all below them. */
  roots: () => readonly number[];
  /** As `Place.kills`, when it began. */
  killsBefore: number;
  onLimit: (reason: 'memory_limit' | 'disk_limit') => void;
}

/** A folder with all commands over it, whose limits they share. */
interface Place {
  directory: string;
  commands: Set<Command>;
  /** Where the kernel holds the memory: how many processes it has ended for that. */
  kills: (() => number) | undefined;
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
  disk: Disk;
}

const places = new Map<string, Place>();
let timer: NodeJS.Timeout | undefined;

/**
 * Watches a command whose first process is `pid` until the returned function is called or `onLimit` was, once. The limits
 * are those of all commands that are watched over the same `directory`: of memory, the command with the most is ended; of
 * disk, all are. Who starts with a full disk gets 16 MB more, up to twice the limit; who starts with still more may not take
 * more, but remove files.
 * With `kills`, see cgroup.ts, the kernel holds the memory, and when it has ended a process, all commands over the
 * directory are ended: whose it was is not told.
 */
export function watchLimits(
  target: {
    pid: number;
    /** Where a command has processes that are not below its first one: all, as they are now. */
    processes?: () => readonly number[];
    directory: string;
    memoryBytes: number;
    diskBytes: number;
    kills?: () => number;
  },
  onLimit: (reason: 'memory_limit' | 'disk_limit') => void,
): () => void {
  if (!canWatch) return () => {};
  const place = places.get(target.directory) ?? createPlace(target);
  places.set(target.directory, place);
  const { pid, processes = () => [pid] } = target;
  const command: Command = { roots: processes, killsBefore: place.kills?.() ?? 0, onLimit };
  place.commands.add(command);
  timer ??= setTimeout(look, LOOK_MS).unref();
  return () => {
    tellOfKill(place, command);
    forget(place, command);
  };
}

function forget(place: Place, command: Command): void {
  place.commands.delete(command);
  if (place.commands.size || places.get(place.directory) !== place) return;
  places.delete(place.directory);
  closeDisk(place.disk);
}

function tell(place: Place, command: Command, reason: 'memory_limit' | 'disk_limit'): void {
  if (!place.commands.has(command)) return;
  forget(place, command);
  command.onLimit(reason);
}

function tellOfKill(place: Place, command: Command): void {
  if (place.kills && place.kills() > command.killsBefore) tell(place, command, 'memory_limit');
}

function createPlace(target: Omit<Parameters<typeof watchLimits>[0], 'pid'>): Place {
  const { directory, memoryBytes, diskBytes, kills } = target;
  const place: Place = {
    directory,
    commands: new Set(),
    kills,
    memory: {
      limit: memoryBytes,
      isMeasuring: false,
      nextAt: 0,
      found: 0,
      bound: 0,
      shared: measureSharedMemory(),
    },
    disk: openDisk(directory, diskBytes, () => {
      for (const command of place.commands) tell(place, command, 'disk_limit');
    }),
  };
  return place;
}

function look(): void {
  const began = cpuMs();
  const findChildren = createChildrenFinder();
  for (const place of places.values()) {
    if (place.kills) for (const command of place.commands) tellOfKill(place, command);
    else if (place.memory.limit < Number.POSITIVE_INFINITY) lookAtMemory(place, findChildren);
    lookAtDisk(place.disk, () => [...treesOf(place, createChildrenFinder()).values()].flat());
  }
  const ms = cpuMs() - began;
  timer = places.size ? setTimeout(look, Math.min(Math.max(LOOK_MS, ms * REST), MOST_LOOK_MS)).unref() : undefined;
}

type Trees = Map<Command, ProcessUse[]>;

function treesOf(place: Place, findChildren: FindChildren): Trees {
  return new Map([...place.commands].map((command) => [command, measureTree(command.roots(), findChildren)]));
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
  let inFiles = 0;
  for (const [command, uses] of trees) {
    const found = await measureMemory(uses, { enough: limit, slice: createSlice(HASTY_SLICE_MS) });
    let { bytes, files } = found;
    const grown = measureSharedMemory() - shared;
    if (bytes <= limit && grown > files) {
      const held = await measureHeld(uses, { device: place.disk.device, slice: createSlice() });
      files = Math.max(files, held.memory);
      // What is mapped may have holes, and what the machine has more may be others': what both say is taken for theirs.
      files = Math.max(files, Math.min(held.memory + held.mapped, grown - inFiles));
      bytes += files - found.files;
    }
    inFiles += files;
    total += bytes;
    if (bytes > most) [largest, most] = [command, bytes];
  }
  return { total, largest };
}
