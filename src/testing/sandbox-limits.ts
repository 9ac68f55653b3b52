// Sandbox suite: what a command may use up. All attacks are bounded, so that they end by themselves where no limit holds.
import assert from 'node:assert/strict';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench, Case, HostProcess, Needs } from './sandbox-bench.ts';
import { hasPrograms, isIsolated, processesWith, stdoutOf, time } from './sandbox-bench.ts';

const memoryOfProcess: Needs = ({ memoryLimit }) => ({ 'memory limit of a process': memoryLimit !== 'none' });
const memoryOfAll: Needs = ({ memoryLimit }) => ({ 'memory limit of all processes': memoryLimit === 'total' });
const fileLimit: Needs = ({ diskLimit }) => ({ 'limit of a file': diskLimit !== 'none' });
const diskLimit: Needs = ({ diskLimit }) => ({ 'limit of all files': diskLimit === 'total' });
const processLimit: Needs = ({ hasProcessLimit }) => ({ 'limit of processes': hasProcessLimit });
/** Where processes are limited, so is their time: both are told by the same limits of the kernel. */
const timeLimit: Needs = (capabilities) => ({ ...hasPrograms(capabilities), ...processLimit(capabilities) });

/**
 * The most that the processes of some work were, and the most memory that they had together, as the host sees it. `blindMs`:
 * the longest time in which nobody looked; on a busy machine who watches limits has not looked either.
 */
async function peakOf(
  mark: string,
  work: Promise<unknown>,
): Promise<{ processes: number; bytes: number; blindMs: number }> {
  const peak = { processes: 0, bytes: 0, blindMs: 0 };
  let isOver = false;
  const watch = async () => {
    for (let last = performance.now(); !isOver; last = performance.now()) {
      await sleep(50);
      const seen = processesWith(mark);
      peak.processes = Math.max(peak.processes, seen.length);
      peak.bytes = Math.max(peak.bytes, sumOf(seen));
      peak.blindMs = Math.max(peak.blindMs, performance.now() - last);
    }
  };
  const watching = watch();
  await work.finally(() => (isOver = true));
  await watching;
  return peak;
}

const sumOf = (seen: HostProcess[]): number => seen.reduce((sum, { ownBytes }) => sum + ownBytes, 0);

/** Of the files below a folder, in bytes. */
async function usedIn(folder: string): Promise<number> {
  let used = 0;
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []))
    if (entry.isFile()) used += (await lstat(join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }))).size;
  return used;
}

async function expectOn({ tell }: Pick<Bench, 'tell'>): Promise<void> {
  assert.equal(await tell('echo on'), 'on\n', 'the sandbox goes on');
}

