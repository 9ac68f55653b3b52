// Attacks that use up the host: processes, memory, disk, output; and those that try to stay. Every one of them ends by
// itself, also where no limit holds, and a mild form proves the limit before the full one comes.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { measureFolder } from '../../src/sandbox/watch/disk-use.ts';
import { createSlice } from '../../src/sandbox/watch/slice.ts';
import { processesWith, stdoutOf, time, type Bench } from '../../src/testing/sandbox-bench.ts';
import { peakOf, toMB, waitUntilGone, type Attack } from './attack.ts';

const MB = 1_000_000;
const newMark = (): string => `mark-${crypto.randomUUID()}`;
const used = (path: string) => measureFolder(path, { device: statSync(path).dev, slice: createSlice() });

const forks: Attack = {
  name: 'SBX-10 fork bomb',
  isMain: true,
  async run({ bash, another, limits }) {
    const mild = newMark();
    const few = await peakOf(mild, () =>
      bash('for i in {1..150}; do sleep 1.5 & done; wait', { env: { MARK: mild }, timeoutMs: 10_000 }),
    );
    assert(few.peak.processes > 10 && few.peak.processes < limits.processes + 20, `${few.peak.processes} of 150`);

    const other = await another();
    const mark = newMark();
    const answers: number[] = [];
    const { peak } = await peakOf(mark, async () => {
      const bomb = bash('b() { b | b & }; b; sleep 3', { env: { MARK: mark }, timeoutMs: 3_000, keepBytes: 1_000 });
      await sleep(500);
      for (let i = 0; i < 4; i++) {
        answers.push(await time(() => other.execution.exec({ argv: ['bash', '-c', 'echo on | cat'] })));
      }
      return await bomb;
    });
    const goneMs = await waitUntilGone(mark);
    assert(peak.processes < limits.processes + 20, `${peak.processes} processes`);
    answers.sort((a, b) => a - b);
    assert(answers[0]! < 1_000, `the other sandbox answered in ${answers.join(', ')} ms`);
    assert.equal(stdoutOf(await bash('echo on')), 'on\n');
    return `contained: at most ${peak.processes} processes (limit ${limits.processes}; host +${peak.added}), another sandbox answered in ${answers.map(Math.round).join(', ')} ms, gone after ${goneMs} ms`;
  },
};

/** `isFast`: it takes all it can before a busy machine lets anybody look; then only its own bound holds, 1.2 GB. */
async function bomb({ bash, limits }: Bench, script: string, isFast = false): Promise<string> {
  const mark = newMark();
  const more = { env: { BOMB: script, MARK: mark }, timeoutMs: 25_000 };
  const { result, peak, ms } = await peakOf(mark, () => bash('timeout 20 bash -c "$BOMB"', more));
  await waitUntilGone(mark);
  assert.equal(result.reason, 'memory_limit', `${result.reason} ${result.exitCode} ${stdoutOf(result)}`);
  assert(isFast || peak.bytes < limits.memoryBytes * 1.5 + 200 * MB, `${toMB(peak.bytes)} MB resident`);
  // Others use this machine, too.
  assert(isFast || peak.dipBytes < limits.memoryBytes * 1.5 + 600 * MB, `${toMB(peak.dipBytes)} MB gone`);
  assert.equal(stdoutOf(await bash('echo on')), 'on\n');
  const most = `at most ${toMB(peak.bytes)} MB resident, host dip ${toMB(peak.dipBytes)} MB`;
  return `memory_limit (${toMB(limits.memoryBytes)} MB), ${most}, ended after ${Math.round(ms)} ms`;
}

const oneHog: Attack = {
  name: 'SBX-10 memory bomb of one process',
  isMain: true,
  async run(bench) {
    const mild = await bench.bash('head -c 80000000 /dev/zero | tail -n 1 | wc -c');
    assert.deepEqual([mild.reason, stdoutOf(mild)], ['exit', '80000000\n'], 'what is below the limit goes on');
    // tail keeps the whole line.
    return `contained: ${await bomb(bench, 'head -c 800000000 /dev/zero | tail -n 1 | wc -c')}`;
  },
};

