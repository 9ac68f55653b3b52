import { execFileSync } from 'node:child_process';
import { spawn } from 'node:child_process';
import {
  chownSync,
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { measureFolder } from '../../src/sandbox/watch/disk-use.ts';
import { canWatch } from '../../src/sandbox/watch/watchdog.ts';
import { children, countDisk, directory, makeMany, MB, onLinux, python, run, useFolder, watch } from './watched.ts';

useFolder();

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

onLinux('SBX-10: who makes the count long does not write more meanwhile', { timeout: 120_000 }, async () => {
  makeMany();
  const { pid } = await run(writeSlowly(900));
  const told = await watch(pid, { diskBytes: 100 * MB, forMs: 15_000 });
  process.kill(pid, 'SIGKILL');
  expect(told.reasons).toEqual(['disk_limit']);
  expect((await countDisk(directory)) / MB).toBeLessThan(500);
});

onLinux('SBX-10: a command begins with what is known of those before it', { timeout: 120_000 }, async () => {
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

onLinux('what others write while a full folder is counted ends nobody', { timeout: 120_000 }, async () => {
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

const renaming = (megabytes: number) => `
os.mkdir('p')
os.chdir('p')
for i in range(3000): open('s%d' % i, 'w').close()
os.mkdir('n0')
inside = os.open('n0', os.O_RDONLY)
def rename():
    i = 0
    while True:
        os.rename('n%d' % i, 'n%d' % (i + 1))
        i += 1
        time.sleep(0.001)
threading.Thread(target=rename, daemon=True).start()
print("ready")
time.sleep(0.15)
for i in range(${megabytes} // 10):
    with os.fdopen(os.open('f%d' % i, os.O_CREAT | os.O_WRONLY, dir_fd=inside), 'wb') as file: file.write(bytes(10_000_000))
    time.sleep(0.1)
`;

const isRoot = process.getuid?.() === 0;

test.runIf(canWatch && isRoot)(
  'SBX-10: a folder that is renamed all the time is not hidden',
  { timeout: 120_000 },
  async () => {
    // Of a large disk more may be lost before that is taken for its work.
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1g', 'tmpfs', directory]);
    try {
      mkdirSync(join(directory, 'ws'));
      const { pid } = await python(renaming(400));
      const told = await watch(pid, { diskBytes: 40 * MB, forMs: 15_000 });
      process.kill(pid, 'SIGKILL');
      expect(told.reasons).toEqual(['disk_limit']);
      expect((await countDisk(directory)) / MB).toBeLessThan(200);
    } finally {
      execFileSync('umount', ['--lazy', directory]);
    }
  },
);

onLinux('what others write does not end who changes folders all the time', { timeout: 120_000 }, async () => {
  const { pid } = await python(`
for i in range(300): open('kept%d' % i, 'w').close()
print("ready")
for n in range(8_000):
    open('new%d' % (n % 400), 'w').close()
    if n >= 200: os.remove('new%d' % ((n - 200) % 400))
    time.sleep(0.0005)
`);
  const outside = mkdtempSync(join(tmpdir(), 'homard-outside-'));
  const watching = watch(pid, { diskBytes: 40 * MB, forMs: 3_500 });
  for (let i = 0; i < 10; i++) {
    writeFileSync(join(outside, `${i}`), Buffer.alloc(20 * MB, 1));
    await sleep(250);
  }
  const told = await watching;
  rmSync(outside, { recursive: true });
  expect(told.reasons).toEqual([]);
});

onLinux(
  'who renames and removes folders while they are counted is not ended for that',
  { timeout: 120_000 },
  async () => {
    const { pid } = await python(`
import shutil
def install(name):
    for i in range(200):
        os.makedirs(name + '/new%d/lib' % i)
        for j in range(5):
            with open(name + '/new%d/lib/f%d' % (i, j), 'wb') as file: file.write(bytes(20_000))
        os.rename(name + '/new%d' % i, name + '/package%d' % i)
print("ready")
end = time.time() + 5
while time.time() < end:
    install('modules')
    os.rename('modules', 'old')
    shutil.rmtree('old')
`);
    expect((await watch(pid, { diskBytes: 40 * MB, forMs: 4_500 })).reasons).toEqual([]);
  },
);

onLinux('a folder counts once, and all of it, when it gets another name meanwhile', async () => {
  const ws = join(directory, 'ws');
  mkdirSync(join(ws, 'a', 'deep'), { recursive: true });
  writeFileSync(join(ws, 'a', 'file'), Buffer.alloc(3 * MB, 1));
  writeFileSync(join(ws, 'a', 'deep', 'file'), Buffer.alloc(4 * MB, 1));
  writeFileSync(join(ws, 'other'), Buffer.alloc(2 * MB, 1));
  for (let pauseAt = 1; pauseAt < 24; pauseAt++) {
    let steps = 0;
    let misses = 0;
    const slice = {
      busyMs: 0,
      pause() {
        if (++steps === pauseAt) renameSync(join(ws, pauseAt % 2 ? 'a' : 'b'), join(ws, pauseAt % 2 ? 'b' : 'a'));
        return undefined;
      },
    };
    const bytes = await measureFolder(ws, { device: statSync(ws).dev, slice, onMiss: () => misses++ });
    if (steps < pauseAt) break;
    expect([pauseAt, misses, Math.round(bytes / MB)]).toEqual([pauseAt, 0, 9]);
  }
});

onLinux('SBX-10: a folder that its owner may not read counts, also where that is the user of the server', async () => {
  const hidden = join(directory, 'ws', 'hidden');
  mkdirSync(hidden);
  writeFileSync(join(hidden, 'file'), Buffer.alloc(5 * MB, 1));
  // As another user, where the tests are those of root, who may read everything.
  const source = `
    const { chmodSync, statSync } = require('node:fs');
    if (process.getuid() === 0) { process.setgroups([]); process.setgid(65534); process.setuid(65534); }
    (async () => {
      const { measureFolder } = await import('${new URL('../../src/sandbox/watch/disk-use.ts', import.meta.url).href}');
      const { createSlice } = await import('${new URL('../../src/sandbox/watch/slice.ts', import.meta.url).href}');
      const sizes = [];
      for (const mode of [0o300, 0o600, 0]) {
        chmodSync('hidden', mode);
        sizes.push(await measureFolder('.', { device: statSync('.').dev, slice: createSlice() }));
      }
      console.log(sizes.map((bytes) => Math.round(bytes / 1e6)).join());
    })();
  `;
  if (process.getuid?.() === 0) {
    chmodSync(directory, 0o755);
    chownSync(hidden, 65_534, 65_534);
  }
  const child = spawn(process.execPath, ['-e', source], {
    cwd: join(directory, 'ws'),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  children.push(child);
  expect((await text(child.stdout)).trim()).toBe('5,5,5');
});