export const limitCases: Case[] = [
  {
    name: 'a process that takes too much memory is ended (SBX-10)',
    isSlow: true,
    needs: memoryOfProcess,
    async body(bench) {
      const { bash, limits } = bench;
      const mark = crypto.randomUUID();
      const bytes = limits.memoryBytes * 4;
      // tail keeps all of a line.
      const running = bash(`set -o pipefail; head -c ${bytes} /dev/zero | tail -n 1 | wc -c`, {
        env: { MARK: mark },
        timeoutMs: 30_000,
      });
      const peak = await peakOf(mark, running);
      const result = await running;
      assert(result.reason === 'memory_limit' || (result.reason === 'exit' && result.exitCode !== 0), result.reason);
      assert(!stdoutOf(result).includes(String(bytes)), 'it had all of it');
      assert(peak.bytes < limits.memoryBytes * 1.5, `it had ${peak.bytes >> 20} MB`);
      await expectOn(bench);
    },
  },
  {
    name: 'processes that take too much memory together are ended (SBX-10)',
    isSlow: true,
    needs: memoryOfAll,
    async body(bench) {
      const { bash, limits } = bench;
      const mark = crypto.randomUUID();
      const each = Math.round(limits.memoryBytes * 0.8);
      // One after another, so that who looks now and then sees it in time on a busy machine too.
      const part = `(head -c ${each} /dev/zero; sleep 5) | tail -n 1 | wc -c & sleep 0.4;`;
      const running = bash(`${part.repeat(8)} wait`, { env: { MARK: mark }, timeoutMs: 30_000 });
      const peak = await peakOf(mark, running);
      const result = await running;
      const held = stdoutOf(result).split('\n').map(Number);
      assert(
        result.reason === 'memory_limit' || held.reduce((sum, bytes) => sum + bytes, 0) <= limits.memoryBytes,
        `${result.reason}: ${held.join(' ')}`,
      );
      assert(peak.bytes < limits.memoryBytes * 3 || peak.blindMs > 250, `they had ${peak.bytes >> 20} MB`);
      await expectOn(bench);
    },
  },
  {
    name: 'processes beyond the limit do not start, and another sandbox goes on (SBX-10)',
    isSlow: true,
    needs: processLimit,
    async body(bench) {
      const { bash, another, limits } = bench;
      const other = await another();
      const mark = crypto.randomUUID();
      const script = 'f() { if [ $1 = 0 ]; then sleep 4; else f $(($1 - 1)) & f $(($1 - 1)) & wait; fi; }; f 9';
      const running = bash(script, { env: { MARK: mark }, timeoutMs: 3000, keepBytes: 1000 });
      const peak = peakOf(mark, running);
      await sleep(1000);
      const ms = await time(async () => {
        const result = await other.execution.exec({ argv: ['bash', '-c', 'echo on | cat'] });
        assert.equal(stdoutOf(result), 'on\n', 'the other sandbox has no process left');
      });
      await running;
      assert(ms < 2000, `the other sandbox took ${Math.round(ms)} ms`);
      const { processes } = await peak;
      assert(processes < limits.processes + 20, `${processes} processes were alive`);
      await sleep(1000);
      assert.deepEqual(processesWith(mark), [], 'processes are alive');
      await expectOn(bench);
    },
  },
  {
    name: 'a file grows to the limit of a file and no further (SBX-10)',
    needs: fileLimit,
    async body(bench) {
      const { bash, limits, slot } = bench;
      const bytes = limits.fileBytes + 8_000_000;
      const result = await bash(`head -c ${bytes} /dev/zero > big && echo whole`);
      assert(result.reason === 'disk_limit' || (result.reason === 'exit' && result.exitCode !== 0), result.reason);
      assert((await usedIn(slot.directory)) <= limits.fileBytes);
      await bash('rm -f big');
      await expectOn(bench);
    },
  },
  {
    name: 'files together grow to the limit of the disk and not much further (SBX-10)',
    isSlow: true,
    needs: diskLimit,
    async body(bench) {
      const { bash, limits, slot, files } = bench;
      const name = `fill-${crypto.randomUUID()}`;
      for (const folder of ['.', '$TMPDIR']) {
        // Slow enough to be seen by who looks now and then.
        const script = `for i in $(seq 60); do head -c 4000000 /dev/zero > ${folder}/${name}-$i || exit 9; sleep 0.05; done; echo whole`;
        const result = await bash(script);
        assert(result.reason === 'disk_limit' || (result.reason === 'exit' && result.exitCode !== 0), folder);
        assert(!stdoutOf(result).includes('whole'), folder);
        const used = await usedIn(slot.directory);
        assert(used < limits.diskBytes * 1.75, `${used >> 20} MB are used`);
        assert.equal((await bash(`rm -f ${folder}/${name}-*`)).exitCode, 0, 'it can be made free');
        await expectOn(bench);
      }
      await files.write('after.txt', 'x');
    },
  },
  {
    name: 'a process that computes on and on is ended',
    isSlow: true,
    needs: timeLimit,
    async body({ bash }) {
      const result = await bash('while :; do :; done', { timeoutMs: 60_000 });
      assert.equal(result.reason, 'exit');
      assert.notEqual(result.exitCode, 0);
    },
  },
  {
    name: 'many commands in a row leave no trace of each other',
    needs: isIsolated,
    async body({ bash, tell }) {
      for (let i = 0; i < 10; i++) assert.equal((await bash(`echo ${i} > own-${i}; exit ${i}`)).exitCode, i);
      assert.equal(await tell('ls | wc -l | tr -d " "'), '10\n');
    },
  },
];
