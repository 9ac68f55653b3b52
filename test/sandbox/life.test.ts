// Whole servers with real sandboxes: killed, stopped and asked a thousand times, they leave nothing.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

interface Running {
  process: ChildProcess;
  run(command: string, conversation?: string): Promise<{ result: string; isError: boolean }>;
  get(path: string): Promise<Response>;
}

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'homard-life-'));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

async function start(data: string, sandbox: object): Promise<Running> {
  const path = join(import.meta.dirname, 'server.ts');
  const child = spawn(process.execPath, [path], {
    env: { ...process.env, HOMARD_DATA: data, SANDBOX: JSON.stringify(sandbox) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const address = `http://127.0.0.1:${String(line).trim()}`;
  const headers = { authorization: 'Bearer t', 'content-type': 'application/json' };
  return {
    process: child,
    get: (path) => fetch(address + path, { headers }),
    async run(command, conversation = 'web') {
      const body = JSON.stringify({ conversationId: conversation, query: command });
      const response = await fetch(`${address}/chat`, { method: 'POST', headers, body });
      const { toolCalls } = (await response.json()) as { toolCalls: { result: string; isError: boolean }[] };
      return toolCalls[0]!;
    },
  };
}

async function stop({ process }: Running, signal: NodeJS.Signals): Promise<void> {
  process.kill(signal);
  if (process.exitCode === null && process.signalCode === null) await once(process, 'exit');
}

/** Processes whose command line has this mark in it. */
function marked(mark: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(mark) ? [Number(name)] : [];
    } catch {
      return []; // gone meanwhile
    }
  });
}

async function until(what: () => boolean, ms = 5000): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (what()) return true;
  }
  return what();
}

const slotsOf = (data: string) => readdirSync(join(data, 'sandbox', 'slots'));
/** Descriptors that are kept for the next commands; a leak of one a run would be a thousand. */
const MOST_IN_STOCK = 60;

/** Of this machine, but for those of containers: other suites start and end some meanwhile. */
const mounts = () =>
  readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .filter((line) => !/docker|containerd|overlay/.test(line)).length;

for (const [kind, count] of [
  ['bwrap', 1000],
  ['unshare', 200],
] as const) {
  test(
    `SBX-13 ${kind}: after kill -9 nothing of a command is alive, and the next start has the files`,
    { timeout: 120_000 },
    async () => {
      const data = folder();
      const mark = `7${Date.now() % 1_000_000}`;
      const server = await start(data, { kind });
      await server.run('echo before > a.txt');
      void server.run(`echo during >> a.txt; (setsid sleep ${mark} &); sleep ${mark}`).catch(() => undefined);
      expect(await until(() => marked(`sleep\0${mark}`).length >= 2)).toBe(true);
      await stop(server, 'SIGKILL');
      expect(await until(() => marked(`sleep\0${mark}`).length === 0, 2000)).toBe(true);
      expect(slotsOf(data).length).toBeGreaterThan(0);
      const again = await start(data, { kind });
      const file = await again.get('/conversations/web/files/content?path=a.txt');
      expect(await file.text()).toBe('before\nduring\n');
      expect((await again.run('cat a.txt', 'web')).result).toBe('before\nduring');
      await stop(again, 'SIGTERM');
      expect(slotsOf(data)).toEqual([]);
    },
  );

  test(
    `SBX-12 ${kind}: ${count} runs of a server leave no process, no mount, no folder and no descriptor`,
    { timeout: 300_000 },
    async () => {
      const data = folder();
      const server = await start(data, { kind, warm: 2 });
      const mark = data.slice(-6);
      await Promise.all(Array.from({ length: 20 }, (_, i) => server.run('true', `c${i}`)));
      const before = { mounts: mounts(), files: readdirSync(`/proc/${server.process.pid}/fd`).length };
      const began = performance.now();
      let next = 0;
      const work = async () => {
        while (next < count) {
          const n = next++;
          const { result } = await server.run(`echo ${mark}-${n}`, `c${n % 50}`);
          expect(result).toBe(`${mark}-${n}`);
        }
      };
      await Promise.all([work(), work(), work(), work()]);
      const ms = (performance.now() - began) / count;
      await until(() => slotsOf(data).length <= 2);
      const children = () => readdirSync('/proc').filter((name) => isChildOf(name, server.process.pid!)).length;
      await until(() => children() <= 2);
      console.log(
        `${kind}: ${count} runs, ${ms.toFixed(1)} ms each (4 at once); ${children()} processes wait for the next`,
      );
      expect(children()).toBeLessThanOrEqual(2);
      expect(mounts()).toBe(before.mounts);
      expect(readdirSync(`/proc/${server.process.pid}/fd`).length).toBeLessThanOrEqual(before.files + MOST_IN_STOCK);
      await stop(server, 'SIGTERM');
      expect(slotsOf(data)).toEqual([]);
      expect(readdirSync(join(data, 'sandbox', 'trash'))).toEqual([]);
      expect(readdirSync(join(data, 'sandbox', 'conversations'))).toHaveLength(50);
    },
  );
}

function isChildOf(name: string, parent: number): boolean {
  try {
    const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
  } catch {
    return false; // no process, or gone meanwhile
  }
}
