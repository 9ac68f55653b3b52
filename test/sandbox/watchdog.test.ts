import { spawn, type ChildProcess } from 'node:child_process';
import {
  closeSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { measureFolder } from '../../src/sandbox/watch/disk-use.ts';
import { measureHeld } from '../../src/sandbox/watch/held.ts';
import { createChildrenFinder, measureMemory, measureTree } from '../../src/sandbox/watch/processes.ts';
import { createSlice } from '../../src/sandbox/watch/slice.ts';
import { canWatch, watchLimits } from '../../src/sandbox/watch/watchdog.ts';

const MB = 1_000_000;
let directory: string;
const children: ChildProcess[] = [];
const onLinux = canWatch ? test : test.skip;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'homard-watch-'));
  mkdirSync(join(directory, 'ws'));
});
afterEach(() => {
  // Each is the leader of its group.
  for (const child of children.splice(0))
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL');
  rmSync(directory, { recursive: true, force: true });
});

/** A program of Node that has done its first step when this resolves; it ends with the test. */
async function run(source: string): Promise<ChildProcess & { pid: number }> {
  return start(process.execPath, ['-e', `${source}\n;console.log('ready');setTimeout(() => {}, 20_000)`]);
}

/** The same in Python, which has what Node lacks: mappings, descriptors through sockets. */
function python(source: string): Promise<ChildProcess & { pid: number }> {
  const header = 'import mmap, os, socket, sys, threading, time\n';
  return start('/usr/bin/python3', ['-uc', `${header}${source}\nprint("ready")\ntime.sleep(20)`]);
}

async function start(program: string, parameters: string[]): Promise<ChildProcess & { pid: number }> {
  const child = spawn(program, parameters, {
    cwd: join(directory, 'ws'),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
    env: {},
  });
  children.push(child);
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve);
    child.once('exit', () => reject(new Error('It ended early.')));
  });
  return Object.assign(child, { pid: child.pid! });
}

/** Takes about half a second to count. */
const MANY = 60_000;
function makeMany(): void {
  const folder = join(directory, 'ws', 'many');
  mkdirSync(folder);
  for (let i = 0; i < MANY; i++) closeSync(openSync(join(folder, `${i}`), 'w'));
}

interface Told {
  reasons: string[];
  ms: number;
}

/** What is told of a process, and when, within some time. */
async function watch(
  pid: number,
  limits: { memoryBytes?: number; diskBytes?: number; forMs: number; processes?: () => number[] },
): Promise<Told> {
  const began = performance.now();
  const told: Told = { reasons: [], ms: 0 };
  const { memoryBytes = 1000 * MB, diskBytes = 1000 * MB, forMs, ...more } = limits;
  const stop = watchLimits({ pid, directory, memoryBytes, diskBytes, ...more }, (reason) => {
    told.reasons.push(reason);
    told.ms ||= performance.now() - began;
  });
  while (performance.now() - began < forMs && !told.reasons.length) await sleep(10);
  stop();
  return told;
}

const fill = (megabytes: number) => `globalThis.kept = Buffer.alloc(${megabytes}e6, 1)`;
const countDisk = (path: string) => measureFolder(path, { device: statSync(path).dev, slice: createSlice() });

onLinux('SBX-10: memory beyond the limit is told once, below it never', async () => {
  const { pid } = await run(fill(150));
  expect((await watch(pid, { memoryBytes: 300 * MB, forMs: 400 })).reasons).toEqual([]);
  const told = await watch(pid, { memoryBytes: 100 * MB, forMs: 15_000 });
  expect(told.reasons).toEqual(['memory_limit']);
});

onLinux('SBX-10: the memory of grandchildren counts, also of those that began a session of their own', async () => {
  const { pid } = await run(`
    const { spawn } = require('node:child_process');
    spawn(process.execPath, ['-e', ${JSON.stringify(`${fill(150)}; setTimeout(() => {}, 20_000)`)}], { detached: true });
  `);
  const told = await watch(pid, { memoryBytes: 120 * MB, forMs: 15_000 });
  expect(told.reasons).toEqual(['memory_limit']);
});

