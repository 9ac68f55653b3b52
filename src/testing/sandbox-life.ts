// Sandbox suite: from the opening of a sandbox to the end of its back end.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sandboxKinds } from '../sandbox/sandbox.ts';
import type { Case, SandboxUnderTest } from './sandbox-bench.ts';
import { descendants, hasCode, runOnBench, stdoutOf, time } from './sandbox-bench.ts';

/** In milliseconds, the middle one of each: a sandbox until it is open, the first and every other `true` in it, its closing. */
export interface SandboxTimes {
  open: number;
  first: number;
  next: number;
  close: number;
}

export async function measureSandbox(subject: SandboxUnderTest, rounds: number): Promise<SandboxTimes> {
  const times: Record<keyof SandboxTimes, number[]> = { open: [], first: [], next: [], close: [] };
  for (let i = 0; i < rounds; i++) {
    const opened: Awaited<ReturnType<SandboxUnderTest['open']>>[] = [];
    times.open.push(await time(async () => opened.push(await subject.open())));
    const { execution, close } = opened[0]!;
    times.first.push(await time(() => execution.exec({ argv: ['true'] })));
    for (let n = 0; n < 3; n++) times.next.push(await time(() => execution.exec({ argv: ['true'] })));
    times.close.push(await time(close));
  }
  const middle = (all: number[]): number => Math.round(all.sort((a, b) => a - b)[all.length >> 1]! * 10) / 10;
  const { open, first, next, close } = times;
  return { open: middle(open), first: middle(first), next: middle(next), close: middle(close) };
}

/** What this process holds of the host: descriptors, processes, and mounts of its slots. */
async function holdings(slots = ''): Promise<{ descriptors: number; processes: number; mounts: number }> {
  const count = async (path: string) => (await readdir(path).catch(() => [])).length;
  const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  return {
    descriptors: await count('/proc/self/fd'),
    processes: descendants().length,
    mounts: mounts.split('\n').filter((line) => line.includes(slots)).length,
  };
}

export const lifeCases: Case[] = [
  {
    name: 'a back end tells what it is',
    async body({ backend }) {
      assert(sandboxKinds.includes(backend.kind));
      assert(backend.description && backend.advice.endsWith('.'), backend.advice);
    },
  },
  {
    name: 'the files of the workspace stay when the sandbox is closed, and the next one has them',
    async body({ backend, slot, execution, files, tell }) {
      await tell('mkdir -p sub; echo command > sub/one.txt; echo gone > two.txt');
      await files.write('three.txt', 'host');
      await tell('rm two.txt');
      await execution.close();
      assert.deepEqual((await readdir(join(slot.directory, 'ws'))).sort(), ['sub', 'three.txt']);
      assert.equal(await readFile(join(slot.directory, 'ws/sub/one.txt'), 'utf8'), 'command\n');
      const next = await backend.open(slot, AbortSignal.timeout(60_000));
      const result = await next.exec({ argv: ['bash', '-c', 'cat sub/one.txt three.txt'] });
      await next.close();
      assert.equal(stdoutOf(result), 'command\nhost');
    },
  },
  {
    name: 'closing leaves nothing in the slot but the workspace and the temporary folder',
    async body({ slot, execution, tell }) {
      await tell('echo x > file.txt');
      await execution.close();
      assert.deepEqual((await readdir(slot.directory)).sort(), ['tmp', 'ws']);
      assert.deepEqual(await readdir(join(slot.directory, 'ws')), ['file.txt']);
    },
  },
  {
    name: 'an opening that is aborted rejects, and leaves nothing',
    async body({ backend, slot }) {
      const before = await holdings();
      await assert.rejects(backend.open(slot, AbortSignal.abort()));
      await sleep(200);
      const after = await holdings();
      assert(after.processes <= before.processes, JSON.stringify({ before, after }));
    },
  },
  {
    name: 'opening and closing again and again leaves no process, no descriptor and no mount',
    isSlow: true,
    async body({ another, tell, slot }) {
      await tell('true');
      const slots = dirname(dirname(slot.directory));
      const round = async () => {
        const { execution, close } = await another();
        assert.equal(stdoutOf(await execution.exec({ argv: ['echo', 'x'] })), 'x\n');
        await close();
      };
      for (let i = 0; i < 3; i++) await round();
      const before = await holdings(slots);
      for (let i = 0; i < 12; i++) await round();
      await sleep(500);
      const after = await holdings(slots);
      for (const name of ['descriptors', 'processes', 'mounts'] as const)
        assert(after[name] <= before[name] + 2, `${name}: ${before[name]}, then ${after[name]}`);
    },
  },
  {
    name: 'opening and a first command take a moment',
    isSlow: true,
    async body({ another, backend, limits }) {
      const subject = { backend, limits, open: another, [Symbol.asyncDispose]: () => Promise.resolve() };
      const { open, first, next } = await measureSandbox(subject, 5);
      assert(open < 3000 && first < 1500 && next < 1000, `open ${open} ms, first ${first} ms, next ${next} ms`);
    },
  },
];

/** With a back end of its own. */
export async function expectEndOfBackend(subject: SandboxUnderTest): Promise<void> {
  const before = await holdings();
  await runOnBench(subject, async ({ backend, execution, another }) => {
    const { execution: other } = await another();
    const running = execution.exec({ argv: ['bash', '-c', 'sleep 20'] });
    await sleep(200);
    await backend[Symbol.asyncDispose]();
    const { reason } = await running;
    assert.equal(reason, 'closed');
    for (const ended of [execution, other])
      await assert.rejects(ended.exec({ argv: ['true'] }), hasCode('sandbox.closed'));
  });
  await sleep(300);
  const after = await holdings();
  assert(after.processes <= before.processes, JSON.stringify({ before, after }));
}
