// Sandbox suite: commands that do not end by themselves, or leave something behind.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench, Case, Needs } from './sandbox-bench.ts';
import { hasCode, hasPrograms, killsAll, processesWith, stdoutOf, time } from './sandbox-bench.ts';

/** Takes no signal that can be ignored, and so does its child in a session of its own, which writes on and on. */
const stubborn = `
  trap '' TERM HUP INT
  setsid bash -c 'trap "" TERM HUP INT; while :; do echo x >> beat; sleep 0.05; done' &
  while :; do echo y; sleep 0.05; done`;

/** Of the stubborn command: it ran, and a second after its end nothing of it is alive. */
async function expectNothingAlive({ tell }: Pick<Bench, 'tell'>, mark: string): Promise<void> {
  await sleep(1000);
  assert.deepEqual(processesWith(mark), [], 'processes are alive');
  const before = Number(await tell('wc -c < beat'));
  assert(before > 0, 'the child never ran');
  await sleep(300);
  assert.equal(Number(await tell('wc -c < beat')), before, 'something writes on');
}

const endsBackground: Needs = (capabilities) => ({
  ...hasPrograms(capabilities),
  'background ends with its command': !capabilities.keepsBackground,
});
const keepsBackground: Needs = (capabilities) => ({
  ...hasPrograms(capabilities),
  'background is kept': capabilities.keepsBackground,
});

