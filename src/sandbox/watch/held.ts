// What processes keep in files that have no name any more, read from /proc (Linux).
import { closeSync, openSync, readdirSync, readFileSync, readSync, type Stats, statSync } from 'node:fs';
import type { ProcessUse } from './processes.ts';
import type { Slice } from './slice.ts';

export interface Held {
  /** Bytes on the device that was asked for. */
  disk: number;
  /** All others. */
  memory: number;
  /** At most so much more is in memory that is mapped: it may have holes, or be on another disk. */
  mapped: number;
  /** False where something may be held that cannot be seen. */
  isWhole: boolean;
}

interface Search {
  device: number;
  slice: Slice;
  seen: Set<string>;
  /** Of each file, as `Held.mapped`. */
  mapped: Map<string, number>;
  held: Held;
}

/** Descriptors that are on their way through a socket, or known only to a ring of io_uring: no process has them. */
const OUT_OF_SIGHT = /^(?:scm_fds|UserFiles):\s*[1-9]/m;

/**
 * What processes keep in files without a name: removed ones that are open, mapped or run, and those made by memfd_create.
 * Of what is mapped, what is on `device` counts, and what no disk has, such as memory that is shared. About 3 microseconds
 * for each descriptor of each thread.
 */
export async function measureHeld(
  uses: readonly ProcessUse[],
  options: { device: number; slice: Slice },
): Promise<Held> {
  const held: Held = { disk: 0, memory: 0, mapped: 0, isWhole: true };
  const search: Search = { ...options, seen: new Set(), mapped: new Map(), held };
  for (const { pid } of uses) {
    const threads = namesIn(`/proc/${pid}/task`, search).map((id) => `/proc/${pid}/task/${id}`);
    // Each may have descriptors of its own, and the first may have ended.
    for (const thread of threads) {
      await addDescriptors(thread, search);
      addFile(`${thread}/exe`, search);
    }
    const last = threads.at(-1);
    if (last && !(await addMappings(pid, `/proc/${pid}/maps`, search))) await addMappings(pid, `${last}/maps`, search);
  }
  for (const [key, bytes] of search.mapped) if (!search.seen.has(key)) held.mapped += bytes;
  return held;
}

/** [] when it cannot be read. */
function namesIn(folder: string, search: Search): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    noteRefusal(error, search);
    return [];
  }
}

/** What is gone holds nothing. */
function noteRefusal(error: unknown, { held }: Search): void {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EACCES' || code === 'EPERM') held.isWhole = false;
}

async function addDescriptors(thread: string, search: Search): Promise<void> {
  for (const id of namesIn(`${thread}/fd`, search)) {
    const pause = search.slice.pause();
    if (pause) await pause;
    const file = addFile(`${thread}/fd/${id}`, search);
    if (!file || file.isFile() || file.isDirectory() || file.isFIFO() || file.isCharacterDevice()) continue;
    try {
      if (OUT_OF_SIGHT.test(readFileSync(`${thread}/fdinfo/${id}`, 'latin1'))) search.held.isWhole = false;
    } catch (error) {
      noteRefusal(error, search);
    }
  }
}

/** Undefined when it cannot be looked at. */
function addFile(path: string, { device, seen, held }: Search): Stats | undefined {
  try {
    const file = statSync(path);
    if (!file.isFile() || file.nlink > 0) return file;
    const key = `${toMapped(file.dev)}:${file.ino}`;
    if (seen.has(key)) return file;
    seen.add(key);
    held[file.dev === device ? 'disk' : 'memory'] += file.blocks * 512;
    return file;
  } catch {
    return undefined; // It was closed meanwhile.
  }
}

function allocatedBytes(path: string): number | undefined {
  try {
    return statSync(path).blocks * 512;
  } catch {
    return undefined;
  }
}

const MAPPING = /^0*(\w+)-0*(\w+) \S+ (\S+) (\S+) (\d+)/;

/** Resolves to whether there were any. */
async function addMappings(pid: number, path: string, search: Search): Promise<boolean> {
  const device = toMapped(search.device);
  let isEmpty = true;
  for (const lines of readChunks(path, search)) {
    isEmpty = false;
    const pause = search.slice.pause();
    if (pause) await pause;
    for (const line of lines) {
      if (!line.endsWith(' (deleted)')) continue;
      const [, start = '', end = '', offset = '', on = '', inode] = MAPPING.exec(line) ?? [];
      const key = `${on}:${inode}`;
      if (search.seen.has(key)) continue;
      const file = `/proc/${pid}/map_files/${start}-${end}`;
      // Without privileges, only how much of it is mapped can be told.
      const bytes = Number.parseInt(end, 16) - Number.parseInt(start, 16);
      if (on === device) {
        if (addFile(file, search)) continue;
        search.seen.add(key);
        search.held.disk += bytes;
        search.held.isWhole = false;
      } else if (on.startsWith('00:')) {
        const size = allocatedBytes(file) ?? Number.parseInt(offset, 16) + bytes;
        search.mapped.set(key, Math.max(search.mapped.get(key) ?? 0, size));
      }
    }
  }
  return !isEmpty;
}

/** As a list of mappings writes it. */
function toMapped(device: number): string {
  const [high, low] = [Math.floor(device / 2 ** 32), device >>> 0];
  const major = (high & 0xfffff000) | ((low >>> 8) & 0xfff);
  const minor = ((low >>> 12) & 0xffffff00) | (low & 0xff);
  return [major, minor].map((part) => part.toString(16).padStart(2, '0')).join(':');
}

const buffer = Buffer.allocUnsafe(65_536);

/** The lines of a file, some at a time: a process may have tens of thousands of mappings. */
function* readChunks(path: string, search: Search): Generator<string[]> {
  try {
    const file = openSync(path, 'r');
    try {
      let rest = '';
      for (let bytes = -1; bytes;) {
        bytes = readSync(file, buffer, 0, buffer.length, null);
        const lines = (rest + buffer.toString('latin1', 0, bytes)).split('\n');
        rest = lines.pop() ?? '';
        if (bytes) yield lines;
      }
    } finally {
      closeSync(file);
    }
  } catch (error) {
    noteRefusal(error, search);
  }
}
