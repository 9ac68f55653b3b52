// What the processes below one process hold, read from /proc (Linux): a cheap upper bound, and the exact figures.
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Slice } from './slice.ts';

export interface ProcessUse {
  pid: number;
  /** Memory that is no file's, in bytes; what forked processes share counts for each of them. */
  bytes: number;
}

/** The process ids of the children of a process that has so many threads. */
export type FindChildren = (pid: number, threads: number) => number[];

const buffer = Buffer.allocUnsafe(65_536);

/** '' when it cannot be read: it is gone, or belongs to somebody else. A page comes at a time, whatever the buffer holds. */
function readProc(path: string): string {
  try {
    const file = openSync(path, 'r');
    try {
      let end = 0;
      for (let bytes = -1; bytes && end < buffer.length; end += bytes) {
        bytes = readSync(file, buffer, end, buffer.length - end, null);
      }
      return buffer.toString('latin1', 0, end);
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}

function listNumbers(path: string): number[] {
  try {
    return readdirSync(path).map(Number).filter(Number.isInteger);
  } catch {
    return []; // As with readProc.
  }
}

const toNumbers = (text: string): number[] => text.split(' ').filter(Boolean).map(Number);

/** Where the kernel has no list of children (CONFIG_PROC_CHILDREN), one look at all processes serves until it is asked anew. */
export function createChildrenFinder(options: { byScan?: boolean } = {}): FindChildren {
  if (!(options.byScan ?? !existsSync(`/proc/${process.pid}/task/${process.pid}/children`))) {
    return (pid, threads) => {
      if (threads === 1) return toNumbers(readProc(`/proc/${pid}/task/${pid}/children`));
      return listNumbers(`/proc/${pid}/task`).flatMap((id) => toNumbers(readProc(`/proc/${pid}/task/${id}/children`)));
    };
  }
  let byParent: Map<number, number[]> | undefined;
  return (pid) => (byParent ??= scanParents()).get(pid) ?? [];
}

function scanParents(): Map<number, number[]> {
  const byParent = new Map<number, number[]>();
  for (const pid of listNumbers('/proc')) {
    const text = readProc(`/proc/${pid}/stat`);
    // The name of the program comes before, in brackets, and may hold anything.
    const parent = Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]);
    const children = byParent.get(parent);
    if (children) children.push(pid);
    else byParent.set(parent, [pid]);
  }
  return byParent;
}

function kilobytesOf(text: string, field: string): number {
  const at = text.indexOf(`\n${field}:`);
  return at < 0 ? 0 : Number.parseInt(text.slice(at + field.length + 2), 10);
}

/** Processes and all below them, each once; about 40 microseconds each. */
export function measureTree(roots: readonly number[], findChildren: FindChildren): ProcessUse[] {
  const uses: ProcessUse[] = [];
  const queue = new Set(roots);
  for (const pid of queue) {
    let status = readProc(`/proc/${pid}/status`);
    if (!status) continue;
    const threads = kilobytesOf(status, 'Threads');
    for (const child of findChildren(pid, threads)) queue.add(child);
    // When the first thread has ended, only the others know of the memory.
    if (threads > 1 && status.includes('\nState:\tZ')) {
      status = readProc(`/proc/${pid}/task/${listNumbers(`/proc/${pid}/task`).at(-1)}/status`);
    }
    const held = kilobytesOf(status, 'RssAnon') + kilobytesOf(status, 'RssShmem') + kilobytesOf(status, 'VmSwap');
    uses.push({ pid, bytes: held * 1024 });
  }
  return uses;
}

/** A process with more is looked at outside of the event loop. */
const QUICK_BYTES = 500_000_000;

/**
 * The memory of processes where what several share counts once; of it, `files` is in files in memory. Walks the pages of
 * each process, a millisecond for 50 MB, the largest first, until there is more than `enough`.
 */
export async function measureMemory(
  uses: readonly ProcessUse[],
  options: { enough: number; slice: Slice },
): Promise<{ bytes: number; files: number }> {
  const found = { bytes: 0, files: 0 };
  for (const use of uses.toSorted((a, b) => b.bytes - a.bytes)) {
    if (found.bytes > options.enough) break;
    const pause = options.slice.pause();
    if (pause) await pause;
    const path = `/proc/${use.pid}/smaps_rollup`;
    const share = shareOf(
      use,
      use.bytes > QUICK_BYTES ? await readFile(path, 'latin1').catch(() => '') : readProc(path),
    );
    found.bytes += share.own + share.files;
    found.files += share.files;
  }
  return found;
}

function shareOf(use: ProcessUse, text: string): { own: number; files: number } {
  if (text.includes('\nPss_Anon:')) {
    const own = kilobytesOf(text, 'Pss_Anon') + kilobytesOf(text, 'SwapPss');
    return { own: own * 1024, files: kilobytesOf(text, 'Pss_Shmem') * 1024 };
  }
  // An older kernel; one that does not let us look closely; or the process is gone.
  if (text.includes('\nPss:')) return { own: kilobytesOf(text, 'Pss') * 1024, files: 0 };
  return { own: existsSync(`/proc/${use.pid}`) ? use.bytes : 0, files: 0 };
}

/** Of the whole machine: memory that belongs to files in memory, in bytes. */
export function measureSharedMemory(): number {
  return kilobytesOf(readProc('/proc/meminfo'), 'Shmem') * 1024;
}
