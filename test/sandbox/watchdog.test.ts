import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { measureHeld } from '../../src/sandbox/watch/held.ts';
import { createChildrenFinder, measureMemory, measureTree } from '../../src/sandbox/watch/processes.ts';
import { createSlice } from '../../src/sandbox/watch/slice.ts';
import { watchLimits } from '../../src/sandbox/watch/watchdog.ts';
import { children, directory, fill, MB, onLinux, python, run, useFolder, watch } from './watched.ts';

useFolder();

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

onLinux('without lists of children in /proc one look at all processes finds the same', async () => {
  const { pid } = await run(`require('node:child_process').spawn('sleep', ['20'])`);
  const pids = (byScan: boolean) => measureTree([pid], createChildrenFinder({ byScan })).map((use) => use.pid);
  expect(pids(true)).toEqual(pids(false));
  expect(pids(true)).toHaveLength(2);
});

const sharing = (megabytes: number, holes: number) => `
print("ready")
time.sleep(0.15)
kept = []
for i in range(${megabytes} // 10):
    kept.append(mmap.mmap(-1, ${holes} + 10_000_000))
    kept[-1].write(bytes(b'x' * 10_000_000))
    kept[-1].madvise(mmap.MADV_DONTNEED)
`;

onLinux('SBX-10: memory that is shared counts when its pages are mapped no more', async () => {
  const { pid } = await python(sharing(200, 0));
  expect((await watch(pid, { memoryBytes: 100 * MB, forMs: 5_000 })).reasons).toEqual(['memory_limit']);
});

onLinux('shared memory does not count where it has holes', async () => {
  const { pid } = await python(sharing(20, 500_000_000));
  expect((await watch(pid, { memoryBytes: 100 * MB, forMs: 1_500 })).reasons).toEqual([]);
});