onLinux('SBX-10: commands over the same folder share their limit, and the larger one is ended', async () => {
  const [large, small] = [await run(fill(120)), await run(fill(60))];
  const ended: string[] = [];
  const limits = { directory, memoryBytes: 160 * MB, diskBytes: 1000 * MB };
  const stopSmall = watchLimits({ ...limits, pid: small.pid }, () => ended.push('small'));
  const stopLarge = watchLimits({ ...limits, pid: large.pid }, () => ended.push('large'));
  await expect.poll(() => ended, { timeout: 15_000 }).toEqual(['large']);
  stopLarge();
  await sleep(250);
  stopSmall();
  expect(ended).toEqual(['large']);
});

onLinux('memory that forked processes share counts once', async () => {
  // bash forks without a program: the 40 MB of its variable are shared by all of its subshells.
  const child = spawn(
    'bash',
    ['-c', 'printf -v x "%40000000s"; for i in 1 2 3 4 5 6; do (read -r line) & done <&0; echo ready; wait'],
    { stdio: ['pipe', 'pipe', 'inherit'], detached: true },
  );
  children.push(child);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  const uses = measureTree([child.pid!], createChildrenFinder());
  const bound = uses.reduce((sum, use) => sum + use.bytes, 0);
  const { bytes: exact } = await measureMemory(uses, { enough: 1000 * MB, slice: createSlice() });
  expect(uses.length).toBe(7);
  expect(bound).toBeGreaterThan(250 * MB);
  expect(exact).toBeLessThan(120 * MB);
  expect((await watch(child.pid!, { memoryBytes: 150 * MB, forMs: 500 })).reasons).toEqual([]);
});

onLinux('SBX-10: files without a name count: in memory as memory, on disk as disk', async () => {
  const { pid } = await run(`
    const fs = require('node:fs');
    for (const [path, megabytes] of [['/dev/shm/homard-' + process.pid, 30], ['gone', 50]]) {
      globalThis.kept = fs.openSync(path, 'w');
      fs.rmSync(path);
      fs.writeSync(kept, Buffer.alloc(megabytes * 1e6, 1));
    }
  `);
  const uses = measureTree([pid], createChildrenFinder());
  const held = await measureHeld(uses, { device: statSync(directory).dev, slice: createSlice() });
  expect(held.memory / MB).toBeCloseTo(30, 0);
  expect(held.disk / MB).toBeCloseTo(50, 0);
});

onLinux('SBX-10: what is written to a removed file is told as soon as it passes the limit', async () => {
  const { pid } = await run(`
    const fs = require('node:fs');
    const kept = fs.openSync('gone', 'w');
    fs.rmSync('gone');
    setTimeout(() => fs.writeSync(kept, Buffer.alloc(60e6, 1)), 150);
  `);
  const told = await watch(pid, { diskBytes: 40 * MB, forMs: 15_000 });
  expect(told.reasons).toEqual(['disk_limit']);
});

onLinux('SBX-10: disk beyond the limit is told, by one file and by many', async () => {
  const one = await run(`setTimeout(() => require('node:fs').writeFileSync('one', Buffer.alloc(30e6, 1)), 150)`);
  expect((await watch(one.pid, { diskBytes: 20 * MB, forMs: 15_000 })).reasons).toEqual(['disk_limit']);
  rmSync(join(directory, 'ws', 'one'));
  const many = await run(`
    setTimeout(() => { for (let i = 0; i < 400; i++) require('node:fs').writeFileSync('many' + i, 'x'.repeat(65536)) }, 150);
  `);
  expect((await watch(many.pid, { diskBytes: 20 * MB, forMs: 15_000 })).reasons).toEqual(['disk_limit']);
});

onLinux('who starts with a full disk may still remove files, but not fill it further', async () => {
  writeFileSync(join(directory, 'ws', 'old'), Buffer.alloc(50 * MB, 1));
  const { pid } = await run('');
  expect((await watch(pid, { diskBytes: 40 * MB, forMs: 500 })).reasons).toEqual([]);
  const more = await run(`setTimeout(() => require('node:fs').writeFileSync('more', Buffer.alloc(20e6, 1)), 150)`);
  expect((await watch(more.pid, { diskBytes: 40 * MB, forMs: 15_000 })).reasons).toEqual(['disk_limit']);
});