const tenHogs: Attack = {
  name: 'SBX-10 memory bomb of ten processes',
  async run(bench) {
    const hogs = (source: string) => `for i in {1..10}; do (${source}; sleep 8) | tail -n 1 | wc -c & done; wait`;
    const steady = await bomb(bench, hogs('for j in {1..12}; do head -c 10000000 /dev/zero; sleep 0.3; done'));
    const fast = await bomb(bench, hogs('head -c 120000000 /dev/zero'), true);
    return `contained: steadily: ${steady}; at once: ${fast}`;
  },
};

const hidden: Attack = {
  name: 'SBX-10 memory bomb of files in memory',
  async run(bench) {
    const { bash, limits } = bench;
    const shared = await bash(
      'for i in {1..20}; do head -c 20000000 /dev/zero >/dev/shm/f$i || break; done; du -sm /dev/shm /dev | cut -f1',
    );
    const [shm, dev] = stdoutOf(shared).trim().split('\n').map(Number);
    assert(shm! < 100 && dev! < 100, `${shm} MB in /dev/shm`);
    // Never mapped, so in the memory of no process.
    const memfd = await bomb(
      bench,
      `python3 -c "
import os, time
files = [os.memfd_create('f') for i in range(60)]
for file in files:
    for i in range(2): os.write(file, bytes(10_000_000))
time.sleep(5)"`,
    );
    const system = await bash(`python3 -c "
import ctypes
libc = ctypes.CDLL(None)
print(sum(libc.shmget(0, 50_000_000, 0o1600) >= 0 for i in range(20)))"`);
    assert(Number(stdoutOf(system)) * 50 * MB <= limits.memoryBytes, `${stdoutOf(system)} segments of 50 MB`);
    return `contained: ${shm} MB in /dev/shm, ${stdoutOf(system).trim()} segments of 50 MB; memfd: ${memfd}`;
  },
};

const fair: Attack = {
  name: 'no attack: forks that share memory, and a large program that starts small ones',
  async run({ bash }) {
    const script = `
import os, subprocess, time
data = bytearray(os.urandom(1000)) * 150_000
children = []
for i in range(8):
    pid = os.fork()
    if pid == 0: time.sleep(1.5); os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)
for i in range(150): subprocess.run(['true'])
print('whole')`;
    const result = await bash(`python3 -c "$PROGRAM"`, { env: { PROGRAM: script }, timeoutMs: 30_000 });
    assert.deepEqual([result.reason, stdoutOf(result)], ['exit', 'whole\n']);
    return `contained: not ended by mistake, 9 processes over 150 MB each that they share, then 150 programs (${result.ms} ms)`;
  },
};

async function fill(bench: Bench, script: string): Promise<string> {
  const { bash, limits, slot } = bench;
  const result = await bash(`timeout 15 bash -c "$FILL"`, { env: { FILL: script }, timeoutMs: 20_000 });
  const bytes = await used(slot.directory);
  assert.equal(result.reason, 'disk_limit', `${result.reason} ${result.exitCode} ${stdoutOf(result)}`);
  assert(bytes < limits.diskBytes * 2 + 300 * MB, `${toMB(bytes)} MB are left`);
  assert.equal((await bash('rm -rf /workspace/* /tmp/*')).reason, 'exit', 'it can be emptied');
  assert((await used(slot.directory)) < MB);
  return `disk_limit (${toMB(limits.diskBytes)} MB) after ${result.ms} ms with ${toMB(bytes)} MB`;
}

