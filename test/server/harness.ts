// A whole server over HTTP on a free port, on either back end, with two users and a scripted model.
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { createTokenIdentity } from '../../src/access/identity.ts';
import type { Homard, HomardInput } from '../../src/app.ts';
import { createHomard } from '../../src/app.ts';
import { allowAll } from '../../src/kernel/index.ts';
import type { Database } from '../../src/store/database.ts';
import { fingerprintOf, migrate } from '../../src/store/migrations/index.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import { framesOf } from '../crash/client.ts';

export interface Frame {
  event: string;
  id: string | undefined;
  data: Record<string, unknown>;
}

export interface TestServer extends AsyncDisposable {
  address: string;
  /** The data directory. */
  folder: string;
  homard: Homard;
  /** JSON request as a user ('ann' or 'bob'); null for nobody. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>;
  /** Sends a message and leaves as soon as it was taken. */
  send(conversationId: string, query: string): Promise<void>;
  /** All events of a stream until it ends, breaks, or `until` says so. */
  stream(path: string, options?: CallOptions & { until?: (frame: Frame) => boolean }): Promise<Frame[]>;
  /** Closes the server as SIGTERM does, and starts a new one on the same store. */
  restart(input?: HomardInput): Promise<void>;
  /** The two halves of a restart. */
  stop(): Promise<void>;
  start(input: HomardInput): Promise<void>;
  /** Of its own database on PostgreSQL. */
  databaseUrl: string | undefined;
}

export interface CallOptions {
  user?: 'ann' | 'bob' | null;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Reply {
  status: number;
  headers: Headers;
  // Tests look into answers freely.
  body: Record<string, never> & { error?: { code: string; message: string; hint: string } };
}

/** Where no Ollama is: a server that finds a real one would ask it. */
export const NOBODY = '127.0.0.1:1';

export type Backend = 'embedded' | 'postgres';

const { HOMARD_TEST_POSTGRES, HOMARD_ONLY_POSTGRES } = process.env;

/** PostgreSQL where HOMARD_TEST_POSTGRES names one; it alone where HOMARD_ONLY_POSTGRES says so. */
export const backends: Backend[] = [
  ...(HOMARD_ONLY_POSTGRES ? [] : (['embedded'] as const)),
  ...(HOMARD_TEST_POSTGRES ? (['postgres'] as const) : []),
];

/** Made once a machine for the schema of this very code. */
export const schemaTemplate = {
  key: await fingerprintOf(),
  prepare: (database: Database) => migrate(database.kysely),
};

const identity = createTokenIdentity({
  'ann-token': { tenant: 'default', owner: 'ann' },
  'bob-token': { tenant: 'default', owner: 'bob' },
});

export async function createTestServer(backend: Backend, input: HomardInput = {}): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'homard-test-'));
  const postgres = backend === 'postgres' ? await createTemporaryPostgres() : undefined;
  if (!postgres) await copyTemplate(join(folder, 'db'), schemaTemplate);
  let homard: Homard;
  let server: Server;
  let address = '';

  async function start(more: HomardInput): Promise<void> {
    const { config, environment, ...rest } = { ...input, ...more };
    homard = await createHomard({
      identity,
      policy: allowAll,
      ...rest,
      environment: { OLLAMA_HOST: NOBODY, ...environment },
      config: { sandbox: { kind: 'off' }, ...config, data: folder },
      ...(postgres && { database: postgres.url }),
    });
    server = createAdaptorServer({ fetch: homard.fetch }) as Server;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    address = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  }

  async function stop(): Promise<void> {
    server.close();
    await homard.close();
    server.closeAllConnections();
  }

  function request(
    method: string,
    path: string,
    { user = 'ann', body, headers, signal }: CallOptions,
  ): Promise<Response> {
    return fetch(address + path, {
      method,
      headers: {
        ...(user && { authorization: `Bearer ${user}-token` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  }

  await start({});
  return {
    folder,
    get address() {
      return address;
    },
    get homard() {
      return homard;
    },
    async call(method, path, options = {}) {
      const response = await request(method, path, options);
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.includes('json');
      return {
        status: response.status,
        headers: response.headers,
        body: (isJson ? JSON.parse(text) : { text }) as Reply['body'],
      };
    },
    async send(conversationId, query) {
      const leave = new AbortController();
      const response = await request('POST', '/chat/stream', { body: { conversationId, query }, signal: leave.signal });
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      leave.abort();
    },
    async stream(path, { until, ...options } = {}) {
      const response = await request(options.body === undefined ? 'GET' : 'POST', path, options);
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      const frames: Frame[] = [];
      try {
        for await (const frame of framesOf(response.body!)) {
          frames.push(frame);
          if (until?.(frame)) break;
        }
      } catch (error) {
        if (!(error instanceof TypeError)) throw error; // undici's word for a connection that was cut
      }
      return frames;
    },
    stop,
    start,
    databaseUrl: postgres?.url,
    async restart(more = {}) {
      await stop();
      await start(more);
    },
    async [Symbol.asyncDispose]() {
      await stop();
      await postgres?.[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The text that a client has on its screen. */
export function textOf(frames: readonly Frame[], event = 'token'): string {
  let text = '';
  let step = '';
  for (const frame of frames) {
    if (frame.event === event) step += String(frame.data.text);
    else if (frame.event === 'step_restart') step = '';
    else if (frame.event === 'usage') {
      text += step;
      step = '';
    }
  }
  return text + step;
}

export const namesOf = (frames: readonly Frame[]): string[] =>
  frames.map((frame) => frame.event).filter((name, i, all) => name !== all[i - 1]);
