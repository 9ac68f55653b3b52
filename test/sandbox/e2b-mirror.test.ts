import type { Sandbox as Machine } from 'e2b';
import { spawnSync } from 'node:child_process';
import { lstat, mkdir, mkdtemp, readFile, readdir, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { removeTree } from '../../src/files/remove-tree.ts';
import type { Entry } from '../../src/sandbox/e2b/entries.ts';
import { chooseEntries } from '../../src/sandbox/e2b/entries.ts';
import { createMirror } from '../../src/sandbox/e2b/mirror.ts';
import { createE2bBackend } from '../../src/sandbox/e2b.ts';
import type { SandboxLimits } from '../../src/sandbox/sandbox.ts';
import type { E2bServer } from '../../src/testing/e2b-server.ts';
import { createE2bServer } from '../../src/testing/e2b-server.ts';

const limits: SandboxLimits = {
  memoryBytes: 256 << 20,
  diskBytes: 40 << 20,
  fileBytes: 24 << 20,
  processes: 48,
  cpuSeconds: 10,
  outputBytes: 4 << 20,
};

let server: E2bServer;
let root: string;
const warnings: string[] = [];
const log = {
  warn: (data: object, text: string) => warnings.push(`${text} ${JSON.stringify(data)}`),
  error: () => undefined,
};

beforeAll(async () => {
  server = await createE2bServer();
  root = await mkdtemp(join(tmpdir(), 'homard-e2b-mirror-'));
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await removeTree(root);
});

async function makeSlot(): Promise<{ directory: string; ws: string }> {
  warnings.length = 0;
  const directory = await mkdtemp(join(root, 'slot-'));
  const ws = join(directory, 'ws');
  await mkdir(ws);
  return { directory, ws };
}

/** A machine of the stand-in; `fill` makes the files that it begins with. */
async function open({ fill, ...more }: Partial<SandboxLimits> & { fill?: (ws: string) => Promise<unknown> } = {}) {
  const { directory, ws } = await makeSlot();
  await fill?.(ws);
  const backend = await createE2bBackend({
    limits: { ...limits, ...more },
    network: 'none',
    hidden: [],
    docker: {},
    e2b: { apiUrl: server.url, sandboxUrl: server.url, apiKey: server.apiKey },
    log,
  });
  const execution = await backend.open({ id: 'slot', directory }, AbortSignal.timeout(20_000));
  const machine = [...server.machines.values()].at(-1) ?? expect.fail('there is no machine');
  return {
    ws,
    push: (path: string) => execution.push?.(path),
    /** Where a file of the machine is on this host. */
    inMachine: (path: string) => machine.toHost(`/workspace/${path}`),
    async tell(script: string): Promise<string> {
      const { stdout, exitCode } = await execution.exec({ argv: ['bash', '-c', script] });
      expect(exitCode).toBe(0);
      return Buffer.concat([stdout.head, stdout.tail]).toString();
    },
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}

/** A mirror of a machine that tells what the test wants: it need not be what a machine of ours would say. */
async function openForged(
  list: () => string[],
  { archive, ...more }: Partial<SandboxLimits> & { archive?: Buffer } = {},
) {
  const { directory, ws } = await makeSlot();
  async function* start({ process }: { process: { args: string[] } }) {
    const isGift = process.args.some((text) => text.includes('tar --create'));
    const value = isGift && archive ? archive : Buffer.from([...list(), 'end', ''].join('\0'));
    yield { event: { event: { case: 'data', value: { output: { case: 'stdout', value } } } } };
    yield { event: { event: { case: 'end', value: { exited: true, exitCode: 0 } } } };
  }
  const machine = { commands: { rpc: { start } } } as unknown as Machine;
  return {
    ws,
    mirror: createMirror({ machine, slot: { id: 'slot', directory }, limits: { ...limits, ...more }, log }),
  };
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);
const folder = (path: string) => `d 4096 755 1.0 ${path}`;
const byPath = (entries: Entry[]) => new Map(entries.map((entry) => [entry.path, entry]));

test('SBX-08: a folder that became a link before its file was sent leads no file of the host into the machine', async () => {
  const outside = await mkdtemp(join(root, 'outside-'));
  await writeFile(join(outside, 'key'), 'secret of the host');
  await using place = await open({ fill: (ws) => mkdir(join(ws, 'a')) });
  await rm(join(place.ws, 'a'), { recursive: true });
  await symlink(outside, join(place.ws, 'a'));
  await expect(place.push('a/key')).rejects.toThrow('"a" is a link');
  await expect(place.push('a/deep/key')).rejects.toThrow('"a" is a link');
  expect(await place.tell('grep -r secret . || ls a')).toBe('');
});

test('links are sent as links, alone and with all the rest, and nothing of what they lead to', async () => {
  const outside = await mkdtemp(join(root, 'outside-'));
  await writeFile(join(outside, 'key'), 'secret of the host');
  const addLinks = async (folder: string) => {
    await mkdir(folder, { recursive: true });
    await symlink(outside, join(folder, 'folder'));
    await symlink(join(outside, 'key'), join(folder, 'file'));
  };
  await using place = await open({ fill: (ws) => addLinks(join(ws, 'first')) });
  await addLinks(join(place.ws, 'then'));
  await place.push('then/file');
  await place.push('then');
  for (const name of ['first', 'then']) {
    expect(await readlink(place.inMachine(`${name}/folder`))).toBe(outside);
    expect(await readlink(place.inMachine(`${name}/file`))).toBe(join(outside, 'key'));
  }
});

test('a push makes the folders on the way, takes names as they are, and removes what has gone with its folder', async () => {
  await using place = await open();
  await mkdir(join(place.ws, '-a/b *'), { recursive: true });
  await writeFile(join(place.ws, '-a/b */-rf'), 'here');
  await place.push('-a/b */-rf');
  expect(await place.tell('cat "./-a/b */-rf"')).toBe('here');
  await removeTree(join(place.ws, '-a'));
  await place.push('-a/b */-rf');
  expect(await place.tell('ls "./-a/b *"')).toBe('');
});

test('a removal in the machine does not bring back a folder that the host has removed', async () => {
  await using place = await open({
    fill: async (ws) => {
      await mkdir(join(ws, 'a'));
      await writeFile(join(ws, 'a/file'), 'x');
    },
  });
  await removeTree(join(place.ws, 'a'));
  await place.tell('rm a/file');
  await expect(lstat(join(place.ws, 'a'))).rejects.toMatchObject({ code: 'ENOENT' });
});

test('folders and empty files count against the room on the disk', async () => {
  await using place = await open({ diskBytes: 100 * 1_024 });
  await place.tell('mkdir d{000..149}; touch f{000..149}');
  expect(await readdir(place.ws)).toHaveLength(100);
  expect(warnings.join('\n')).toContain('"count":200');
});

test('there are at most 50,000 entries, and a folder that stays behind keeps what is in it', async () => {
  const entry = (path: string, kind: Entry['kind'] = 'd'): Entry => ({ path, kind, bytes: 0, mode: 0, stamp: kind });
  const known = byPath(numbers(20_000).map((index) => entry(`a${index}`)));
  const more = numbers(29_999).map((index) => entry(`b${index}`));
  const found = new Map([...known, ...byPath([...more, entry('c'), entry('d'), entry('d/in', 'f')])]);
  const { taken, left } = await chooseEntries({ known, found }, { fileBytes: 1_000, diskBytes: 1_000_000_000 });
  expect([taken.length, taken.at(-1)?.path]).toEqual([30_000, 'c']);
  expect(left.map(({ path }) => path)).toEqual(['d', 'd/in']);
});

test('what stays behind takes no room from others, is told once, and comes when there is room for it', async () => {
  await using place = await open({ fileBytes: 3_000_000, diskBytes: 4_000_000 });
  await place.tell('head -c 2500000 /dev/zero >b1; head -c 2500000 /dev/zero >b2');
  await place.tell('head -c 1000000 /dev/zero >b3');
  expect((await readdir(place.ws)).sort()).toEqual(['b1', 'b3']);
  await place.tell('rm b1');
  expect((await readdir(place.ws)).sort()).toEqual(['b2', 'b3']);
  expect(warnings).toHaveLength(1);
});

test('an old file whose new content stays behind still counts, and goes when it is gone in the machine', async () => {
  await using place = await open({ fileBytes: 1_000_000, diskBytes: 1_500_000 });
  await place.tell('head -c 1000000 /dev/zero >old');
  await place.tell('head -c 1000001 /dev/zero >old; head -c 600000 /dev/zero >more');
  expect(await readdir(place.ws)).toEqual(['old']);
  await place.tell('rm old');
  expect(await readdir(place.ws)).toEqual(['more']);
});

test('thousands of folders and removals give way to the event loop, and end with their signal', async () => {
  let list = numbers(4_000).map((index) => folder(`d${index}`));
  const { ws, mirror } = await openForged(() => list);
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await mirror.fetch(AbortSignal.timeout(60_000));
  expect(await readdir(ws)).toHaveLength(4_000);
  expect(turns).toBeGreaterThan(8);
  turns = 0;
  list = [];
  await mirror.fetch(AbortSignal.timeout(60_000));
  isOver = true;
  expect(await readdir(ws)).toHaveLength(0);
  expect(turns).toBeGreaterThan(5);
  list = [folder('never')];
  await expect(mirror.fetch(AbortSignal.abort())).rejects.toThrow('aborted');
  expect(await readdir(ws)).toHaveLength(0);
});

test('what a machine only says it has leads nowhere', async () => {
  const outside = await mkdtemp(join(root, 'outside-'));
  const deep = `d/${'long/'.repeat(900)}end`;
  const list = ['no-folder/d', `..${outside}/d`, `${outside}/d`, 'd/../../d', 'd', 'd/in', deep].map(folder);
  const { ws, mirror } = await openForged(() => list);
  await mirror.fetch(AbortSignal.timeout(20_000));
  expect(await readdir(ws, { recursive: true })).toEqual(['d', join('d', 'in')]);
  expect(await readdir(outside)).toEqual([]);
});

test('files that grew after they were listed do not go beyond the room on the disk', async () => {
  const source = await mkdtemp(join(root, 'source-'));
  for (const name of 'abc') await writeFile(join(source, name), Buffer.alloc(900_000));
  const archive = spawnSync('tar', ['--format=gnu', '-cf', '-', './a', './b', './c'], {
    cwd: source,
    maxBuffer: 10_000_000,
  }).stdout;
  const { ws, mirror } = await openForged(() => ['a', 'b', 'c'].map((path) => `f 1 644 1.0 ${path}`), {
    diskBytes: 2_000_000,
    archive,
  });
  await mirror.fetch(AbortSignal.timeout(20_000));
  expect(await readdir(ws)).toEqual(['a', 'b']);
});

test('a write that fails while more of the archive comes ends the fetch, and all comes the next time', async () => {
  await using place = await open();
  await mkdir(join(place.ws, 'x'));
  await place.tell('echo file >x; for i in {000..199}; do head -c 40000 /dev/zero >y$i; done');
  expect(warnings.join('\n')).toContain('could not be brought back');
  await removeTree(join(place.ws, 'x'));
  await place.tell('true');
  expect(await readFile(join(place.ws, 'x'), 'utf8')).toBe('file\n');
  expect(await readdir(place.ws)).toHaveLength(201);
});
