import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  bash,
  createBackend,
  createPlace,
  errorOf,
  installServer,
  limits,
  mayHoldOomScore,
  type Place,
  processesWith,
  textOf,
  user,
} from './bwrap-place.ts';

let place: Place;
beforeAll(async () => {
  process.env['HOMARD_CANARY'] = 'canary-of-the-server';
  place = await createPlace();
});
afterAll(async () => {
  await place[Symbol.asyncDispose]();
  delete process.env['HOMARD_CANARY'];
});

test('SBX-24: says what it is and what commands have', () => {
  expect(place.backend.description).toMatch(/^bubblewrap \d+\.\d+/);
  expect(place.backend.advice).toContain('bash');
  expect(place.backend.advice).toContain('without network');
});

test('SBX-07: nothing of the environment, the arguments or the files of the server is there', async () => {
  await using sandbox = await place.open();
  const result = await sandbox.exec({
    argv: bash('cat /proc/*/environ /proc/*/cmdline; ls -l /proc/[0-9]*/fd'),
  });
  expect(textOf(result)).toContain('/usr/bin/bwrap');
  expect(textOf(result)).not.toContain('canary-of-the-server');
  expect(textOf(result)).not.toContain(place.root);
  const files = await sandbox.exec({
    argv: ['ls', '/place.root', '/etc/shadow', '/home', place.root, import.meta.dirname],
  });
  expect(errorOf(files).match(/No such file/g)).toHaveLength(5);
  const descriptors = textOf(await sandbox.exec({ argv: ['ls', '/proc/self/fd'] }));
  expect(descriptors).toBe('0\n1\n2\n3\n'); // 3 is the folder that ls reads.
});

test('SBX-10: a fork bomb stays in its sandbox, and another sandbox answers meanwhile', async () => {
  await using bombed = await place.open();
  await using other = await place.open();
  expect(textOf(await bombed.exec({ argv: bash('ulimit -u') }))).toBe(`${limits.processes}\n`);
  const bomb = bombed.exec({
    argv: bash('bomb() { bomb 7735.907523 | bomb 7735.907523 & }; bomb; sleep 3'),
    timeoutMs: 3000,
  });
  await sleep(700);
  const most = processesWith('7735.907523').length;
  const began = performance.now();
  expect(textOf(await other.exec({ argv: bash('echo here') }))).toBe('here\n');
  expect(performance.now() - began).toBeLessThan(1000);
  expect(most).toBeLessThan(limits.processes + 5);
  await bomb;
  expect(processesWith('7735.907523')).toEqual([]);
});

test('SBX-10: too much memory ends the command, in one process or in ten', async () => {
  await using sandbox = await place.open();
  const hoard = (megabytes: number) => `import time\nx = bytearray(b"x") * ${megabytes * 1_000_000}\ntime.sleep(5)`;
  const one = await sandbox.exec({ argv: ['python3', '-c', hoard(600)] });
  expect(one.reason).toBe('memory_limit');
  const huge = await sandbox.exec({ argv: ['python3', '-c', hoard(4000)] });
  expect([huge.reason, huge.exitCode, errorOf(huge)]).toEqual(['exit', 1, expect.stringContaining('MemoryError')]);
  const script = 'for i in 1 2 3 4 5 6 7 8 9 10; do python3 -c "$1" & done; wait';
  const ten = await sandbox.exec({ argv: bash(script, hoard(50)) });
  expect(ten.reason).toBe('memory_limit');
  const enough = await sandbox.exec({ argv: ['python3', '-c', 'x = bytearray(b"x") * 100_000_000'] });
  expect([enough.reason, enough.exitCode]).toEqual(['exit', 0]);
});

test('SBX-10: too many files end the command, and one file does not become too large', async () => {
  await using sandbox = await place.open();
  const one = await sandbox.exec({ argv: ['dd', 'if=/dev/zero', 'of=one', 'bs=1M', 'count=100'] });
  expect(one.exitCode).toBe(128 + 25); // SIGXFSZ
  expect((await stat(join(sandbox.slot.directory, 'ws/one'))).size).toBeLessThanOrEqual(limits.fileBytes);
  const script = 'for i in $(seq 60); do head -c 5000000 /dev/zero >$TMPDIR/many$i; sleep 0.02; done';
  const many = await sandbox.exec({ argv: bash(script) });
  expect(many.reason).toBe('disk_limit');
  const shared = await sandbox.exec({
    argv: bash('for i in $(seq 20); do head -c 5000000 /dev/zero >/dev/shm/$i || exit 1; done'),
  });
  expect([shared.exitCode, errorOf(shared)]).toEqual([1, expect.stringContaining('No space left')]);
});

