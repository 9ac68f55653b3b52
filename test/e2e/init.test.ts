// `homard init` with a real model server: through the running server, and without one.
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createModelServer } from '../../src/testing/model-server.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import { NOBODY, schemaTemplate } from '../server/harness.ts';

let folder: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'homard-init-'));
  await copyTemplate(join(folder, 'data', 'db'), schemaTemplate);
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
  await rm(folder, { recursive: true, force: true });
});

function homard(arguments_: string[], { input = '', ...environment }: Record<string, string> = {}) {
  const env = {
    PATH: process.env.PATH,
    HOMARD_DATA: join(folder, 'data'),
    HOMARD_PORT: '0',
    OLLAMA_HOST: NOBODY,
    ...environment,
  };
  const script = resolve('src/cli.ts');
  const child = spawn(process.execPath, ['--liftoff-only', script, ...arguments_], { cwd: folder, env });
  children.push(child);
  const seen = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (seen.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (seen.stderr += String(chunk)));
  child.stdin.end(input);
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...seen }));
  return { child, seen, ended };
}

const keyed = () =>
  createModelServer(({ body, headers }) => {
    const isKnown = headers.authorization === 'Bearer sk-right';
    if (!isKnown) return { status: 401, json: { error: { message: `Incorrect API key: ${headers.authorization}` } } };
    return [{ text: `I am ${body.model}.` }];
  });

it(
  'CHAN-14 tries provider, key and model by a live call, saves them at once, and shows no key',
  { timeout: 60_000 },
  async () => {
    await using host = await keyed();
    const wrong = await homard(['init'], { input: `openai-compatible\n${host.url}\nsk-wrong-key\nmodel-1\n` }).ended;
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('(models.auth)');
    expect(wrong.stderr).not.toContain('sk-wrong-key');
    await expect(readFile(join(folder, 'data', 'model.json'))).rejects.toThrow(/ENOENT/);

    const right = await homard(['init', '--provider', 'openai-compatible', '--model', 'model-1'], {
      input: `${host.url}\nsk-right\n`,
    }).ended;
    expect(right.stderr).toMatch(
      /✓ model-1 answered in .*: I am model-1\.\nSaved\. Now: homard start, or homard chat\n$/,
    );
    expect(right.stderr + right.stdout).not.toContain('sk-right');
    expect(right.code).toBe(0);

    const answer = await homard(['chat', 'who are you?']).ended;
    expect(answer).toMatchObject({ code: 0, stdout: 'I am model-1.\n' });
  },
);

it('CHAN-14 a running server uses it from the next message on', { timeout: 60_000 }, async () => {
  await using host = await keyed();
  const server = homard(['start']);
  await expect.poll(() => server.seen.stdout, { timeout: 30_000 }).toContain('Sign in');
  const input = `7\n${host.url}\nsk-right\nmodel-2\n`;
  const { code, stderr } = await homard(['init'], { input }).ended;
  expect(stderr).toContain('Saved. The running server uses it from now on.');
  expect(code).toBe(0);
  expect(await homard(['chat', 'who are you?']).ended).toMatchObject({ code: 0, stdout: 'I am model-2.\n' });
  const link = await homard(['link']).ended;
  const address = /listens on (\S+)/.exec(server.seen.stdout)![1]!;
  expect(link.stdout).toContain(`${address}/sign-in?code=`);

  const gone = once(server.child, 'exit');
  server.child.kill('SIGTERM');
  await gone;
  await expect(readFile(join(folder, 'data', 'server.json'))).rejects.toThrow(/ENOENT/);
});

it.each([
  ['an unknown provider', 'nobody\n', 'init.unknown_provider'],
  ['too few answers', 'openai\n', 'init.no_answer'],
])('%s is refused, and nothing is saved', async (_, input, code) => {
  const ended = await homard(['init'], { input }).ended;
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining(`(${code})`) });
  await expect(readFile(join(folder, 'data', 'model.json'))).rejects.toThrow(/ENOENT/);
});
