// Containers of a real daemon, which scripts/dockerd.sh starts: what the conformance suite cannot know of.
import Docker from 'dockerode';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createDockerBackend } from '../../src/sandbox/docker.ts';
import type { Backend, BackendConfig, ExecResult, Execution, Slot } from '../../src/sandbox/sandbox.ts';
import { startDaemonProxy } from './daemon-proxy.ts';

const { HOMARD_DOCKER_SOCKET: socket = '', HOMARD_DOCKER_IMAGE: image = '' } = process.env;
const isRoot = process.getuid?.() === 0;
const user = isRoot ? { uid: 64_000, gid: 64_000 } : undefined;
const limits = {
  memoryBytes: 128 << 20,
  diskBytes: 64 << 20,
  fileBytes: 24 << 20,
  processes: 48,
  cpuSeconds: 20,
  outputBytes: 16 << 20,
};

let docker: Docker;
let backend: Backend;
let root = '';
let warnings: string[] = [];

function toConfig(more: BackendConfig['docker'] = {}): BackendConfig {
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined };
  return { limits, network: 'none', hidden: [], docker: { socket, image, ...more }, e2b: {}, log };
}

async function makeSlot(): Promise<Slot> {
  const directory = await mkdtemp(join(root, 'slot-'));
  for (const name of ['ws', 'tmp']) {
    await mkdir(join(directory, name));
    if (user) await chown(join(directory, name), user.uid, user.gid);
  }
  return { id: directory.slice(-6), directory, ...(user && { user }) };
}

const open = async (from = backend): Promise<Execution> => from.open(await makeSlot(), AbortSignal.timeout(60_000));
const bash = (execution: Execution, script: string, more: object = {}) =>
  execution.exec({ argv: ['bash', '-c', script], timeoutMs: 20_000, ...more });
const stdoutOf = ({ stdout }: ExecResult) => Buffer.concat([stdout.head, stdout.tail]).toString();

const list = (label = 'homard.managed') => docker.listContainers({ all: true, filters: { label: [label] } });
const ids = async () => (await list()).map(({ Id }) => Id).toSorted();

beforeAll(async () => {
  if (!socket) throw new Error('Run this by: scripts/dockerd.sh vitest run docker');
  docker = new Docker({ socketPath: socket });
  root = await mkdtemp(join(tmpdir(), 'homard-docker-test-'));
  backend = await createDockerBackend(toConfig());
});

afterEach(async () => {
  warnings = [];
  expect(await ids(), 'every test leaves nothing').toEqual([]);
});

afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

test('SBX-11: a container has no rights, no network, a root that is read only, and the configured limits', async () => {
  const execution = await open();
  const [id = ''] = await ids();
  const { Config, HostConfig, Image } = await docker.getContainer(id).inspect();
  expect(Config.User).toBe(isRoot ? '64000:64000' : `${process.getuid?.()}:${process.getgid?.()}`);
  expect(Image, 'as pinned').toBe(image);
  expect(HostConfig).toMatchObject({
    NetworkMode: 'none',
    ReadonlyRootfs: true,
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    IpcMode: 'private',
    Privileged: false,
    Memory: limits.memoryBytes,
    MemorySwap: limits.memoryBytes,
    PidsLimit: limits.processes + 2,
    AutoRemove: true,
  });
  const script =
    'id -u; grep -E "^(CapBnd|CapEff|NoNewPrivs)" /proc/self/status; touch /usr/x /etc/x /x; ls /sys/class/net';
  const inside = stdoutOf(await bash(execution, script));
  expect(inside).not.toMatch(/^0$/m);
  expect(inside).toMatch(/CapEff:\s0+\nCapBnd:\s0+\nNoNewPrivs:\s1\nlo\n$/);
  await execution.close();
});

test('SBX-11: without a user in the slot a server that is root runs nothing as root', async () => {
  const { user: _, ...slot } = await makeSlot();
  const execution = await backend.open(slot, AbortSignal.timeout(60_000));
  expect(stdoutOf(await bash(execution, 'id -u'))).toBe(isRoot ? '64000\n' : `${process.getuid?.()}\n`);
  await execution.close();
});

