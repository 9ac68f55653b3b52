// What is peculiar to the imitated shell; what holds for every sandbox is in src/testing/sandbox.ts.
import { execFileSync, spawnSync } from 'node:child_process';
import { linkSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { ExecResult, ExecSpec } from '../../src/sandbox/sandbox.ts';
import { createVirtualBackend } from '../../src/sandbox/virtual.ts';
import { createSandboxUnderTest, type OpenSandbox, type SandboxUnderTest } from '../../src/testing/sandbox.ts';

const MEGABYTE = 1 << 20;
const limits = {
  memoryBytes: 96 * MEGABYTE,
  diskBytes: 16 * MEGABYTE,
  fileBytes: 4 * MEGABYTE,
  processes: 16,
  cpuSeconds: 60,
  outputBytes: MEGABYTE,
};
const outside = mkdtempSync(join(tmpdir(), 'homard-outside-'));
const secret = join(outside, 'secret.txt');
let subject: SandboxUnderTest;
let sandbox: OpenSandbox;

beforeAll(async () => {
  writeFileSync(secret, 'outside');
  subject = await createSandboxUnderTest(createVirtualBackend, { limits });
  sandbox = await subject.open();
});
afterAll(async () => {
  await subject[Symbol.asyncDispose]();
  rmSync(outside, { recursive: true });
});

/** Takes seconds. */
const slow = process.env.HOMARD_SANDBOX ? test : test.skip;
const textOf = ({ head, tail }: ExecResult['stdout']) => Buffer.concat([head, tail]).toString();
const run = (script: string, more?: Partial<ExecSpec>) =>
  sandbox.execution.exec({ argv: ['bash', '-c', script], ...more });
const tell = async (script: string) => textOf((await run(script)).stdout);

test.each([
  ['awk', `awk 'BEGIN { while (1) {} }'`],
  ['a regular expression', `echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! | grep -E '^(a+)+$'`],
  ['sed', `echo a | sed ':a;s/a/a/;ta'`],
])('SBX-05: an endless loop of %s ends with its time', async (_, script) => {
  const { reason, ms } = await run(script, { timeoutMs: 300 });
  // The last two may be seen through by the library.
  expect(['timeout', 'exit']).toContain(reason);
  expect(ms).toBeLessThan(1500);
});

slow('SBX-10: what takes all memory ends, and neither the server nor the sandbox with it', async () => {
  const { reason } = await run(`jq -n '[range(1000000000)]'`);
  expect(reason).toBe('memory_limit');
  expect(await tell('echo on')).toBe('on\n');
});

slow('SBX-10: neither a file nor all files grow beyond their limits', async () => {
  const large = await run('seq 800000 > large');
  expect(large.exitCode).not.toBe(0);
  const copies = await run(
    'seq 500000 > a && for i in 1 2 3 4 5 6; do cp a b$i || exit 9; sleep 0.2; done; echo whole',
  );
  expect([copies.reason, textOf(copies.stdout)]).toEqual(['disk_limit', '']);
  expect((await run('rm -f a b*')).exitCode).toBe(0);
});

test('beyond the limit of output a command is told to have ended by it', async () => {
  const result = await run('seq 300000', { keepBytes: 100 });
  expect(result.reason).toBe('output_limit');
});

test('SBX-08: links that the host has put into the workspace lead nowhere', async () => {
  const ws = join(sandbox.slot.directory, 'ws');
  symlinkSync(secret, join(ws, 'file-link'));
  symlinkSync(outside, join(ws, 'folder-link'));
  symlinkSync('../../../../../../../../etc', join(ws, 'up-link'));
  linkSync(secret, join(ws, 'second-name'));
  const reading = await run(
    'for f in file-link folder-link/secret.txt up-link/passwd; do cat $f; cp $f copy; tar cf x.tar $f; done; cat copy; grep -r . .; ls up-link',
  );
  expect(textOf(reading.stdout)).not.toMatch(/file-link:outside|root:/);
  for (const script of [
    'echo x > file-link',
    'echo x > folder-link/new',
    'echo x >> second-name',
    'chmod 777 second-name',
    'ln -s /etc/passwd own && cat own',
  ])
    await run(script);
  expect(readFileSync(secret, 'utf8')).toBe('outside');
  await run('rm -rf file-link folder-link up-link second-name copy x.tar');
  expect(readFileSync(secret, 'utf8')).toBe('outside');
});

slow('SBX-08: python and js-exec see no more than the shell', async () => {
  const python = await run(`python3 -c "
import os
print(os.path.exists('${secret}'), os.path.exists('/etc/passwd'), sorted(os.environ))
open('made.txt', 'w').write('by python')"`);
  expect(textOf(python.stdout)).toMatch(/^False False /);
  expect(textOf(python.stdout)).not.toContain('NODE');
  const script = `const fs = require('fs'); console.log(fs.existsSync('${secret}'), fs.readFileSync('made.txt', 'utf8'), typeof require('child_process').execSync('ls /'))`;
  expect(await tell(`js-exec -c "${script}"`)).toBe('false by python string\n');
});

test('a folder is copied with all that is in it, and what could be run still can', async () => {
  await run(
    `mkdir -p from/deep; printf '#!/bin/bash\\necho "ran $1"\\n' > from/deep/run.sh; chmod +x from/deep/run.sh`,
  );
  expect(await tell('cp -r from to && to/deep/run.sh once && cp to/deep/run.sh again.sh && ./again.sh twice')).toBe(
    'ran once\nran twice\n',
  );
});

test('flags of bash that change nothing here are ignored, others hold', async () => {
  const exec = async (flags: string, script: string) => {
    const result = await sandbox.execution.exec({ argv: ['bash', flags, script, 'name', 'a b'] });
    return [result.exitCode, textOf(result.stdout)];
  };
  expect(await exec('-lc', 'echo "$0 $1"')).toEqual([0, 'name a b\n']);
  expect(await exec('-euc', 'echo a; false; echo b')).toEqual([1, 'a\n']);
});

slow('more commands than there are processes wait, and can be aborted while they wait', async () => {
  const abort = new AbortController();
  const busy = Array.from({ length: 4 }, () => run('sleep 20', { timeoutMs: 1500 }));
  const waiting = run('echo late', { signal: abort.signal });
  const last = run('echo last');
  setTimeout(() => abort.abort(), 100);
  expect((await waiting).reason).toBe('aborted');
  expect((await Promise.all(busy)).map(({ reason }) => reason)).toEqual(Array(4).fill('timeout'));
  expect(textOf((await last).stdout)).toBe('last\n');
});

slow('SBX-13: when the server is killed, a process that is busy ends with it', async () => {
  const script = `
    import { mkdirSync, mkdtempSync } from 'node:fs';
    import { createVirtualBackend } from '${new URL('../../src/sandbox/virtual.ts', import.meta.url).href}';
    const directory = mkdtempSync('${outside}/slot-');
    for (const name of ['ws', 'tmp']) mkdirSync(directory + '/' + name);
    const config = { limits: ${JSON.stringify(limits)}, network: 'none', docker: {}, e2b: {}, log: console };
    const backend = await createVirtualBackend(config);
    const execution = await backend.open({ id: 'x', directory }, new AbortController().signal);
    void execution.exec({ argv: ['awk', 'BEGIN { while (1) {} }'] });
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300);`;
  spawnSync(process.execPath, ['--input-type=module', '-e', script]);
  const left = () => execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).includes(`${outside}/slot-`);
  expect(left()).toBe(true);
  await vi.waitFor(() => expect(left()).toBe(false), { timeout: 5000, interval: 100 });
});
