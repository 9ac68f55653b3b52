import { existsSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUnshareBackend } from '../../src/sandbox/unshare.ts';
import {
  bash,
  createBackend,
  createPlace,
  errorOf,
  installServer,
  mayHoldOomScore,
  type Place,
  textOf,
  user,
} from './bwrap-place.ts';

let place: Place;
beforeAll(async () => {
  place = await createPlace(createUnshareBackend);
});
afterAll(async () => await place[Symbol.asyncDispose]());

const create = createUnshareBackend;
const hasPerl = existsSync('/usr/bin/perl');

test('SBX-24: says what it is, and whether it has a filter', () => {
  expect(place.backend.description).toMatch(/^unshare \(util-linux \d+\.\d+/);
  expect(place.backend.description.includes('without a filter')).toBe(!hasPerl);
});

test.runIf(hasPerl)('SBX-24: no privileges, no new namespaces, and a filter of system calls', async () => {
  await using sandbox = await place.open();
  const status = textOf(await sandbox.exec({ argv: ['cat', '/proc/self/status'] }));
  expect(status).toMatch(/^CapEff:\t0+$/m);
  expect(status).toMatch(/^CapBnd:\t0+$/m);
  expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  expect(status).toMatch(/^Seccomp:\t2$/m);
  for (const attempt of ['unshare -Ur true', 'unshare -m true', 'mount -t tmpfs x /workspace', 'touch /usr/x']) {
    expect([attempt, (await sandbox.exec({ argv: bash(`${attempt} 2>/dev/null`) })).exitCode]).not.toEqual([
      attempt,
      0,
    ]);
  }
});

/** Numbers of x86-64. */
test.runIf(hasPerl && process.arch === 'x64')(
  'SBX-24: parts of the kernel that no command needs are closed',
  async () => {
    await using sandbox = await place.open();
    const script = `
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
for number in [425, 323, 250, 321, 29, 64, 68, 206, 285]:
    libc.syscall(number, 0, 0, 0, 0, 0)
    print(ctypes.get_errno())
try:
    socket.socket(socket.AF_VSOCK)
except OSError as error:
    print(error.errno)
`;
    const result = await sandbox.exec({ argv: ['python3', '-c', script] });
    expect(textOf(result).split('\n').map(Number)).toEqual([1, 1, 1, 1, 38, 38, 38, 38, 95, 97, 0]);
  },
);

/** Those of the server are shown to no other user; one's own is, as are those of sandboxes that others have just now. */
test.runIf(hasPerl && existsSync('/proc/keys'))('SBX-07: a command has another keyring than the server', async () => {
  await using sandbox = await place.open();
  const keys = textOf(await sandbox.exec({ argv: ['cat', '/proc/keys'] }));
  expect(keys).toMatch(/^(.* 1000 +1000 keyring +_ses: empty\n)+$/);
});

test.runIf(user)('SBX-07: a server below /usr does not show its files', async () => {
  await using server = await installServer();
  await using backend = await createBackend({}, { create, hidden: server.hidden });
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
  await expect(createBackend({}, { create, hidden: ['/usr/share'] })).rejects.toMatchObject({
    code: 'sandbox.unavailable',
    message: expect.stringContaining('A command sees /usr/share.'),
  });
});

test('SBX-10: files in shared memory have limits of number and size', async () => {
  await using sandbox = await place.open();
  const sizes = textOf(await sandbox.exec({ argv: ['stat', '-f', '-c', '%b %S %c', '/dev/shm'] }));
  const [blocks = 0, bytes = 0, files] = sizes.split(' ').map(Number);
  expect([blocks * bytes, files]).toEqual([67_108_864, 16_384]);
});

test.runIf(mayHoldOomScore)(
  'SBX-10: a command stays the first to be ended when the host has no more memory',
  async () => {
    await using sandbox = await place.open();
    const script = 'echo 0 >/proc/self/oom_score_adj; echo 0 >/proc/$PPID/oom_score_adj; cat /proc/self/oom_score_adj';
    expect(textOf(await sandbox.exec({ argv: bash(script) }))).toBe('1000\n');
  },
);

test('python, node and git work', async () => {
  await using sandbox = await place.open();
  const python = `
import multiprocessing, subprocess, threading
thread = threading.Thread(target=lambda: print(subprocess.run(['echo', 'child'], capture_output=True).stdout))
thread.start(); thread.join()
with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))
`;
  expect(textOf(await sandbox.exec({ argv: ['python3', '-c', python] }))).toBe("b'child\\n'\n[1, 2]\n");
  const { advice } = place.backend;
  const missing = /no ([^)]*)\)/.exec(advice)?.[1] ?? '';
  if (!missing.includes('node')) {
    const node = 'console.log(require("child_process").execSync("echo node") + "")';
    expect(textOf(await sandbox.exec({ argv: ['node', '-e', node] }))).toBe('node\n\n');
  }
  if (!missing.includes('git')) {
    const script =
      'git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --format=%s';
    const result = await sandbox.exec({ argv: bash(script) });
    expect([textOf(result), errorOf(result)]).toEqual(['x\n', expect.not.stringContaining('fatal')]);
  }
});