test('SBX-11: an image that is not pinned is warned of', async () => {
  await using named = await createDockerBackend(toConfig({ image: 'homard-test' }));
  expect(warnings).toEqual([expect.stringContaining('homard-test of the sandbox is not pinned')]);
  expect(named.advice).toContain('homard-test, with bash');
  warnings = [];
  await using _ = await createDockerBackend(toConfig());
  expect(warnings, 'an id is pinned').toEqual([]);
});

test('what is missing is told with what to do', async () => {
  const refusal = (more: BackendConfig['docker']) =>
    createDockerBackend(toConfig(more)).catch((error: unknown) => error);
  expect(await refusal({ image: undefined })).toMatchObject({
    code: 'sandbox.unavailable',
    hint: expect.stringContaining('sandbox.docker.image'),
  });
  expect(await refusal({ image: 'not-here:1' })).toMatchObject({
    code: 'sandbox.unavailable',
    hint: 'Get it: docker pull not-here:1',
  });
  expect(await refusal({ socket: join(root, 'nothing.sock') })).toMatchObject({
    code: 'sandbox.unavailable',
    message: expect.stringContaining('nothing.sock does not answer'),
  });
  expect(await refusal({ runtime: 'no-such-runtime' })).toMatchObject({
    code: 'sandbox.unavailable',
    message: expect.stringContaining('no-such-runtime'),
  });
});

test('an image without bash is refused', async () => {
  const container = await docker.createContainer({
    Image: image,
    Cmd: ['rm', '/usr/bin/bash'],
    HostConfig: { NetworkMode: 'none' },
  });
  await container.start();
  await container.wait();
  const { Id } = (await container.commit({ repo: 'homard-test-no-bash' })) as { Id: string };
  await container.remove({ force: true });
  const created = createDockerBackend(toConfig({ image: Id }));
  await expect(created).rejects.toMatchObject({
    code: 'sandbox.unavailable',
    message: expect.stringContaining('no bash'),
  });
  await docker.getImage(Id).remove();
});

test('SBX-06 SBX-17: arguments and values arrive verbatim, and nothing of them is executed', async () => {
  const execution = await open();
  const value = `a  b; id "'$(touch made)\n中文`;
  expect(stdoutOf(await execution.exec({ argv: ['echo', 'a  b; id'] }))).toBe('a  b; id\n');
  const seen = await execution.exec({
    argv: ['bash', '-c', 'printf "%s|%s" "$1" "$V"; ls -A', 'x', value],
    env: { V: value },
  });
  expect(stdoutOf(seen)).toBe(`${value}|${value}`);
  await execution.close();
});

test('SBX-07: nothing of the environment of the server is inside', async () => {
  process.env.HOMARD_CANARY = `canary-${crypto.randomUUID()}`;
  const execution = await open();
  const seen = stdoutOf(
    await bash(execution, 'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; true', { keepBytes: 1e6 }),
  );
  expect(seen).toContain('HOME=/workspace');
  expect(seen).not.toContain(process.env.HOMARD_CANARY);
  delete process.env.HOMARD_CANARY;
  await execution.close();
});

test('SBX-05: a time limit ends all of a command, and neither another one nor what was in the background before', async () => {
  const execution = await open();
  const beat = (name: string) => `while :; do echo x >> ${name}; sleep 0.05; done`;
  await bash(execution, `(${beat('before')}) >/dev/null 2>&1 &`);
  const other = bash(execution, 'sleep 2.5; echo whole');
  await sleep(300);
  const script = `trap '' TERM; (setsid env -i bash -c '${beat('own')}' &) ; sleep 20`;
  expect((await bash(execution, script, { timeoutMs: 700 })).reason).toBe('timeout');
  await sleep(500);
  const count = 'wc -l < own; wc -l < before; sleep 0.4; wc -l < own; wc -l < before';
  const [own, before, ownLater, beforeLater] = stdoutOf(await bash(execution, count))
    .split('\n')
    .map(Number);
  expect(own).toBeGreaterThan(0);
  expect(ownLater, 'it is dead').toBe(own);
  expect(beforeLater, 'it goes on').toBeGreaterThan(before!);
  expect(await other).toMatchObject({ reason: 'exit', exitCode: 0 });
  await execution.close();
});

