import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

export interface Effect {
  what: 'begin' | 'end';
  tool: 'read' | 'idempotent' | 'once';
  key: string;
  at: number;
  pid: number;
}

export interface ServerProcess extends AsyncDisposable {
  readonly address: string;
  readonly pid: number;
  /** Milliseconds that the last start took. */
  startMs: number;
  kill(): Promise<void>;
  start(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
}

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** A server process that can be killed and started again at the same address. */
export async function createServerProcess(environment: Record<string, string>): Promise<ServerProcess> {
  const port = await freePort();
  let child: ChildProcess | undefined;

  const process_: ServerProcess = {
    address: `http://127.0.0.1:${port}`,
    startMs: 0,
    get pid() {
      return child?.pid ?? 0;
    },
    async start() {
      const begun = performance.now();
      const script = fileURLToPath(new URL('server.ts', import.meta.url));
      child = spawn(process.execPath, [script], {
        env: { ...process.env, ...environment, HOMARD_PORT: String(port) },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit').then(([code]) => {
        throw new Error(`the server ended with ${String(code)} before it was ready`);
      });
      await Promise.race([once(child.stdout!, 'data'), exited]);
      exited.catch(() => undefined); // later exits are kills
      process_.startMs = performance.now() - begun;
    },
    async kill() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
    signal(signal) {
      child?.kill(signal);
    },
    [Symbol.asyncDispose]: () => process_.kill(),
  };
  await process_.start();
  return process_;
}

export function effectsOf(file: string): Effect[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Effect);
}
