// How commands begin and end, shown with bubblewrap.
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ExecSpec, Slot } from '../../src/sandbox/sandbox.ts';
import {
  bash,
  createBackend,
  createPlace,
  errorOf,
  limits,
  never,
  type Place,
  processesWith,
  textOf,
  user,
} from './bwrap-place.ts';

let place: Place;
beforeAll(async () => {
  place = await createPlace();
});
afterAll(async () => {
  await place[Symbol.asyncDispose]();
});

test('SBX-17, SBX-06: arguments and environment arrive as they are, and nothing of them is run', async () => {
  await using sandbox = await place.open();
  const everyCharacter = Array.from({ length: 255 }, (_, index) => String.fromCharCode(index + 1)).join('');
  const hard = ['a  b; id', '', '-n', `'"$(id)\`id\`\\`, 'one\ntwo\n', '中文 🦞', '*', '$HOME', everyCharacter];
  const show = 'import json,os,sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))';
  const env = Object.fromEntries(hard.map((value, index) => [`VALUE_${index}`, value]));
  const result = await sandbox.exec({
    argv: ['python3', '-c', show, ...hard],
    env: { ...env, IFS: 'x', LC_ALL: 'none', fields: 'x', command: 'y' },
  });
  expect(errorOf(result)).toBe('');
  const [argv, seen] = JSON.parse(textOf(result)) as [string[], Record<string, string>];
  expect(argv).toEqual(hard);
  expect(seen).toMatchObject({
    ...env,
    IFS: 'x',
    LC_ALL: 'none',
    HOME: '/workspace',
    PATH: '/usr/local/bin:/usr/bin:/bin',
  });
  expect(
    Object.keys(seen)
      .filter((name) => !name.startsWith('VALUE_'))
      .sort(),
  ).toEqual(['HOME', 'IFS', 'LANG', 'LC_ALL', 'PATH', 'PWD', 'SHLVL', 'TMPDIR', 'USER', 'command', 'fields']);
});

test('an argument may be as long as the kernel lets it be', async () => {
  await using sandbox = await place.open();
  const long = 'x'.repeat(120_000);
  const result = await sandbox.exec({ argv: bash('printf %s "$1" | wc -c', long) });
  expect(textOf(result)).toBe('120000\n');
  const tooLong = await sandbox.exec({ argv: ['echo', 'x'.repeat(200_000)] });
  expect([tooLong.exitCode, errorOf(tooLong)]).toEqual([126, expect.stringContaining('too long')]);
});

test('exit codes are those of a shell', async () => {
  await using sandbox = await place.open();
  const codes = await Promise.all(
    [bash('exit 3'), ['no-such-program'] as const, ['/etc/passwd'] as const, bash('kill -9 $$')].map(
      async (argv) => (await sandbox.exec({ argv })).exitCode,
    ),
  );
  expect(codes).toEqual([3, 127, 126, 137]);
});

test('commands that cannot be run are refused, and the next one runs', async () => {
  await using sandbox = await place.open();
  const refused: ExecSpec[] = [
    { argv: [''] },
    { argv: ['a\0b'] },
    { argv: ['true'], env: { 'a-b': '1' } },
    { argv: ['true'], env: { 'a[$(id)]': '1' } },
    { argv: ['true'], env: { A: '\0' } },
    { argv: ['true'], cwd: '/etc' },
    { argv: ['true'], cwd: '../slot' },
    { argv: ['true'], cwd: 'missing' },
  ];
  for (const spec of refused) {
    await expect(sandbox.exec(spec)).rejects.toMatchObject({ code: 'sandbox.invalid_command' });
  }
  expect(textOf(await sandbox.exec({ argv: bash('pwd'), cwd: '/tmp' }))).toBe('/tmp\n');
  expect(textOf(await sandbox.exec({ argv: bash('pwd') }))).toBe('/workspace\n');
});

test('SBX-09: standard input is byte-exact, or empty; it and the outputs can be opened by name', async () => {
  await using sandbox = await place.open();
  const bytes = randomBytes(20_000_000);
  const result = await sandbox.exec({ argv: ['sha256sum', '/dev/stdin'], stdin: bytes });
  expect(textOf(result)).toContain(createHash('sha256').update(bytes).digest('hex'));
  expect(textOf(await sandbox.exec({ argv: ['wc', '-c'] }))).toBe('0\n');
  // Ends without reading what it is given.
  expect((await sandbox.exec({ argv: ['true'], stdin: bytes })).exitCode).toBe(0);
  const names = 'sleep 0.1; cat /dev/stdin >/dev/stdout; echo err | tee /dev/stderr >/dev/null';
  for (const stdin of ['given\n', '']) {
    const named = await sandbox.exec({ argv: bash(names), stdin });
    expect([textOf(named), errorOf(named)]).toEqual([stdin, 'err\n']);
  }
});

test('SBX-05: at the time limit nothing is left, whatever it did', async () => {
  await using sandbox = await place.open();
  const script =
    'trap "" TERM HUP INT; (trap "" TERM; exec setsid nohup sleep 7731.907523) & setsid -f sleep 7731.907523; echo begun; while :; do sleep 7731.907523; done';
  const began = performance.now();
  const result = await sandbox.exec({ argv: bash(script), timeoutMs: 500 });
  expect(performance.now() - began).toBeLessThan(1500);
  expect(result).toMatchObject({ reason: 'timeout', exitCode: null });
  expect(textOf(result)).toBe('begun\n');
  expect(processesWith('7731.907523')).toEqual([]);
});

