import { createHash, randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, mkdtemp, readFile, readlink, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { removeTree } from '../../src/files/remove-tree.ts';
import { createE2bBackend } from '../../src/sandbox/e2b.ts';
import type {
  Backend,
  BackendConfig,
  ExecResult,
  ExecSpec,
  Execution,
  SandboxLimits,
} from '../../src/sandbox/sandbox.ts';
import type { E2bMachine, E2bServer } from '../../src/testing/e2b-server.ts';
import { createE2bServer } from '../../src/testing/e2b-server.ts';

const limits = {
  memoryBytes: 256 << 20,
  diskBytes: 40 << 20,
  fileBytes: 24 << 20,
  processes: 48,
  cpuSeconds: 10,
  outputBytes: 4 << 20,
};

let server: E2bServer;
let root: string;
/** For tests that leave it as it was, but for files. */
let shared: Place;
const warnings: string[] = [];
const log = {
  warn: (data: object, text: string) => warnings.push(`${text} ${JSON.stringify(data)}`),
  error: () => undefined,
};

beforeAll(async () => {
  server = await createE2bServer();
  root = await mkdtemp(join(tmpdir(), 'homard-e2b-test-'));
  shared = await open();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await removeTree(root);
});

interface Place extends AsyncDisposable {
  backend: Backend;
  execution: Execution;
  ws: string;
  bash(script: string, more?: Partial<ExecSpec>): Promise<ExecResult>;
  tell(script: string): Promise<string>;
}

const configOf = (more: Partial<BackendConfig> = {}): BackendConfig => ({
  limits,
  network: 'none',
  hidden: [],
  docker: {},
  e2b: { apiUrl: server.url, sandboxUrl: server.url, apiKey: server.apiKey },
  log,
  ...more,
});

/** A sandbox over a fresh slot; `fill` makes the files that it begins with. */
async function open(
  options: { fill?: (ws: string) => Promise<unknown>; lifeMs?: number; limits?: Partial<SandboxLimits> } = {},
): Promise<Place> {
  server.misbehave(() => undefined);
  const directory = await mkdtemp(join(root, 'slot-'));
  const ws = join(directory, 'ws');
  await mkdir(ws);
  await options.fill?.(ws);
  const backend = await createE2bBackend(configOf({ limits: { ...limits, ...options.limits } }), options);
  const execution = await backend.open({ id: 'slot', directory }, AbortSignal.timeout(20_000));
  const bash: Place['bash'] = (script, more) => execution.exec({ argv: ['bash', '-c', script], ...more });
  return {
    backend,
    execution,
    ws,
    bash,
    async tell(script) {
      const result = await bash(script);
      expect([result.reason, result.exitCode, text(result.stderr)]).toEqual(['exit', 0, '']);
      return text(result.stdout);
    },
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}

const bytes = ({ head, tail }: ExecResult['stdout']) => Buffer.concat([head, tail]);
const text = (output: ExecResult['stdout']) => bytes(output).toString();
const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
const newest = (): E2bMachine => [...server.machines.values()].at(-1) ?? expect.fail('there is no machine');
const creations = () =>
  server.requests.filter(({ method, path }) => method === 'POST' && path === '/v2/sandboxes').length;

test('without a key it is unavailable, and says which variable holds it', async () => {
  const config = configOf({ e2b: { apiUrl: server.url } });
  await expect(createE2bBackend(config)).rejects.toMatchObject({
    code: 'sandbox.unavailable',
    hint: expect.stringContaining('E2B_API_KEY'),
  });
});

test('a wrong key makes it unavailable at the start, not at the first command', async () => {
  const config = configOf({ e2b: { apiUrl: server.url, sandboxUrl: server.url, apiKey: 'e2b_wrong' } });
  await expect(createE2bBackend(config)).rejects.toMatchObject({ code: 'sandbox.unavailable' });
});

test('SBX-17: arguments arrive as they are, and no shell sees them', async () => {
  const place = shared;
  const given = ['a  b; id', "it's", '"$HOME"', '$(id)', '`id`', '中文', 'two\nlines', '', '-n', '*'];
  const result = await place.execution.exec({ argv: ['printf', '%s\\0', ...given] });
  expect(text(result.stdout).split('\0').slice(0, -1)).toEqual(given);
});

test('SBX-06, SBX-07: the environment is what was given, byte for byte, and nothing of the server or the service', async () => {
  process.env['HOMARD_TEST_CANARY'] = 'canary';
  const place = shared;
  const env = { A: `'"\n$(id)\`id\` 中文 \\`, B: '' };
  const result = await place.execution.exec({ argv: ['env', '-0'], env });
  delete process.env['HOMARD_TEST_CANARY'];
  const found = Object.fromEntries(
    text(result.stdout)
      .split('\0')
      .filter(Boolean)
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  expect(found).toMatchObject(env);
  expect(Object.keys(found).sort()).toEqual(['A', 'B', 'HOMARD_COMMAND', 'HOME', 'LANG', 'PATH', 'TMPDIR']);
});

test('exit codes, signals, missing programs and missing folders are told apart', async () => {
  const place = shared;
  const codes = [];
  for (const script of ['exit 3', 'kill -9 $$', 'kill $$']) codes.push((await place.bash(script)).exitCode);
  codes.push((await place.execution.exec({ argv: ['no-such-program'] })).exitCode);
  codes.push((await place.execution.exec({ argv: ['exit', '5'] })).exitCode);
  expect(codes).toEqual([3, 137, 143, 127, 127]);
  await expect(place.bash('true', { cwd: 'nowhere' })).rejects.toMatchObject({ code: 'sandbox.invalid_command' });
  expect(await place.tell('mkdir -p deep/er && echo made')).toBe('made\n');
  expect(text((await place.execution.exec({ argv: ['pwd'], cwd: 'deep/er' })).stdout)).toMatch(
    /\/workspace\/deep\/er\n$/,
  );
});

test('SBX-09, SBX-18: output, input and files are binary-exact, also where a character is split', async () => {
  const place = shared;
  const data = randomBytes(10_000_000);
  const pieces: Uint8Array[] = [];
  const result = await place.bash(
    'cat >big; sha256sum <big; printf "\\xe4\\xb8"; sleep 0.05; printf "\\xad\\xff\\0" >&1',
    {
      stdin: data,
      onOutput: (stream, chunk) => pieces.push(chunk),
    },
  );
  expect(bytes(result.stdout).subarray(0, 64).toString()).toBe(sha256(data));
  expect(bytes(result.stdout).subarray(-5)).toEqual(Buffer.from([0xe4, 0xb8, 0xad, 0xff, 0]));
  expect(pieces.length).toBeGreaterThan(1);
  expect(sha256(await readFile(join(place.ws, 'big')))).toBe(sha256(data));
  expect(await place.tell('cat')).toBe('');
});

test('the files of the workspace are in the machine: names, modes, empty folders, links and bytes', async () => {
  const data = randomBytes(300_000);
  await using place = await open({
    async fill(ws) {
      await mkdir(join(ws, 'empty/inner'), { recursive: true });
      await writeFile(join(ws, '中文 "x"\n$(id)|'), 'name');
      await writeFile(join(ws, '-rf'), 'dash');
      await writeFile(join(ws, 'run.sh'), '#!/bin/sh\necho ran');
      await chmod(join(ws, 'run.sh'), 0o755);
      await symlink('run.sh', join(ws, 'link'));
      await writeFile(join(ws, 'data'), data);
    },
  });
  expect(await place.tell('./run.sh; ./link; cat ./-rf; cat 中*; ls -d empty/inner; sha256sum <data')).toBe(
    `ran\nran\ndashnameempty/inner\n${sha256(data)}  -\n`,
  );
});

test('what a command changed comes back: content, modes, folders, links, renames and removals', async () => {
  await using place = await open({
    fill: async (ws) => {
      await mkdir(join(ws, 'gone/deep'), { recursive: true });
      await writeFile(join(ws, 'gone/deep/file'), 'x');
      await writeFile(join(ws, 'same'), 'old');
      await writeFile(join(ws, 'kind'), 'a file');
    },
  });
  // Same size and time: only the content differs.
  await place.tell(`
    touch -r same /tmp/then; printf new >same; touch -r /tmp/then same
    rm -r gone; rm kind; mkdir -p kind/now; printf in >kind/now/f
    printf '#!' >tool; chmod +x tool; ln -s tool alias; ln tool twin; : >nothing; mkdir hollow
    printf odd >$'new\\nline 中文'`);
  const read = (name: string) => readFile(join(place.ws, name), 'utf8');
  expect(await read('same')).toBe('new');
  await expect(lstat(join(place.ws, 'gone'))).rejects.toMatchObject({ code: 'ENOENT' });
  expect(await read('kind/now/f')).toBe('in');
  expect((await lstat(join(place.ws, 'tool'))).mode & 0o777).toBe(0o755);
  expect(await readlink(join(place.ws, 'alias'))).toBe('tool');
  expect([await read('twin'), await read('nothing')]).toEqual(['#!', '']);
  expect((await lstat(join(place.ws, 'hollow'))).isDirectory()).toBe(true);
  expect(await read('new\nline 中文')).toBe('odd');
  await place.tell('chmod -x tool; mv kind moved');
  expect((await lstat(join(place.ws, 'tool'))).mode & 0o111).toBe(0);
  expect(await read('moved/now/f')).toBe('in');
});

test('a push brings one change of the host, also a removal, and what was there before stays known', async () => {
  await using place = await open({ fill: (ws) => writeFile(join(ws, 'a'), 'one') });
  await mkdir(join(place.ws, 'sub'));
  await writeFile(join(place.ws, 'sub/b'), 'two');
  await place.execution.push?.('sub/b');
  await removeTree(join(place.ws, 'a'));
  await place.execution.push?.('a');
  const before = server.requests.length;
  expect(await place.tell('ls; cat sub/b')).toBe('sub\ntwo');
  // The command and the list: nothing had to come back.
  expect(server.requests.slice(before).map(({ path }) => path)).toEqual([
    '/process.Process/Start',
    '/process.Process/Start',
  ]);
});

test('a link that a command made on the way never leads a file of the machine out of the workspace', async () => {
  const outside = await mkdtemp(join(root, 'outside-'));
  await using place = await open({ fill: (ws) => mkdir(join(ws, 'd')) });
  await place.tell(`rmdir d; ln -s ${outside} d; echo mine >e`);
  await place.tell('rm d; mkdir d; echo evil >d/file');
  expect(await readFile(join(place.ws, 'd/file'), 'utf8')).toBe('evil\n');
  await expect(lstat(join(outside, 'file'))).rejects.toMatchObject({ code: 'ENOENT' });
});

test('files beyond the limits stay behind, with a warning, and the others come', async () => {
  await using place = await open({ limits: { fileBytes: 3_000_000, diskBytes: 4_000_000 } });
  warnings.length = 0;
  await place.tell('head -c 2500000 /dev/zero >b1; head -c 2500000 /dev/zero >b2; echo small >c');
  expect((await lstat(join(place.ws, 'b1'))).size).toBe(2_500_000);
  await expect(lstat(join(place.ws, 'b2'))).rejects.toMatchObject({ code: 'ENOENT' });
  expect(await readFile(join(place.ws, 'c'), 'utf8')).toBe('small\n');
  expect(warnings.join('\n')).toContain('"b2"');
  const { exitCode } = await place.bash('head -c 4000000 /dev/zero >c');
  expect(exitCode).not.toBe(0);
});

test('a time limit ends the whole tree, keeps what was written until then, and the machine', async () => {
  await using place = await open();
  const before = creations();
  const result = await place.bash(
    'touch ticks; trap "" TERM; setsid bash -c "trap \\"\\" TERM; while :; do sleep 0.05; echo x >>ticks; done" & (sleep 30 & exec env -i sleep 31) & echo out; echo f >file; sleep 32',
    { timeoutMs: 600 },
  );
  expect([result.reason, result.exitCode, text(result.stdout)]).toEqual(['timeout', null, 'out\n']);
  expect(await readFile(join(place.ws, 'file'), 'utf8')).toBe('f\n');
  const alive = await place.tell(
    'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep -o "sleep 3[012]" || true; wc -c <ticks; sleep 0.2; wc -c <ticks',
  );
  const [first, second] = alive.trim().split('\n');
  // Elsewhere the processes of this host are seen, and others began meanwhile.
  if (server.isIsolated) expect([second, creations()]).toEqual([first, before]);
});

test('what hides from the end of its command ends with the machine', async () => {
  await using place = await open();
  const { id } = newest();
  const result = await place.bash('echo saved >saved; (env -i setsid sleep 5 &) ; sleep 30', { timeoutMs: 500 });
  expect(result.reason).toBe('timeout');
  expect(server.machines.has(id)).toBe(false);
  expect(await place.tell('cat saved')).toBe('saved\n');
});

test('an abort ends a command, also before it began', async () => {
  await using place = await open();
  const controller = new AbortController();
  const running = place.bash('echo begun; sleep 30', { signal: controller.signal, onOutput: () => controller.abort() });
  expect(await running).toMatchObject({ reason: 'aborted', exitCode: null });
  const result = await place.bash('echo >never; sleep 30', { signal: AbortSignal.abort() });
  expect(result.reason).toBe('aborted');
  expect(await place.tell('ls')).toBe('');
});

test('too much output ends a command', async () => {
  const place = shared;
  const result = await place.bash('yes', { timeoutMs: 20_000 });
  expect(result.reason).toBe('output_limit');
});

test('what is left in the background goes on and does not hold the result back', async () => {
  await using place = await open();
  const result = await place.bash('(until [ -e go ]; do sleep 0.02; done; echo late >late; sleep 20) & echo now');
  expect([result.exitCode, text(result.stdout)]).toEqual([0, 'now\n']);
  await place.tell('touch go; until [ -s late ]; do sleep 0.02; done');
  expect(await readFile(join(place.ws, 'late'), 'utf8')).toBe('late\n');
});

test('several commands at once have their own ends', async () => {
  await using place = await open();
  const results = await Promise.all(
    [0, 1, 2, 3, 4].map((n) =>
      place.bash(`sleep 0.0${n}; echo ${n} >f${n}; exit ${n}`, n === 4 ? { timeoutMs: 1 } : {}),
    ),
  );
  expect(results.map(({ exitCode }) => exitCode)).toEqual([0, 1, 2, 3, null]);
  expect(await readFile(join(place.ws, 'f3'), 'utf8')).toBe('3\n');
});

test('SBX-19: close kills the machine and ends what runs in it; afterwards nothing runs', async () => {
  await using place = await open();
  const running = place.bash('echo kept >kept; sleep 30');
  await sleep(150);
  const { id } = newest();
  await Promise.all([place.execution.close(), place.execution.close()]);
  expect(await running).toMatchObject({ reason: 'closed', exitCode: null });
  expect(server.machines.has(id)).toBe(false);
  expect(await readFile(join(place.ws, 'kept'), 'utf8')).toBe('kept\n');
  await expect(place.bash('true')).rejects.toMatchObject({ code: 'sandbox.closed' });
});

test('a machine that goes away loses its command; the next one has a new machine with the same files', async () => {
  await using place = await open();
  await place.tell('echo one >one');
  const running = place.bash('echo begun; sleep 30', {
    onOutput: () => void server.lose(newest().id),
  });
  expect(await running).toMatchObject({ reason: 'lost', exitCode: null });
  expect(await place.tell('cat one')).toBe('one\n');
  // Gone between two commands: nobody notices.
  await server.lose(newest().id);
  expect(await place.tell('cat one')).toBe('one\n');
});

test('a connection that breaks loses its command, not the files that it wrote', async () => {
  await using place = await open();
  const result = await place.bash('echo saved >saved; echo begun; sleep 30', { onOutput: () => server.cut() });
  expect(result.reason).toBe('lost');
  expect(await place.tell('cat saved')).toBe('saved\n');
});

test('SBX-14: whatever fails while a machine is made, none is left', async () => {
  const backend = await createE2bBackend(configOf());
  const directory = await mkdtemp(join(root, 'slot-'));
  await mkdir(join(directory, 'ws'));
  await writeFile(join(directory, 'ws/file'), 'x');
  const faults = {
    'creation refused': (path: string) => (path === '/v2/sandboxes' ? { status: 500 } : undefined),
    'upload refused': (path: string) => (path === '/files' ? { status: 507 } : undefined),
    'upload dropped': (path: string) => (path === '/files' ? ('drop' as const) : undefined),
    'a step hangs': (path: string) => (path.endsWith('/Start') ? ('hang' as const) : undefined),
    'made, but never told': (path: string, method: string) =>
      path === '/v2/sandboxes' && method === 'POST' ? ('mute' as const) : undefined,
  };
  const before = server.machines.size;
  for (const [name, fault] of Object.entries(faults)) {
    server.misbehave(({ path, method }) => fault(path, method));
    const opening = backend.open({ id: 'slot', directory }, AbortSignal.timeout(400));
    const failure: unknown = await opening.catch((error: unknown) => error);
    expect({ name, failure, left: server.machines.size }).toMatchObject({
      failure: { code: 'sandbox.failed' },
      left: before,
    });
  }
  server.misbehave(() => undefined);
});

test('SBX-10, SBX-19: a machine has no network unless it is opened, and lives on while a command runs', async () => {
  await using place = await open({ lifeMs: 2_000 });
  expect([newest().hasInternet, place.backend.capabilities.hasNetwork]).toEqual([false, false]);
  const began = Date.now();
  await place.tell('sleep 1.6');
  expect(newest().endsAt).toBeGreaterThan(began + 2_400);
});

test("SBX-13: reap ends what dead servers of this host left, and nobody else's machines", async () => {
  await using place = await open();
  const { metadata: own } = newest();
  // Process ids end at 4,194,304.
  const dead = [
    await server.add({ ...own, homardPid: '99999999' }),
    await server.add({ ...own, homardStarted: 'before the process that has the number now' }),
  ];
  const kept = [
    await server.add({ ...own, homardHost: 'another', homardPid: '99999999' }),
    await server.add({ app: 'foreign' }),
  ];
  expect(await place.backend.reap?.()).toBe(2);
  for (const { id } of dead) expect(server.machines.has(id)).toBe(false);
  expect(await place.tell('echo here')).toBe('here\n');
  for (const { id } of kept) {
    expect(server.machines.has(id)).toBe(true);
    await server.lose(id);
  }
});
