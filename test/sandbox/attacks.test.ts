// Attacks on the sandboxes that run programs of this host, as root and as an ordinary user.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import {
  createSandboxUnderTest,
  processesWith,
  runOnBench,
  type SandboxUnderTest,
} from '../../src/testing/sandbox-bench.ts';
import { kinds, loadBackend, waitUntilGone } from './attack.ts';
import { exhaustingAttacks } from './exhausting-attacks.ts';
import { reachingAttacks } from './reaching-attacks.ts';

const ORDINARY_USER = 64_100;
const isRoot = process.getuid?.() === 0;
const child = fileURLToPath(new URL('attack-child.ts', import.meta.url));

describe.runIf(process.env['HOMARD_SANDBOX']).each(kinds)('%s', (kind) => {
  let subject: SandboxUnderTest;
  let directory: string;

  beforeAll(async () => {
    subject = await createSandboxUnderTest(await loadBackend[kind]());
    directory = mkdtempSync(join(tmpdir(), 'homard-attacks-'));
    if (isRoot) chownSync(directory, ORDINARY_USER, ORDINARY_USER);
  });
  afterAll(async () => {
    await subject[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });

  test.each([...reachingAttacks, ...exhaustingAttacks])('$name', { timeout: 90_000 }, async (attack) => {
    await runOnBench(subject, async (bench) =>
      console.log(`attack ${attack.name} on ${kind}: ${await attack.run(bench)}`),
    );
  });

  /** A server of its own, as this user or an ordinary one; it inherits a file whose text is the mark. */
  function start(mode: 'main' | 'hang', options: { mark: string; uid?: number }) {
    const inherited = join(directory, 'inherited');
    writeFileSync(inherited, options.mark);
    const file = openSync(inherited, 'r');
    const stdio = ['ignore', 'pipe', 'pipe', ...Array<'ignore'>(17).fill('ignore'), file] as const;
    const user = options.uid === undefined ? {} : { uid: options.uid, gid: options.uid };
    const server = spawn(process.execPath, [child, kind, mode, options.mark], {
      stdio: [...stdio],
      env: { PATH: process.env['PATH'], TMPDIR: options.uid === undefined ? tmpdir() : directory },
      ...user,
    });
    closeSync(file);
    onTestFinished(() => void server.kill('SIGKILL'));
    return server;
  }

  const users = isRoot ? [undefined, ORDINARY_USER] : [undefined];
  test.each(users)('the main attacks on a server of the user %s', { timeout: 120_000 }, async (uid) => {
    const server = start('main', { mark: crypto.randomUUID(), ...(uid !== undefined && { uid }) });
    const kill = setTimeout(() => server.kill('SIGKILL'), 110_000);
    const [output, errors] = await Promise.all([text(server.stdout!), text(server.stderr!)]);
    clearTimeout(kill);
    console.log(output.replaceAll(/^attack/gm, `attack as uid ${uid ?? process.getuid?.()}`));
    expect(errors).toBe('');
    expect(output).toContain('all refused');
  });

  test.each(users)('SBX-13: kill -9 of a server of the user %s leaves no process', { timeout: 60_000 }, async (uid) => {
    const mark = crypto.randomUUID();
    const server = start('hang', { mark, ...(uid !== undefined && { uid }) });
    let output = '';
    await new Promise<void>((resolve, reject) => {
      server.stdout!.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        if (/^up$/m.test(output)) resolve();
      });
      server.once('exit', () => reject(new Error(output)));
      server.stderr!.on('data', (chunk: Buffer) => (output += chunk.toString()));
    });
    const before = processesWith(mark).length;
    // The shell and two that want to stay; at times one more.
    expect(before).toBeGreaterThan(2);
    server.kill('SIGKILL');
    await once(server, 'exit');
    const ms = await waitUntilGone(mark);
    console.log(
      `attack kill -9 of the server (uid ${uid ?? process.getuid?.()}) on ${kind}: contained: ${before} processes were gone after ${ms} ms`,
    );
    expect(ms).toBeLessThan(1_000);
  });
});