test('SBX-10: there is no network, not even to this machine, and no way to its sockets', async () => {
  await using sandbox = await place.open();
  let hits = 0;
  const [tcp, abstract] = [createServer(() => hits++), createServer(() => hits++)];
  const name = `homard-test-${process.pid}`;
  await new Promise<void>((resolve) => void tcp.listen(0, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => void abstract.listen(`\0${name}`, resolve));
  const address = tcp.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const script = `
import socket
def attempt(family, address):
    try:
        socket.socket(family).connect(address)
        print('connected', address)
    except OSError as error:
        print(error.errno)
attempt(socket.AF_INET, ('127.0.0.1', ${port}))
attempt(socket.AF_INET, ('169.254.169.254', 80))
attempt(socket.AF_UNIX, '\\0${name}')
attempt(socket.AF_VSOCK, (2, 1))
`;
  const result = await sandbox.exec({ argv: ['python3', '-c', script] });
  expect(textOf(result)).toBe('111\n101\n111\n97\n');
  await new Promise((resolve) => tcp.close(resolve));
  await new Promise((resolve) => abstract.close(resolve));
  expect(hits).toBe(0);
});

test('SBX-24: no privileges, no new namespaces, a filter; the system cannot be written to', async () => {
  await using sandbox = await place.open();
  const status = textOf(await sandbox.exec({ argv: ['cat', '/proc/self/status'] }));
  expect(status).toMatch(/^CapEff:\t0+$/m);
  expect(status).toMatch(/^CapBnd:\t0+$/m);
  expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  expect(status).toMatch(/^Seccomp:\t2$/m);
  const attempts = [
    'unshare -Ur true',
    'unshare -m true',
    'bwrap --ro-bind / / true',
    'touch /x',
    'touch /usr/x',
    'touch /dev/x',
    'echo x >>/etc/passwd',
    'mount -t tmpfs x /workspace',
    'mknod /workspace/disk b 254 0',
    'echo 1 >/proc/sys/kernel/printk',
  ];
  for (const attempt of attempts) {
    expect([attempt, (await sandbox.exec({ argv: bash(`${attempt} 2>/dev/null`) })).exitCode]).not.toEqual([
      attempt,
      0,
    ]);
  }
});

test.runIf(user)('SBX-07: a server below /usr does not show its files', async () => {
  await using server = await installServer();
  await using open = await place.open();
  expect(textOf(await open.exec({ argv: ['cat', server.secrets[0]!] }))).toBe('the-key'); // Else this tests nothing.
  await using backend = await createBackend({}, { hidden: server.hidden });
  await using sandbox = await place.open({ from: backend });
  const result = await sandbox.exec({ argv: ['cat', server.program, ...server.secrets] });
  expect([textOf(result), result.exitCode]).toEqual(['seen', 1]);
  expect(textOf(await sandbox.exec({ argv: bash('ls -A /usr/src /usr/etc /usr/local/src 2>&1') }))).not.toMatch(
    /^\w+$/m,
  );
  const hidden = server.hidden[1]!;
  expect((await sandbox.exec({ argv: ['touch', `${hidden}/x`] })).exitCode).toBe(1);
  expect((await sandbox.exec({ argv: ['touch', '/usr/src/x'] })).exitCode).toBe(1);
});

test('SBX-07: what cannot be covered is a reason to refuse', async () => {
  await expect(createBackend({}, { hidden: ['/usr/share'] })).rejects.toMatchObject({
    code: 'sandbox.unavailable',
    message: expect.stringContaining('A command sees /usr/share.'),
  });
});

test('a start removes what old starts left, and not what others have in use', async () => {
  const [old, recent] = [
    await mkdtemp(join(tmpdir(), 'homard-probe-')),
    await mkdtemp(join(tmpdir(), 'homard-probe-')),
  ];
  await mkdir(join(old, 'slot/box'), { recursive: true });
  const before = new Date(Date.now() - 3_700_000);
  await utimes(old, before, before);
  await using _ = await createBackend();
  expect([existsSync(old), existsSync(recent)]).toEqual([false, true]);
  await rm(recent, { recursive: true });
});

test('a server whose new files are its own alone has sandboxes', async () => {
  const umask = process.umask(0o077);
  try {
    await using backend = await createBackend();
    expect(backend.kind).toBe('bwrap');
  } finally {
    process.umask(umask);
  }
});

test.runIf(mayHoldOomScore)(
  'SBX-10: a command stays the first to be ended when the host has no more memory',
  async () => {
    await using sandbox = await place.open();
    const script = 'echo 0 >/proc/self/oom_score_adj; echo 0 >/proc/$PPID/oom_score_adj; cat /proc/self/oom_score_adj';
    expect(textOf(await sandbox.exec({ argv: bash(script) }))).toBe('1000\n');
  },
);

test('SBX-10: a disk is not filled by one call', async () => {
  await using sandbox = await place.open();
  const script = 'import os; os.posix_fallocate(os.open("f", os.O_CREAT | os.O_RDWR), 0, 1_000_000)';
  expect((await sandbox.exec({ argv: bash('fallocate -l 1M f') })).exitCode).toBe(1);
  const slow = await sandbox.exec({ argv: bash('python3 -c "$1" && stat -c %s f', script) });
  expect(textOf(slow)).toBe('1000000\n');
});

test('threads, child processes, pipes, shared memory and node work', async () => {
  await using sandbox = await place.open();
  const python = `
import multiprocessing, subprocess, threading, socket
thread = threading.Thread(target=lambda: print(subprocess.run(['echo', 'child'], capture_output=True).stdout))
thread.start(); thread.join()
with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))
server = socket.create_server(('localhost', 0)); socket.create_connection(server.getsockname()); print('local')
`;
  expect(textOf(await sandbox.exec({ argv: ['python3', '-c', python] }))).toBe("b'child\\n'\n[1, 2]\nlocal\n");
  expect(textOf(await sandbox.exec({ argv: bash('whoami; echo a | tr a b') }))).toBe('sandbox\nb\n');
  if (!place.backend.advice.includes('no node')) {
    const node = await sandbox.exec({
      argv: ['node', '-e', 'console.log(require("child_process").execSync("echo node") + "")'],
    });
    expect(textOf(node)).toBe('node\n\n');
  }
});

test('the workspace may come after the sandbox, and its files are those of the host', async () => {
  await using sandbox = await place.open({ isEmpty: true });
  const conversation = join(place.root, 'conversation');
  await place.makeFolder(conversation);
  await writeFile(join(conversation, 'kept.txt'), 'kept');
  await rename(conversation, join(sandbox.slot.directory, 'ws'));
  expect(textOf(await sandbox.exec({ argv: bash('cat kept.txt; echo made >made.txt') }))).toBe('kept');
  expect(await readFile(join(sandbox.slot.directory, 'ws/made.txt'), 'utf8')).toBe('made\n');
});

test('a slot may be below a folder that commands cannot enter', async () => {
  const parent = join(place.root, 'closed');
  await mkdir(parent, { mode: 0o700 });
  await using sandbox = await place.open({ parent });
  expect(textOf(await sandbox.exec({ argv: bash('echo here >f; cat f; echo there >/tmp/g; cat /tmp/g') }))).toBe(
    'here\nthere\n',
  );
});

test('sandboxes do not see each other', async () => {
  await using one = await place.open();
  await using other = await place.open();
  const running = one.exec({ argv: bash('echo secret >/tmp/f; exec -a neighbour sleep 1') });
  await sleep(300);
  const seen = await other.exec({ argv: bash('ls /slot /tmp /workspace; cat /proc/*/cmdline | tr "\\0" " "') });
  expect(textOf(seen)).not.toContain('neighbour');
  expect(textOf(seen).split('\n').slice(0, 3)).toEqual(['/slot:', 'tmp', 'ws']);
  expect((await running).reason).toBe('exit');
});