test('SBX-05: where the processes of a command cannot be told, its container is killed and the next command has a new one', async () => {
  await using proxy = await startDaemonProxy(socket);
  await using other = await createDockerBackend(toConfig({ socket: proxy.path }));
  const execution = await open(other);
  const before = await ids();
  const beside = bash(execution, 'sleep 20');
  await sleep(300);
  proxy.fail(/^GET \/exec\/\w+\/json/, 'refuse');
  const result = await bash(execution, 'echo begun; sleep 20', { timeoutMs: 1000 });
  expect([result.reason, result.exitCode, stdoutOf(result)]).toEqual(['timeout', null, 'begun\n']);
  expect(await beside).toMatchObject({ reason: 'lost', exitCode: null });
  expect(await ids()).toEqual([]);
  proxy.heal();
  expect(stdoutOf(await bash(execution, 'echo on'))).toBe('on\n');
  expect(await ids()).not.toEqual(before);
  await execution.close();
});

test('SBX-10: of two commands only that one is told of the memory that took it', async () => {
  const execution = await open();
  const other = bash(execution, 'sleep 2; echo whole');
  await sleep(300);
  const taking = await execution.exec({ argv: ['tail', '-n', '1', '/dev/zero'], timeoutMs: 20_000 });
  expect(taking).toMatchObject({ reason: 'memory_limit', exitCode: null });
  expect(await other).toMatchObject({ reason: 'exit', exitCode: 0 });
  await execution.close();
});

test('a container that somebody removes is lost, and the next command has a new one', async () => {
  const execution = await open();
  const running = bash(execution, 'echo begun; sleep 20');
  await sleep(500);
  const [id = ''] = await ids();
  await docker.getContainer(id).remove({ force: true });
  expect(await running).toMatchObject({ reason: 'lost', exitCode: null });
  expect(stdoutOf(await bash(execution, 'echo on'))).toBe('on\n');
  const [second = ''] = await ids();
  await docker.getContainer(second).remove({ force: true });
  expect(stdoutOf(await bash(execution, 'echo on again')), 'also between two commands').toBe('on again\n');
  await execution.close();
});

