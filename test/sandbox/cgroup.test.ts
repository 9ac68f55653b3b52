// Where the server may make memory cgroups, the kernel holds the memory of sandboxes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findCgroups } from '../../src/sandbox/namespaces/cgroup.ts';
import { stdoutOf, createSandboxUnderTest, type SandboxUnderTest } from '../../src/testing/sandbox-bench.ts';
import { kinds, loadBackend, peakOf } from './attack.ts';

const child = fileURLToPath(new URL('attack-child.ts', import.meta.url));
const cgroups = await findCgroups();
const bash = (script: string) => ['bash', '-c', script] as const;
/** One process takes so many megabytes; a shell around it ends well. */
const take = (megabytes: number) => `head -c ${megabytes}000000 /dev/zero | tail -n 1 | wc -c`;

/** The folder of the cgroups of all servers here, and the names of those of one. */
let parent: string;
const namesOf = (pid: number | undefined) => readdirSync(parent).filter((name) => name.includes(`-${pid}-`));

describe.runIf(cgroups).each(kinds)('%s', (kind) => {
  let subject: SandboxUnderTest;
  beforeAll(async () => {
    const cgroup = cgroups!.create(50_000_000);
    parent = dirname(dirname(cgroup.entrance));
    await cgroup.remove();
    subject = await createSandboxUnderTest(await loadBackend[kind](), {
      limits: {
        memoryBytes: 256 << 20,
        diskBytes: 600 << 20,
        fileBytes: 400 << 20,
        processes: 64,
        cpuSeconds: 60,
        outputBytes: 16 << 20,
      },
    });
  });
  afterAll(async () => {
    await subject[Symbol.asyncDispose]();
    expect(namesOf(process.pid)).toEqual([]);
  });

  test('SBX-10: ten processes that take memory at once get no more than the limit; another sandbox goes on', async () => {
    expect(subject.backend.description).toContain('memory held by cgroup');
    const [bombed, other] = [await subject.open(), await subject.open()];
    const calm = other.execution.exec({ argv: bash(`${take(100)}; sleep 1; echo here`) });
    const mark = crypto.randomUUID();
    const hogs = 'for i in {1..10}; do (head -c 120000000 /dev/zero; sleep 8) | tail -n 1 | wc -c & done; wait';
    const { result, peak } = await peakOf(mark, () =>
      bombed.execution.exec({ argv: bash(hogs), env: { MARK: mark }, timeoutMs: 20_000 }),
    );
    expect([result.reason, result.exitCode]).toEqual(['memory_limit', null]);
    console.log(`${kind}: at most ${peak.bytes} bytes in ${peak.processes} processes, ended after ${result.ms} ms`);
    expect(peak.bytes).toBeLessThan(subject.limits.memoryBytes * 1.3);
    const calmly = await calm;
    expect([calmly.reason, stdoutOf(calmly)]).toEqual(['exit', '100000000\nhere\n']);
    expect(stdoutOf(await bombed.execution.exec({ argv: bash('echo on') }))).toBe('on\n');
    await Promise.all([bombed.close(), other.close()]);
  });

  test('SBX-10: a command that lost a process is not taken for one that ended well', async () => {
    const { execution, close } = await subject.open();
    const lossy = await execution.exec({ argv: bash(`${take(500)}; echo on`) });
    expect([lossy.reason, lossy.exitCode]).toEqual(['memory_limit', null]);
    const next = await execution.exec({ argv: bash(take(150)) });
    expect([next.reason, stdoutOf(next)]).toEqual(['exit', '150000000\n']);
    const killed = await execution.exec({ argv: bash('kill -9 $$') });
    expect([killed.reason, killed.exitCode]).toEqual(['exit', 137]);
    await close();
  });

  test('the limit is one of all commands of a sandbox together', async () => {
    const { execution, close } = await subject.open();
    const hold = `(head -c 200000000 /dev/zero; sleep 3) | tail -n 1 | wc -c`;
    const both = await Promise.all([execution.exec({ argv: bash(hold) }), execution.exec({ argv: bash(hold) })]);
    expect(both.map(({ reason }) => reason)).toEqual(['memory_limit', 'memory_limit']);
    await close();
  });

  test('what the system keeps of files that are written and read does not count', async () => {
    const { execution, close } = await subject.open();
    const script = 'head -c 300000000 /dev/zero >large && cat large large | wc -c && stat -c %s large';
    const result = await execution.exec({ argv: bash(script), timeoutMs: 25_000 });
    expect([result.reason, stdoutOf(result)]).toEqual(['exit', '600000000\n300000000\n']);
    await close();
  });

  test('SBX-14: a cgroup for each sandbox, with its processes in it; none is left', async () => {
    const opened = await Promise.all(Array.from({ length: 3 }, () => subject.open()));
    await Promise.all(opened.map(({ execution }) => execution.exec({ argv: bash('true') })));
    const names = namesOf(process.pid);
    expect(names).toHaveLength(3);
    await sleep(200);
    for (const name of names) {
      // What waits for the next command: the one that made the sandbox, and two or more in it.
      const pids = readFileSync(join(parent, name, 'cgroup.procs'), 'utf8')
        .trim()
        .split('\n');
      expect(pids.length).toBeGreaterThan(2);
    }
    await Promise.all(opened.map(({ close }) => close()));
    expect(namesOf(process.pid)).toEqual([]);
    for (let i = 0; i < 30; i++) {
      const { execution, close } = await subject.open();
      const running = execution.exec({ argv: bash('sleep 60 & sleep 60') });
      await close();
      expect((await running).reason).toBe('closed');
    }
    await expect(
      subject.backend.open(
        { id: 'none', directory: '/no/such', user: { uid: 64_000, gid: 64_000 } },
        AbortSignal.abort(),
      ),
    ).rejects.toMatchObject({ code: 'sandbox.failed' });
    expect(namesOf(process.pid)).toEqual([]);
  });

  test('SBX-13: what a killed server left is removed by the next, and nothing of a server that lives', async () => {
    const mine = await subject.open();
    const server = spawn(process.execPath, [child, kind, 'hang', crypto.randomUUID()], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { PATH: process.env['PATH'] },
    });
    for await (const chunk of server.stdout) if (/^up$/m.test(String(chunk))) break;
    expect(namesOf(server.pid)).toHaveLength(1);
    server.kill('SIGKILL');
    await once(server, 'exit');
    expect(namesOf(server.pid)).toHaveLength(1);
    await findCgroups();
    expect(namesOf(server.pid)).toEqual([]);
    expect(namesOf(process.pid)).toHaveLength(1);
    expect(stdoutOf(await mine.execution.exec({ argv: bash('echo on') }))).toBe('on\n');
    await mine.close();
  });
});

test.runIf(process.getuid?.() === 0)('a server that is not root makes none', async () => {
  const script = `import(${JSON.stringify(new URL('../../src/sandbox/namespaces/cgroup.ts', import.meta.url))}).then(async (m) => console.log(await m.findCgroups()))`;
  const server = spawn(process.execPath, ['-e', script], { uid: 64_100, gid: 64_100, env: {}, stdio: 'pipe' });
  let output = '';
  server.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(server, 'close');
  expect(output).toBe('undefined\n');
});