export const endingCases: Case[] = [
  {
    name: 'at its time limit a command ends, and what it wrote is told (SBX-05)',
    async body({ bash, tell }) {
      const ms = await time(async () => {
        const result = await bash('echo begun; sleep 20; echo late', { timeoutMs: 300 });
        assert.deepEqual([result.reason, result.exitCode], ['timeout', null]);
        assert(!stdoutOf(result).includes('late'));
        assert(result.ms >= 290, `${result.ms} ms are less than the limit`);
      });
      assert(ms < 2400, `it took ${Math.round(ms)} ms`);
      assert.equal(await tell('echo on'), 'on\n', 'and the sandbox goes on');
    },
  },
  {
    name: 'what was written before the time limit is kept (SBX-05)',
    needs: hasPrograms,
    async body({ bash }) {
      const result = await bash('echo begun; echo wrong >&2; sleep 20', { timeoutMs: 300 });
      assert.deepEqual([stdoutOf(result), Buffer.from(result.stderr.head).toString()], ['begun\n', 'wrong\n']);
    },
  },
  {
    name: 'a busy loop ends at its time limit too, and the server goes on meanwhile',
    async body({ bash }) {
      let ticks = 0;
      const timer = setInterval(() => ticks++, 10);
      const result = await bash('while :; do :; done', { timeoutMs: 300 });
      clearInterval(timer);
      assert.equal(result.reason, 'timeout');
      assert(result.ms < 2500, `it took ${result.ms} ms`);
      assert(ticks > 10, `${ticks} ticks`);
    },
  },
  {
    name: 'a second after the time limit nothing of a command is alive, whatever it did (SBX-05)',
    isSlow: true,
    needs: killsAll,
    async body(bench) {
      const mark = crypto.randomUUID();
      const result = await bench.bash(stubborn, { timeoutMs: 700, env: { MARK: mark } });
      assert.deepEqual([result.reason, result.exitCode], ['timeout', null]);
      assert.match(stdoutOf(result), /^y\ny\n/);
      assert(result.ms < 2000, `it took ${result.ms} ms`);
      await expectNothingAlive(bench, mark);
    },
  },
  {
    name: 'an abort ends a command at once',
    async body({ bash, tell }) {
      const abort = new AbortController();
      setTimeout(() => abort.abort(), 200);
      const ms = await time(async () => {
        const result = await bash('echo begun; sleep 20', { signal: abort.signal });
        assert.deepEqual([result.reason, result.exitCode], ['aborted', null]);
      });
      assert(ms < 2300, `it took ${Math.round(ms)} ms`);
      const late = await bash('sleep 20; echo late', { signal: abort.signal });
      assert.deepEqual([late.reason, stdoutOf(late)], ['aborted', ''], 'aborted before it began');
      assert.equal(await tell('echo on'), 'on\n', 'and the sandbox goes on');
    },
  },
  {
    name: 'a second after an abort nothing of a command is alive, whatever it did',
    isSlow: true,
    needs: killsAll,
    async body(bench) {
      const mark = crypto.randomUUID();
      const abort = new AbortController();
      setTimeout(() => abort.abort(), 700);
      const result = await bench.bash(stubborn, { signal: abort.signal, env: { MARK: mark } });
      assert.equal(result.reason, 'aborted');
      await expectNothingAlive(bench, mark);
    },
  },
  {
    name: 'a time limit ends its own command and no other',
    isSlow: true,
    needs: hasPrograms,
    async body({ bash }) {
      const other = bash('sleep 3; echo whole');
      assert.equal((await bash('sleep 20', { timeoutMs: 1200 })).reason, 'timeout');
      const result = await other;
      assert.deepEqual([result.reason, stdoutOf(result)], ['exit', 'whole\n']);
    },
  },
  {
    name: 'of much output the head and the tail are kept, and every byte is passed on',
    async body({ bash }) {
      let bytes = 0;
      const onOutput = (_: string, chunk: Uint8Array) => void (bytes += chunk.byteLength);
      // 90,000 lines of 6 bytes.
      const { reason, exitCode, stdout } = await bash('seq 10000 99999', { keepBytes: 1200, onOutput });
      assert.deepEqual([reason, exitCode], ['exit', 0]);
      assert.equal(bytes, 540_000);
      assert.equal(stdout.omittedBytes, 540_000 - 1200);
      assert.deepEqual([stdout.head.byteLength, stdout.tail.byteLength], [600, 600]);
      assert.match(Buffer.from(stdout.head).toString(), /^10000\n10001\n/);
      assert.match(Buffer.from(stdout.tail).toString(), /99998\n99999\n$/);
    },
  },
  {
    name: 'beyond the limit of output a command is ended, and the server does not grow',
    isSlow: true,
    needs: hasPrograms,
    async body({ bash, limits, tell }) {
      const before = process.memoryUsage().rss;
      let peak = before;
      const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 20);
      const result = await bash('echo first; head -c 300000000 /dev/zero | tr "\\0" x; echo last', { keepBytes: 1000 });
      clearInterval(timer);
      assert.deepEqual([result.reason, result.exitCode], ['output_limit', null]);
      const { head, tail, omittedBytes } = result.stdout;
      assert(head.byteLength + tail.byteLength <= 1000);
      assert.match(Buffer.from(head).toString(), /^first\n/);
      const total = head.byteLength + tail.byteLength + omittedBytes;
      assert(total > limits.outputBytes && total < limits.outputBytes + 10_000_000, `${total} bytes were read`);
      assert(peak - before < 100_000_000, `the server grew by ${peak - before} bytes`);
      assert.equal(await tell('echo on'), 'on\n', 'and the sandbox goes on');
    },
  },
  {
    name: 'a command that leaves something in the background ends all the same',
    needs: hasPrograms,
    async body({ bash }) {
      for (const script of ['sleep 9 & echo begun', 'sleep 9 >/dev/null 2>&1 & echo begun']) {
        let result: Awaited<ReturnType<typeof bash>>;
        const ms = await time(async () => (result = await bash(script)));
        assert.deepEqual([result!.reason, result!.exitCode, stdoutOf(result!)], ['exit', 0, 'begun\n']);
        assert(ms < 3000, `it took ${Math.round(ms)} ms`);
      }
    },
  },
  {
    name: 'what is left in the background ends with its command',
    isSlow: true,
    needs: endsBackground,
    async body({ bash, tell }) {
      const mark = crypto.randomUUID();
      const script = 'setsid bash -c "sleep 0.5; echo late > late.txt" >/dev/null 2>&1 & echo begun';
      assert.equal(stdoutOf(await bash(script, { env: { MARK: mark } })), 'begun\n');
      await sleep(800);
      assert.deepEqual(processesWith(mark), []);
      assert.equal(await tell('ls'), '');
    },
  },
  {
    name: 'what is left in the background goes on, and ends with the sandbox',
    isSlow: true,
    needs: keepsBackground,
    async body({ another, backend }) {
      const { execution, close } = await another();
      const mark = crypto.randomUUID();
      const script = '(sleep 0.4; echo late > late.txt; sleep 30) >/dev/null 2>&1 & echo begun';
      await execution.exec({ argv: ['bash', '-c', script], env: { MARK: mark } });
      await sleep(1000);
      const seen = await execution.exec({ argv: ['cat', 'late.txt'] });
      assert.equal(stdoutOf(seen), 'late\n');
      await close();
      await sleep(500);
      // Where not all is killed, what left its group stays: a declared gap, and this one did not leave it.
      assert.deepEqual(processesWith(mark), [], backend.kind);
    },
  },
  {
    name: 'closing ends what runs, and nothing runs after it',
    async body({ another }) {
      const { execution } = await another();
      const running = ['sleep 20', 'while :; do :; done'].map((script) =>
        execution.exec({ argv: ['bash', '-c', script] }),
      );
      await sleep(200);
      const ms = await time(() => execution.close());
      assert(ms < 3000, `it took ${Math.round(ms)} ms`);
      for (const result of await Promise.all(running))
        assert.deepEqual([result.reason, result.exitCode], ['closed', null]);
      await assert.rejects(execution.exec({ argv: ['true'] }), hasCode('sandbox.closed'));
      await Promise.all([execution.close(), execution.close()]);
    },
  },
  {
    name: 'after closing nothing of a command is alive, whatever it did',
    isSlow: true,
    needs: killsAll,
    async body({ another }) {
      const { execution } = await another();
      const mark = crypto.randomUUID();
      const running = execution.exec({ argv: ['bash', '-c', stubborn], env: { MARK: mark } });
      await sleep(600);
      await execution.close();
      assert.equal((await running).reason, 'closed');
      await sleep(500);
      assert.deepEqual(processesWith(mark), []);
    },
  },
];