const disk: Attack = {
  name: 'SBX-10 disk fill',
  isMain: true,
  async run(bench) {
    const { bash, limits, slot } = bench;
    const one = await bash(`head -c ${limits.fileBytes * 3} /dev/zero >one; echo $?`);
    const size = await used(slot.directory);
    assert(size < limits.fileBytes + MB, `one file has ${toMB(size)} MB`);
    assert.equal(one.reason, 'exit');
    await bash('rm one');
    const large = await fill(bench, 'for i in {1..25}; do head -c 20000000 /dev/zero >f$i || exit 9; done; sleep 2');
    // Where many files were made and removed, making them may take so long that one process would reach its limit of CPU.
    const piece = 'head -c 10000000 /dev/zero | split -b 32768 -a 4 - /tmp/f$i. || exit 9';
    const small = await fill(bench, `for i in {1..16}; do ${piece}; done; sleep 2`);
    return `contained: one file ends at ${toMB(size)} MB; large ones: ${large}; small ones: ${small}`;
  },
};

const hiddenDisk: Attack = {
  name: 'SBX-10 disk fill by files without a name',
  async run(bench) {
    const script = 'for i in {1..20}; do exec {fd}>f; rm f; head -c 20000000 /dev/zero >&$fd || exit 9; done; sleep 3';
    const { limits } = bench;
    const removed = await fill(bench, script);
    const slow = await fill(bench, script.replace('; done', '; sleep 0.2; done'));
    return `contained (${toMB(limits.diskBytes)} MB): removed files ${removed}; slowly ${slow}`;
  },
};

const output: Attack = {
  name: '300 MB of output',
  isMain: true,
  async run({ bash, limits }) {
    const before = process.memoryUsage().rss;
    let most = before;
    const timer = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 10);
    const result = await bash('head -c 300000000 /dev/zero');
    clearInterval(timer);
    assert.equal(result.reason, 'output_limit');
    assert(result.stdout.omittedBytes > limits.outputBytes / 2);
    assert(most - before < 64 * MB, `the server grew by ${toMB(most - before)} MB`);
    return `contained: output_limit (${toMB(limits.outputBytes)} MB) after ${result.ms} ms, the server grew by ${toMB(most - before)} MB`;
  },
};

const survivors: Attack = {
  name: 'SBX-05 processes that want to stay',
  isMain: true,
  async run({ bash }) {
    const stay =
      'setsid sleep 60 & nohup sleep 60 >/dev/null 2>&1 & (setsid bash -c "trap \'\' TERM HUP INT; (sleep 60 & sleep 60) & sleep 60" &) & disown -a;';
    const [ended, late] = [newMark(), newMark()];
    const quick = await bash(`${stay} sleep 0.2; echo done`, { env: { MARK: ended } });
    assert.deepEqual([quick.reason, quick.exitCode], ['exit', 0]);
    const afterEnd = await waitUntilGone(ended);
    const slow = bash(`trap '' TERM HUP INT; ${stay} echo partial; sleep 60`, { env: { MARK: late }, timeoutMs: 700 });
    await sleep(500);
    const seen = processesWith(late).length;
    const result = await slow;
    assert.deepEqual([result.reason, stdoutOf(result)], ['timeout', 'partial\n']);
    const afterTimeout = await waitUntilGone(late);
    assert(seen > 4 && afterEnd < 1_000 && afterTimeout < 1_000);
    return `contained: ${seen} processes, gone ${afterEnd} ms after the end and ${afterTimeout} ms after the time limit`;
  },
};

const removal: Attack = {
  name: 'rm -rf /',
  async run({ bash, files, outside }) {
    await files.write('file.txt', 'x');
    const result = await bash(
      `[ ! -e '${outside.file}' ] && rm -rf --no-preserve-root / 2>/dev/null; ls /usr/bin | wc -l`,
    );
    assert(Number(stdoutOf(result)) > 100, 'programs are still there');
    assert(statSync(outside.file).isFile() && statSync(process.execPath).isFile());
    assert.equal(stdoutOf(await bash('echo again >file.txt; cat file.txt')), 'again\n');
    return 'contained: only the workspace is empty, the next command runs';
  },
};

export const exhaustingAttacks: Attack[] = [
  survivors,
  forks,
  oneHog,
  tenHogs,
  hidden,
  fair,
  disk,
  hiddenDisk,
  output,
  removal,
];