onLinux('who starts with more than twice the limit may remove files, but write no more', async () => {
  for (const name of ['old', 'older']) writeFileSync(join(directory, 'ws', name), Buffer.alloc(50 * MB, 1));
  const { pid } = await run(`setTimeout(() => require('node:fs').rmSync('older'), 250)`);
  expect((await watch(pid, { diskBytes: 20 * MB, forMs: 600 })).reasons).toEqual([]);
  const more = await run(`setTimeout(() => require('node:fs').writeFileSync('more', Buffer.alloc(5e6, 1)), 150)`);
  expect((await watch(more.pid, { diskBytes: 20 * MB, forMs: 15_000 })).reasons).toEqual(['disk_limit']);
});

onLinux('SBX-10: empty files count, a kilobyte each', async () => {
  const { pid } = await run(`
    setTimeout(() => { for (let i = 0; i < 35e3; i++) require('node:fs').writeFileSync('many' + i, '') }, 150);
  `);
  expect((await watch(pid, { diskBytes: 20 * MB, forMs: 10_000 })).reasons).toEqual(['disk_limit']);
});

const writeSlowly = (atMost: number) => `
  let written = 0;
  setInterval(() => {
    if (++written * 10 <= ${atMost}) require('node:fs').writeFileSync('more' + written, Buffer.alloc(10e6, 1));
  }, 15);
`;

onLinux('SBX-10: who makes the count long does not write more meanwhile', { timeout: 60_000 }, async () => {
  makeMany();
  const { pid } = await run(writeSlowly(900));
  const told = await watch(pid, { diskBytes: 100 * MB, forMs: 15_000 });
  process.kill(pid, 'SIGKILL');
  expect(told.reasons).toEqual(['disk_limit']);
  expect((await countDisk(directory)) / MB).toBeLessThan(500);
});

onLinux('SBX-10: a command begins with what is known of those before it', { timeout: 60_000 }, async () => {
  makeMany();
  writeFileSync(join(directory, 'ws', 'old'), Buffer.alloc(120 * MB, 1));
  const { pid } = await run('');
  // Longer than it takes to count, also where others keep the machine busy.
  expect((await watch(pid, { diskBytes: 200 * MB, forMs: 4_000 })).reasons).toEqual([]);
  const more = await run(writeSlowly(150));
  const began = performance.now();
  const counting = countDisk(directory).then(() => performance.now() - began);
  const told = await watch(more.pid, { diskBytes: 200 * MB, forMs: 15_000 });
  expect(told.reasons).toEqual(['disk_limit']);
  // A count ends it only when it is done, and not the first, which takes what it finds for what was there before.
  expect(told.ms).toBeLessThan(2 * (await counting));
});

onLinux('SBX-10: files that are removed and only mapped count, each once', async () => {
  const { pid } = await python(`
kept = []
for i in range(4):
    with open('gone', 'wb+') as file:
        file.write(bytes(10_000_000))
        file.flush()
        kept += [mmap.mmap(file.fileno(), 10_000_000), mmap.mmap(file.fileno(), 4096)]
    os.unlink('gone')
# Python keeps a descriptor for each.
os.closerange(3, 100)
`);
  const uses = measureTree([pid], createChildrenFinder());
  const held = await measureHeld(uses, { device: statSync(directory).dev, slice: createSlice() });
  expect(held.disk / MB).toBeCloseTo(40, 0);
  const more = await python(`
print("ready")
time.sleep(0.15)
kept = []
for i in range(40):
    with open('gone', 'wb+') as file:
        file.write(bytes(5_000_000))
        file.flush()
        kept.append(mmap.mmap(file.fileno(), 4096))
    os.unlink('gone')
    os.closerange(3, 100)
`);
  expect((await watch(more.pid, { diskBytes: 20 * MB, forMs: 5_000 })).reasons).toEqual(['disk_limit']);
});

onLinux('SBX-10: files that only a second thread holds count when the first has ended', async () => {
  const { pid } = await python(`
kept = open('gone', 'wb')
os.unlink('gone')
kept.write(bytes(10_000_000))
kept.flush()
threading.Thread(target=lambda: (time.sleep(0.3), print("ready"), time.sleep(20))).start()
import ctypes, platform
ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)
`);
  const uses = measureTree([pid], createChildrenFinder());
  const held = await measureHeld(uses, { device: statSync(directory).dev, slice: createSlice() });
  expect(held.disk / MB).toBeCloseTo(10, 0);
});