test('SBX-13: what a killed server left is removed, and nothing of a living one or of others', async () => {
  const living = await open();
  const foreign = await docker.createContainer({ Image: image, Cmd: ['sleep', '1'], Labels: { other: '1' } });
  const slot = await makeSlot();
  const server = `
    import { createDockerBackend } from '${join(import.meta.dirname, '../../src/sandbox/docker.ts')}';
    const log = { warn() {}, error() {} };
    const backend = await createDockerBackend({ ...${JSON.stringify(toConfig())}, log });
    const execution = await backend.open(${JSON.stringify(slot)}, AbortSignal.timeout(60000));
    void execution.exec({ argv: ['sleep', '60'] });
    console.log('ready');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', server], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  expect((await ids()).length).toBe(2);
  expect(await backend.reap?.(), 'its server is alive').toBe(0);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect((await ids()).length, 'it goes on without its server').toBe(2);
  expect(await backend.reap?.()).toBe(1);
  expect((await list('other')).length).toBe(1);
  expect(stdoutOf(await bash(living, 'echo on'))).toBe('on\n');
  await foreign.remove({ force: true });
  await living.close();
});

for (const [what, request, how] of [
  ['the daemon refuses to make a container', /^POST \/containers\/create/, 'refuse'],
  ['the connection breaks while a container is made', /^POST \/containers\/create/, 'break'],
  ['a container does not start', /^POST \/containers\/[\w-]+\/start/, 'refuse'],
  ['the connection breaks while a container starts', /^POST \/containers\/[\w-]+\/start/, 'break'],
  ['a started container cannot be looked at', /^GET \/containers\/[\w-]+\/json/, 'refuse'],
] as const) {
  test(`SBX-14: nothing is left when ${what}`, async () => {
    await using proxy = await startDaemonProxy(socket);
    await using failing = await createDockerBackend(toConfig({ socket: proxy.path }));
    proxy.fail(request, how);
    await expect(open(failing)).rejects.toMatchObject({ code: 'sandbox.failed', cause: expect.anything() });
    expect(await ids()).toEqual([]);
    proxy.heal();
    const execution = await open(failing);
    await execution.close();
  });
}

test('SBX-14: an opening that is aborted while the container starts leaves nothing', async () => {
  await using proxy = await startDaemonProxy(socket);
  await using failing = await createDockerBackend(toConfig({ socket: proxy.path }));
  proxy.fail(/^POST \/containers\/[\w-]+\/start/, 'hang');
  const abort = new AbortController();
  const opening = failing.open(await makeSlot(), abort.signal);
  setTimeout(() => abort.abort(), 500);
  await expect(opening).rejects.toMatchObject({ code: 'sandbox.failed' });
  expect(await ids()).toEqual([]);
});

test('SBX-14: the end of a back end is the end of what it is opening', async () => {
  const ending = await createDockerBackend(toConfig());
  const opening = ending.open(await makeSlot(), AbortSignal.timeout(60_000));
  const refused = opening.catch((error: unknown) => error);
  await ending[Symbol.asyncDispose]();
  expect(await ids()).toEqual([]);
  expect(await refused).toMatchObject({ code: 'sandbox.failed' });
});

test('SBX-14: a daemon that does not answer is given up within 30 s', { timeout: 40_000 }, async () => {
  await using proxy = await startDaemonProxy(socket);
  await using failing = await createDockerBackend(toConfig({ socket: proxy.path }));
  proxy.fail(/^(POST|DELETE) \/containers\//, 'hang');
  const began = performance.now();
  await expect(open(failing)).rejects.toMatchObject({ code: 'sandbox.failed' });
  expect(performance.now() - began).toBeLessThan(30_000);
});

test('a daemon that goes away loses the command; later calls say why, and what is left can be removed', async () => {
  await using proxy = await startDaemonProxy(socket);
  await using leaving = await createDockerBackend(toConfig({ socket: proxy.path }));
  const execution = await open(leaving);
  const running = bash(execution, 'echo begun; sleep 20');
  await sleep(600);
  proxy.leave();
  const result = await running;
  expect([result.reason, result.exitCode, stdoutOf(result)]).toEqual(['lost', null, 'begun\n']);
  const failed = { code: 'sandbox.failed', cause: expect.anything() };
  await expect(bash(execution, 'true')).rejects.toMatchObject(failed);
  await expect(open(leaving)).rejects.toMatchObject(failed);
  await execution.close();
  expect((await ids()).length, 'nobody could remove it').toBe(1);
  expect(warnings.join('\n')).toContain('docker rm -f');
  await proxy.come();
  expect(await leaving.reap?.()).toBe(1);
});

test(
  'opening and closing twenty times leaves no container, no process and no connection',
  { timeout: 60_000 },
  async () => {
    const shims = () => execFileSync('ps', ['-eo', 'args']).toString().split(dirname(socket)).length;
    const before = shims();
    const resources = () => process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length;
    const connections = resources();
    for (let i = 0; i < 20; i++) {
      const execution = await open();
      if (i % 4 === 0) await bash(execution, 'sleep 60 >/dev/null 2>&1 & echo begun');
      await execution.close();
    }
    expect(await ids()).toEqual([]);
    for (let i = 0; i < 50 && shims() > before; i++) await sleep(100);
    expect(shims()).toBe(before);
    expect(resources()).toBeLessThan(connections + 5);
  },
);

test('SBX-10: removed files that a command holds count as disk', async () => {
  const execution = await open();
  const hold = 'for i in 1 2 3 4 5; do exec {fd}>f; rm f; head -c 20000000 /dev/zero >&$fd; done; sleep 10';
  expect((await bash(execution, hold)).reason).toBe('disk_limit');
  expect(stdoutOf(await bash(execution, 'echo on'))).toBe('on\n');
  await execution.close();
});
