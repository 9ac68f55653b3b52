// Backup, restore, grow and doctor as a person uses them: the real commands in child processes.
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import { NOBODY, schemaTemplate } from '../server/harness.ts';
import { canMount, createSmallDisk } from '../server/small-disk.ts';

interface Ended {
  code: number | null;
  output: string;
}

interface Finding {
  name: string;
  state: string;
  message: string;
  hint?: string;
}

describe('homard', { timeout: 120_000 }, () => {
  let folder: string;
  let children: ChildProcess[];
  const data = (name = 'data') => join(folder, name);
  const prepare = (name = 'data') => copyTemplate(join(data(name), 'db'), schemaTemplate);

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'homard-care-'));
    children = [];
  });
  afterEach(async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    }
    await rm(folder, { recursive: true, force: true });
  });

  function homard(arguments_: string[], environment: Record<string, string> = {}) {
    const child = spawn(process.execPath, ['--liftoff-only', resolve('src/cli.ts'), ...arguments_], {
      cwd: folder,
      env: { PATH: process.env.PATH, HOMARD_DATA: data(), HOMARD_PORT: '0', OLLAMA_HOST: NOBODY, ...environment },
    });
    children.push(child);
    let output = '';
    child.stdout.on('data', (chunk) => (output += String(chunk)));
    child.stderr.on('data', (chunk) => (output += String(chunk)));
    const ended = once(child, 'close').then(([code]): Ended => ({ code: code as number | null, output }));
    return { child, ended, said: () => output };
  }

  async function start(name = 'data', environment: Record<string, string> = {}) {
    const server = homard(['start'], { HOMARD_DATA: data(name), HOMARD_TOKEN: 't', ...environment });
    await expect
      .poll(() => existsSync(join(data(name), 'server.json')) || server.said(), { timeout: 60_000 })
      .toBe(true);
    const address = /listens on (\S+)/.exec(server.said())![1]!;
    const call = async (method: string, path: string, body?: unknown) => {
      const response = await fetch(address + path, {
        method,
        headers: { authorization: 'Bearer t', 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const stop = async () => {
      server.child.kill('SIGTERM');
      expect((await server.ended).code).toBe(0);
    };
    return { address, call, stop };
  }

  const doctor = async (given: string[] = [], environment: Record<string, string> = {}) => {
    const { code, output } = await homard(['doctor', '--json', ...given], environment).ended;
    const { findings } = JSON.parse(output) as { findings: Finding[] };
    return { code, findings, of: (name: string) => findings.find((finding) => finding.name === name) };
  };

  it('backs up while a run is going; restored to an empty place, the talk and the run go on', async () => {
    await prepare();
    const first = await start();
    await first.call('POST', '/chat', { conversationId: 'talk', query: 'first' });
    const upload = await fetch(`${first.address}/files?name=note.txt`, {
      method: 'POST',
      headers: { authorization: 'Bearer t', 'content-type': 'text/plain' },
      body: 'a file',
    });
    const { id: file } = (await upload.json()) as { id: string };
    const leave = new AbortController();
    await fetch(`${first.address}/chat/stream`, {
      method: 'POST',
      headers: { authorization: 'Bearer t', 'content-type': 'application/json' },
      body: JSON.stringify({ conversationId: 'talk', query: 'second' }),
      signal: leave.signal,
    });
    const backup = await homard(['backup', 'copy.gz'], { HOMARD_TOKEN: 't' }).ended;
    expect(backup).toMatchObject({
      code: 0,
      output: expect.stringMatching(/copy\.gz: \d+ rows and 1 files, .*checked/),
    });
    expect((await stat(join(folder, 'copy.gz'))).mode & 0o077).toBe(0);
    leave.abort();
    const restored = await homard(['restore', 'copy.gz'], { HOMARD_DATA: data('new') }).ended;
    expect(restored).toMatchObject({ code: 0, output: expect.stringMatching(/journal .*equal/) });
    const second = await start('new');
    await expect
      .poll(async () => (await second.call('GET', '/conversations/talk')).body.activeRun, { timeout: 30_000 })
      .toBeNull();
    await second.call('POST', '/chat', { conversationId: 'talk', query: 'third' });
    const { body } = await second.call('GET', '/conversations/talk/messages?limit=1000');
    const messages = body.messages as { kind: string; parts?: { text: string }[] }[];
    expect(messages.filter(({ kind }) => kind === 'user').map(({ parts }) => parts![0]!.text)).toEqual([
      'first',
      'second',
      'third',
    ]);
    const content = await fetch(`${second.address}/files/${file}`, { headers: { authorization: 'Bearer t' } });
    expect(await content.text()).toBe('a file');
    expect(await readdir(data('new'))).not.toContain('restoring');
    await first.stop();
    await second.stop();
  });

  it('gives backups to the owner alone, and secrets to the token alone', async () => {
    await prepare();
    const server = await start();
    const link = /http\S+sign-in\S+/.exec((await homard(['link']).ended).output)![0];
    const cookie = (await fetch(link, { redirect: 'manual' })).headers.get('set-cookie')!.split(';')[0]!;
    const ask = async (path: string, headers: Record<string, string>) =>
      (await fetch(server.address + path, { method: 'POST', headers })).status;
    expect(await ask('/backup', {})).toBe(401);
    expect(await ask('/backup', { cookie })).toBe(200);
    expect(await ask('/backup?secrets=1', { cookie })).toBe(401);
    expect(await ask('/backup?secrets=1', { authorization: 'Bearer t' })).toBe(200);
    await server.stop();
  });

  it('refuses what would lose or mix data, and says what to do', async () => {
    await prepare();
    const server = await start();
    await server.call('POST', '/chat', { conversationId: 'talk', query: 'first' });
    expect(await homard(['backup', 'copy.gz'], { HOMARD_TOKEN: 't' }).ended).toMatchObject({ code: 0 });
    const locked = { code: 1, output: expect.stringContaining('store.locked') };
    expect(await homard(['restore', 'copy.gz', '--replace']).ended).toMatchObject(locked);
    expect(await homard(['grow', 'postgres://me@127.0.0.1:1/x']).ended).toMatchObject(locked);
    await server.stop();
    expect(await homard(['restore', 'copy.gz']).ended).toMatchObject({
      code: 1,
      output: expect.stringMatching(/store\.not_empty/),
    });
    expect(await homard(['restore', 'nowhere.gz']).ended).toMatchObject({
      code: 1,
      output: expect.stringMatching(/nowhere\.gz.*\n.*store\.backup_damaged/),
    });
    const { code, output } = await homard(['restore', 'copy.gz', '--replace']).ended;
    expect(code).toBe(0);
    expect(output).toMatch(/What was there before is in .*before-restore/);
  });

  it.skipIf(!canMount)('B6 starts on a full disk, or says that it is full, and never to restore', async () => {
    using disk = createSmallDisk(250);
    // The database of the first one has room elsewhere.
    const [first, second] = [join(disk.path, 'first'), join(disk.path, 'second')];
    await copyTemplate(data('roomy'), schemaTemplate);
    await mkdir(first);
    await symlink(data('roomy'), join(first, 'db'));
    await copyTemplate(join(second, 'db'), schemaTemplate);
    // What the engine must write at its start depends on when it was killed: the demo answers shortly without a sandbox.
    const HOMARD_CONFIG = join(folder, 'off.yaml');
    await writeFile(HOMARD_CONFIG, 'sandbox: { kind: "off" }\n');
    const startIn = async (directory: string) => {
      const server = homard(['start'], { HOMARD_DATA: directory, HOMARD_TOKEN: 't', HOMARD_CONFIG });
      await expect.poll(server.said, { timeout: 60_000 }).toContain('Try it:');
      const [, address = ''] = /listens on (\S+)/.exec(server.said()) ?? [];
      const ask = async (method: string, path: string, body?: unknown) => {
        const headers = { authorization: 'Bearer t', 'content-type': 'application/json' };
        const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
        return (await (await fetch(address + path, init)).json()) as Record<string, unknown>;
      };
      const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
        server.child.kill(signal);
        return (await server.ended).code;
      };
      return { ...server, ask, end };
    };
    for (const directory of [first, second]) {
      const server = await startIn(directory);
      await server.ask('POST', '/chat', { conversationId: 'talk', query: 'hello' });
      if (directory === first) expect(await server.end('SIGTERM')).toBe(0);
      else await server.end('SIGKILL');
    }
    disk.fillUp(0);
    const full = await startIn(first);
    await expect.poll(full.said).toContain('will not find this server');
    expect(await full.ask('GET', '/health')).toMatchObject({ problem: { code: 'store.disk_full' } });
    expect((await full.ask('GET', '/conversations/talk/messages')).messages).not.toEqual([]);
    expect(await full.end('SIGTERM')).toBe(0);
    const { code, output } = await homard(['start'], { HOMARD_DATA: second, HOMARD_CONFIG }).ended;
    expect(code).toBe(1);
    expect(output).toMatch(/Make space .*store\.disk_full/);
    expect(output).not.toContain('restore');
    disk.fillUp(0);
    const { of } = await doctor(['--no-call'], { HOMARD_DATA: second });
    expect(of('database')).toMatchObject({ state: 'problem', hint: expect.stringContaining('Make space') });
    disk.makeSpace();
    const well = await startIn(second);
    expect((await well.ask('GET', '/conversations/talk/messages')).messages).not.toEqual([]);
    await well.end('SIGTERM');
  });

  it('doctor finds nothing wrong with a server that is well, running or not', async () => {
    await prepare();
    await chmod(data(), 0o700);
    const server = await start();
    await homard(['backup', join(data(), 'backups/mine.gz')], { HOMARD_TOKEN: 't' }).ended;
    const running = await doctor(['--no-call'], { HOMARD_TOKEN: 't' });
    expect(running.findings.filter(({ state }) => state !== 'ok')).toEqual([]);
    expect(running.of('database')?.message).toMatch(/the server at http\S+ .*says: ok/);
    await server.stop();
    const { code, findings, of } = await doctor(['--deep']);
    expect(code).toBe(0);
    expect(findings.filter(({ state }) => state !== 'ok')).toMatchObject([{ name: 'model', state: 'warning' }]);
    expect(of('database')?.message).toMatch(/all \d+ rows of \d+ tables were read/);
    expect(of('backups')?.message).toContain('whole');
  });

  it('B6 doctor says what is wrong and what to do', async () => {
    await prepare();
    await mkdir(join(data(), 'backups'));
    await writeFile(join(data(), 'backups/auto-x.gz'), 'noise');
    await writeFile(join(data(), 'token'), 'x', { mode: 0o644 });
    await chmod(data(), 0o755);
    await writeFile(join(data(), 'db/global/pg_control'), Buffer.alloc(8192, 'noise'));
    await using taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const key = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', OPENAI_MODEL: 'm' };
    const { code, findings, of } = await doctor(['--deep'], { HOMARD_PORT: String(port), ...key });
    expect(code).toBe(1);
    const problems = findings.filter(({ state }) => state === 'problem').map(({ name }) => name);
    expect(problems).toEqual(['data directory', 'secrets', 'database', 'backups', 'port', 'model']);
    for (const { state, hint } of findings) expect(hint === undefined).toBe(state === 'ok');
    expect(of('database')?.hint).toContain('homard restore');
    expect(of('secrets')?.hint).toBe(`chmod 600 ${join(data(), 'token')}`);
    await writeFile(join(folder, 'homard.config.yaml'), 'port: many\n');
    expect((await doctor([], { HOMARD_PORT: '' })).of('configuration')).toMatchObject({
      state: 'problem',
      message: expect.stringContaining('port'),
    });
  });

  it.skipIf(!process.env.HOMARD_TEST_POSTGRES)('grows to PostgreSQL, where the talk goes on', async () => {
    await using postgres = await createTemporaryPostgres();
    await prepare();
    const before = await start();
    await before.call('POST', '/chat', { conversationId: 'talk', query: 'first' });
    await before.stop();
    const { code, output } = await homard(['grow', postgres.url]).ended;
    expect(code).toBe(0);
    expect(output).toMatch(/journal .*equal on both sides/);
    expect(output).toContain('HOMARD_DATABASE_URL=');
    const after = await start('data', { HOMARD_DATABASE_URL: postgres.url });
    await after.call('POST', '/chat', { conversationId: 'talk', query: 'second' });
    expect((await after.call('GET', '/conversations/talk')).body.version).toBeGreaterThan(5);
    expect((await doctor(['--no-call'], { HOMARD_DATABASE_URL: postgres.url })).of('database')?.message).toMatch(
      /^postgres/,
    );
    const { code: backup } = await homard(['backup', 'pg.gz'], { HOMARD_DATABASE_URL: postgres.url }).ended;
    expect(backup).toBe(0);
    await after.stop();
  });
});