const inFlight = `
ends = socket.socketpair()
for i in range(COUNT):
    with open('gone', 'wb') as file:
        os.unlink('gone')
        file.write(bytes(5_000_000))
        file.flush()
        socket.send_fds(ends[0], [b'x'], [file.fileno()])
`;

onLinux('SBX-10: what is lost to descriptors on their way through a socket is told', async () => {
  const { pid } = await python(`print("ready")\ntime.sleep(0.15)\n${inFlight.replace('COUNT', '40')}`);
  expect((await watch(pid, { diskBytes: 20 * MB, forMs: 5_000 })).reasons).toEqual(['disk_limit']);
});

onLinux('what others write to the same disk ends nobody', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'homard-outside-'));
  const { pid } = await python('ends = socket.socketpair()');
  const watching = watch(pid, { diskBytes: 20 * MB, forMs: 1_500 });
  for (let i = 0; i < 10; i++) {
    writeFileSync(join(outside, `${i}`), Buffer.alloc(20 * MB, 1));
    await sleep(60);
  }
  const told = await watching;
  rmSync(outside, { recursive: true });
  expect(told.reasons).toEqual([]);
});

onLinux('what others write while a full folder is counted ends nobody', { timeout: 60_000 }, async () => {
  makeMany();
  writeFileSync(join(directory, 'ws', 'old'), Buffer.alloc(160 * MB, 1));
  const { pid } = await run('');
  // Longer than it takes to count, also where others keep the machine busy.
  expect((await watch(pid, { diskBytes: 200 * MB, forMs: 4_000 })).reasons).toEqual([]);
  const outside = mkdtempSync(join(tmpdir(), 'homard-outside-'));
  const watching = watch(pid, { diskBytes: 200 * MB, forMs: 3_000 });
  // Not more than may be lost before a count tells whose it is.
  writeFileSync(join(outside, 'file'), Buffer.alloc(40 * MB, 1));
  const told = await watching;
  rmSync(outside, { recursive: true });
  expect(told.reasons).toEqual([]);
});

onLinux('SBX-10: what is held by processes that are not below the first one counts when they are named', async () => {
  const [first, other] = [
    await run(''),
    await python(`print("ready")\ntime.sleep(0.15)\n
kept = open('gone', 'wb')
os.unlink('gone')
kept.write(bytes(60_000_000))
kept.flush()
`),
  ];
  const processes = () => [first.pid, other.pid];
  expect((await watch(first.pid, { diskBytes: 40 * MB, forMs: 5_000, processes })).reasons).toEqual(['disk_limit']);
});

onLinux('a folder is counted with its hard links once, without what its links lead to', async () => {
  const ws = join(directory, 'ws');
  writeFileSync(join(ws, 'a'), Buffer.alloc(4 * MB, 1));
  linkSync(join(ws, 'a'), join(ws, 'b'));
  symlinkSync('/usr', join(ws, 'c'));
  mkdirSync(Buffer.concat([Buffer.from(`${ws}/`), Buffer.from([0xff, 0xfe])]));
  writeFileSync(Buffer.concat([Buffer.from(`${ws}/`), Buffer.from([0xff, 0xfe, 0x2f, 0x80])]), Buffer.alloc(3 * MB, 1));
  expect((await countDisk(directory)) / MB).toBeCloseTo(7, 0);
});

onLinux('folders nested deeper than a path may be long are counted', async () => {
  await run(`
    const fs = require('node:fs');
    for (let i = 0; i < 1500; i++) { fs.mkdirSync('aaaa'); process.chdir('aaaa'); }
    fs.writeFileSync('x', Buffer.alloc(5e6, 1));
  `);
  expect((await countDisk(directory)) / MB).toBeGreaterThan(5 + 1500 * 0.004);
});

onLinux('without lists of children in /proc one look at all processes finds the same', async () => {
  const { pid } = await run(`require('node:child_process').spawn('sleep', ['20'])`);
  const pids = (byScan: boolean) => measureTree([pid], createChildrenFinder({ byScan })).map((use) => use.pid);
  expect(pids(true)).toEqual(pids(false));
  expect(pids(true)).toHaveLength(2);
});
