// What is peculiar to commands on the host itself; what holds for every sandbox is in src/testing/sandbox.ts.
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLocalBackend } from '../../src/sandbox/local.ts';
import type { ExecResult, ExecSpec } from '../../src/sandbox/sandbox.ts';
import { createSandboxUnderTest, type OpenSandbox, type SandboxUnderTest } from '../../src/testing/sandbox.ts';

let subject: SandboxUnderTest;
let sandbox: OpenSandbox;

beforeAll(async () => {
  subject = await createSandboxUnderTest(createLocalBackend);
  sandbox = await subject.open();
});
afterAll(() => subject[Symbol.asyncDispose]());

const textOf = ({ head, tail }: ExecResult['stdout']) => Buffer.concat([head, tail]).toString();
const run = (script: string, more?: Partial<ExecSpec>) =>
  sandbox.execution.exec({ argv: ['bash', '-c', script], ...more });
const isAlive = (pid: string) => {
  // Z: it has ended, and its parent has not looked yet.
  const [state = ''] = execFileSync('sh', ['-c', 'ps -o stat= -p "$1" || true', 'sh', pid], { encoding: 'utf8' });
  return state !== '' && state !== 'Z';
};

test('SBX-07: a command has nothing in its environment but what it is given and what it cannot do without', async () => {
  const { stdout } = await sandbox.execution.exec({ argv: ['env'], env: { OWN: 'mine' } });
  const names = textOf(stdout).match(/^\w+(?==)/gm) ?? [];
  const allowed = ['HOME', 'LANG', 'OLDPWD', 'OWN', 'PATH', 'PWD', 'SHLVL', 'TMPDIR', '_'];
  expect(names.filter((name) => !allowed.includes(name))).toEqual([]);
  expect(textOf(stdout)).toContain('OWN=mine');
});

test('where the server is root, commands are the user of the slot, and their files belong to it', async ({ skip }) => {
  const { user } = sandbox.slot;
  if (!user) return skip('not root');
  expect(textOf((await run('id -u; id -g; id -G; echo x > mine')).stdout)).toBe(
    `${user.uid}\n${user.gid}\n${user.gid}\n`,
  );
  expect(statSync(join(sandbox.slot.directory, 'ws/mine')).uid).toBe(user.uid);
});

test('300 MB of output are cut at the limit, and the server does not grow', async () => {
  const before = process.memoryUsage().rss;
  let peak = before;
  const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 10);
  const result = await run('head -c 300000000 /dev/zero', { keepBytes: 1000 });
  clearInterval(timer);
  expect(result.reason).toBe('output_limit');
  expect(result.stdout.omittedBytes).toBeLessThan(subject.limits.outputBytes + 1_000_000);
  expect(peak - before).toBeLessThan(80_000_000);
});

test('SBX-05: what left its group lives on after the time limit, and holds nobody up', async () => {
  const result = await run('setsid sleep 30 & echo $!; sleep 30', { timeoutMs: 400 });
  const survivor = textOf(result.stdout).trim();
  expect(result.reason).toBe('timeout');
  expect(result.ms).toBeLessThan(2500);
  expect(isAlive(survivor)).toBe(true);
  process.kill(Number(survivor), 'SIGKILL');
});

test('what is left in the background may write on after its command, and ends with the sandbox', async () => {
  const { execution, close } = await subject.open();
  const script = '(sleep 0.8; echo to nobody; echo more; echo written > late; sleep 30) & echo $!';
  const result = await execution.exec({ argv: ['bash', '-c', script] });
  const pid = textOf(result.stdout).trim();
  await sleep(600);
  const seen = await execution.exec({ argv: ['cat', 'late'] });
  expect(textOf(seen.stdout)).toBe('written\n');
  expect(isAlive(pid)).toBe(true);
  await execution.close();
  await sleep(50);
  expect(isAlive(pid)).toBe(false);
  await close();
});

test('opening and closing again and again leaves no descriptor open', async ({ skip }) => {
  if (process.platform !== 'linux') return skip('needs /proc');
  const round = async () => {
    const { execution, close } = await subject.open();
    await execution.exec({ argv: ['true'] });
    await close();
  };
  await round();
  // Pipes that are kept in stock come and go.
  const count = () => readdirSync('/proc/self/fd').length;
  const before = count();
  for (let i = 0; i < 50; i++) await round();
  await sleep(100);
  expect(count()).toBeLessThan(before + 32);
});