test('SBX-12: an abort ends a command, before and while it runs', async () => {
  await using sandbox = await place.open();
  expect(await sandbox.exec({ argv: ['sleep', '7732.907523'], signal: AbortSignal.abort() })).toMatchObject({
    reason: 'aborted',
  });
  const result = await sandbox.exec({ argv: ['sleep', '7732.907523'], signal: AbortSignal.timeout(200) });
  expect(result).toMatchObject({ reason: 'aborted', exitCode: null });
  expect(processesWith('7732.907523')).toEqual([]);
});

test('what runs in the background ends with its command', async () => {
  await using sandbox = await place.open();
  const result = await sandbox.exec({ argv: bash('setsid nohup sleep 7733.907523 >/dev/null 2>&1 & echo done') });
  expect(textOf(result)).toBe('done\n');
  expect(processesWith('7733.907523')).toEqual([]);
});

test('close ends what runs, with the reason, and refuses what comes later', async () => {
  const sandbox = await place.open();
  const running = sandbox.exec({ argv: ['sleep', '7734.907523'] });
  await sleep(100);
  await Promise.all([sandbox.close(), sandbox.close()]);
  expect(await running).toMatchObject({ reason: 'closed' });
  await expect(sandbox.exec({ argv: ['true'] })).rejects.toMatchObject({ code: 'sandbox.closed' });
  expect(processesWith('7734.907523')).toEqual([]);
});

test('SBX-16: several commands run at once, and their output comes while they run', async () => {
  await using sandbox = await place.open();
  const began = performance.now();
  let first = Number.POSITIVE_INFINITY;
  const onOutput = () => (first = Math.min(first, performance.now() - began));
  const results = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      sandbox.exec({ argv: bash(`echo ${index}; sleep 1; echo ${index}`), onOutput }),
    ),
  );
  expect(results.map(textOf)).toEqual(results.map((_, index) => `${index}\n${index}\n`));
  expect(first).toBeLessThan(800);
});

test('SBX-10: endless output ends the command, and takes little memory', async () => {
  await using sandbox = await place.open();
  const flood = await sandbox.exec({ argv: ['cat', '/dev/zero'] });
  expect(flood.reason).toBe('output_limit');

  await using generous = await createBackend({ outputBytes: 1_000_000_000 });
  await using other = await place.open({ from: generous });
  const before = process.memoryUsage().rss;
  let most = 0;
  const onOutput = () => (most = Math.max(most, process.memoryUsage.rss()));
  const all = await other.exec({ argv: ['head', '-c', '300000000', '/dev/zero'], onOutput });
  expect([all.reason, all.stdout.omittedBytes]).toEqual(['exit', 300_000_000 - 64_000]);
  expect(most - before).toBeLessThan(64_000_000);
});

test('open rejects where the slot is not there, or is not wanted any more; then nothing is left', async () => {
  const slot: Slot = { id: 'x', directory: join(place.root, 'missing'), ...(user && { user }) };
  await expect(place.backend.open(slot, never)).rejects.toMatchObject({
    code: 'sandbox.failed',
    message: expect.stringContaining('missing'),
  });
  await expect(place.backend.open(await place.makeSlot(), AbortSignal.abort())).rejects.toMatchObject({
    code: 'sandbox.failed',
  });
});

test('SBX-14: nothing is left of 200 sandboxes', async () => {
  const descriptors = () => readdirSync('/proc/self/fd').length;
  await using own = await createBackend({ cpuSeconds: 77 });
  const slot = await place.makeSlot();
  const before = descriptors();
  for (let round = 0; round < 50; round++) {
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        const execution = await own.open(slot, never);
        if (round % 2) await execution.exec({ argv: ['true'] });
        await execution.close();
      }),
    );
  }
  await sleep(100);
  expect(processesWith('-t 77 ')).toEqual([]);
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(slot.id);
  // Some pipes are kept in stock.
  expect(descriptors() - before).toBeLessThan(60);
}, 60_000);

test('SBX-13: when the server is killed, its sandboxes end', async () => {
  const slot = await place.makeSlot();
  const source = `
import { createBwrapBackend } from ${JSON.stringify(join(import.meta.dirname, '../../src/sandbox/bwrap.ts'))};
const log = { warn() {}, error() {} };
const backend = await createBwrapBackend({ limits: ${JSON.stringify(limits)}, network: 'none', hidden: [], docker: {}, e2b: {}, log });
const sandbox = await backend.open(${JSON.stringify(slot)}, new AbortController().signal);
void sandbox.exec({ argv: ['bash', '-c', 'setsid -f sleep 7736.907523; echo up; sleep 7736.907523'], onOutput: () => console.log('up') });
`;
  const server = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => server.stdout.once('data', resolve));
  expect(processesWith('7736.907523').length).toBeGreaterThan(1);
  server.kill('SIGKILL');
  await sleep(1000);
  expect(processesWith('7736.907523')).toEqual([]);
  expect(existsSync(join(slot.directory, 'ws'))).toBe(true);
});

test('a sandbox is ready before its command comes, and is used once', async () => {
  await using own = await createBackend({ cpuSeconds: 78 });
  await using sandbox = await place.open({ from: own });
  const waiting = processesWith('-t 78 ');
  expect(waiting.length).toBeGreaterThan(0);
  const running = sandbox.exec({ argv: bash('sleep 0.7') });
  await sleep(400);
  const meanwhile = processesWith('-t 78 ');
  await running;
  const after = processesWith('-t 78 ');
  // It was there before the command, and the next one before its end.
  expect(waiting.some((pid) => meanwhile.includes(pid))).toBe(true);
  expect(waiting.some((pid) => after.includes(pid))).toBe(false);
  expect(after.length).toBeGreaterThan(0);
  expect(after.every((pid) => meanwhile.includes(pid))).toBe(true);
});
