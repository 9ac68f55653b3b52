// The server as people start it: `homard start` in a process of its own, on a data directory that is gone afterwards.
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { copyTemplate } from '../../src/testing/store.ts';
import { freePort } from '../crash/harness.ts';
import { NOBODY, schemaTemplate } from '../server/harness.ts';
import type { Site } from './browser.ts';

export interface CliServer extends Site, AsyncDisposable {
  cookie: string;
  /** A fresh sign-in link of the running server. */
  link: string;
  /** kill -9 */
  kill(): Promise<void>;
  /** At the same address again. */
  start(): Promise<void>;
  /** JSON over HTTP, as the owner. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, never>>;
}

export async function startCliServer(environment: Record<string, string> = {}): Promise<CliServer> {
  const folder = await mkdtemp(join(tmpdir(), 'homard-browser-'));
  await copyTemplate(join(folder, 'data', 'db'), schemaTemplate);
  const port = await freePort();
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const arguments_ = ['--liftoff-only', resolve('src/cli.ts'), 'start'];
    child = spawn(process.execPath, arguments_, {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        HOMARD_DATA: join(folder, 'data'),
        HOMARD_PORT: String(port),
        HOMARD_TOKEN: 't',
        OLLAMA_HOST: NOBODY,
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    const started = new Promise<string>((done, fail) => {
      for (const stream of [child!.stdout!, child!.stderr!]) {
        stream.on('data', (chunk) => {
          output += String(chunk);
          const found = /(http\S+sign-in\?code=\S+)/.exec(output)?.[1];
          if (found) done(found);
        });
      }
      child!.once('exit', (code) => fail(new Error(`homard start ended with ${code}: ${output}`)));
    });
    server.link = await started;
  }

  async function kill(): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  const server: CliServer = {
    address: `http://127.0.0.1:${port}`,
    cookie: '',
    link: '',
    start,
    kill,
    async call(method, path, body) {
      const response = await fetch(server.address + path, {
        method,
        headers: { authorization: 'Bearer t', accept: 'application/json', 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return (text ? JSON.parse(text) : {}) as Record<string, never>;
    },
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
  await start();
  const signedIn = await fetch(server.link, { redirect: 'manual' });
  server.cookie = /^[^;]+/.exec(signedIn.headers.get('set-cookie') ?? '')![0];
  return server;
}
