// What the attacks on sandboxes share. An attack is plain code without a test runner, so that a process of an ordinary user
// can run it, too.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CreateBackend } from '../../src/sandbox/sandbox.ts';
import { processesWith, type Bench } from '../../src/testing/sandbox-bench.ts';

export const kinds = ['bwrap', 'unshare'] as const;
export type AttackedKind = (typeof kinds)[number];

export const loadBackend: Record<AttackedKind, () => Promise<CreateBackend>> = {
  bwrap: async () => (await import('../../src/sandbox/bwrap.ts')).createBwrapBackend,
  unshare: async () => (await import('../../src/sandbox/unshare.ts')).createUnshareBackend,
};

export interface Attack {
  name: string;
  /** Also tried as an ordinary user. */
  isMain?: boolean;
  /** Resolves to what came of it, for people, beginning with `refused` or `contained`; rejects when the host was harmed. */
  run(bench: Bench): Promise<string>;
}

const MB = 1_000_000;
export const toMB = (bytes: number): number => Math.round(bytes / MB);

/** What the machine has left for programs, in bytes. */
export function availableMemory(): number {
  return Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) * 1024;
}

const pidsOfHost = (): string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return ''; // It has ended.
  }
}

export interface Peak {
  /** Processes of the command. */
  processes: number;
  /** Their memory, in bytes; what they share counts for each. */
  bytes: number;
  /** Of the machine: memory that went away, and processes that came. */
  dipBytes: number;
  added: number;
}

/** Runs something whose processes have `mark` in their environment, and looks at the host meanwhile. */
export async function peakOf<T>(mark: string, work: () => Promise<T>): Promise<{ result: T; peak: Peak; ms: number }> {
  const peak: Peak = { processes: 0, bytes: 0, dipBytes: 0, added: 0 };
  const [memory, processes] = [availableMemory(), pidsOfHost().length];
  const old = new Set(pidsOfHost());
  let isOver = false;
  const began = performance.now();
  const watching = (async () => {
    while (!isOver) {
      const seen = pidsOfHost().filter((pid) => !old.has(pid) && read(`/proc/${pid}/environ`).includes(mark));
      peak.processes = Math.max(peak.processes, seen.length);
      peak.bytes = Math.max(
        peak.bytes,
        seen.reduce((sum, pid) => sum + Number(read(`/proc/${pid}/statm`).split(' ')[1] ?? 0) * 4096, 0),
      );
      peak.dipBytes = Math.max(peak.dipBytes, memory - availableMemory());
      peak.added = Math.max(peak.added, pidsOfHost().length - processes);
      await sleep(25);
    }
  })();
  const result = await work().finally(() => {
    isOver = true;
  });
  const ms = performance.now() - began;
  await watching;
  return { result, peak, ms };
}

/** Milliseconds until no process has the mark; rejects after two seconds. */
export async function waitUntilGone(mark: string): Promise<number> {
  const began = performance.now();
  while (performance.now() - began < 2_000) {
    if (!processesWith(mark).length) return Math.round(performance.now() - began);
    await sleep(10);
  }
  throw new Error(
    `Still there: ${processesWith(mark)
      .map((process) => process.commandLine)
      .join(', ')}`,
  );
}
