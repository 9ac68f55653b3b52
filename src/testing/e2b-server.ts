// An in-process stand-in for E2B: its control plane, and the service in its machines, as far as the SDK uses them. Commands
// really run, as child processes of the test; a test can tell it to misbehave.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import * as z from 'zod';
import type { Answer, Envd } from './e2b-envd.ts';
import { createEnvd, send } from './e2b-envd.ts';
import type { TestMachine } from './e2b-machine.ts';
import { createTestMachine } from './e2b-machine.ts';

export interface E2bRequest {
  method: string;
  /** Without the query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** Of the machine that it is for, where it is for one. */
  machine: string | undefined;
  body: Buffer;
}

/**
 * Refuses with a status, never answers, closes the connection, or does what it is asked and never answers. A status 200
 * is no misbehaviour.
 */
export type E2bFault = { status: number } | 'hang' | 'drop' | 'mute';

export interface E2bMachine {
  id: string;
  metadata: Record<string, string>;
  /** Milliseconds since 1970; then it ends by itself. */
  endsAt: number;
  hasInternet: boolean;
  /** Where its files are on this host, as /workspace. */
  toHost(path: string): string;
}

export interface E2bServer extends AsyncDisposable {
  /** Of the control plane and of the machines alike. */
  readonly url: string;
  readonly apiKey: string;
  /** All requests so far, in order. */
  readonly requests: readonly E2bRequest[];
  /** Those that are there. */
  readonly machines: ReadonlyMap<string, E2bMachine>;
  /** Commands have mounts and process ids of their own. Known when the first machine was made. */
  readonly isIsolated: boolean;
  /** Asked about each request from now on. */
  misbehave(fault: (request: E2bRequest) => E2bFault | undefined): void;
  /** Closes the connections on which commands are watched; the commands go on. */
  cut(): void;
  /** A machine goes away, with all that runs in it. */
  lose(id: string): Promise<void>;
  /** Somebody else's machine. */
  add(metadata: Record<string, string>): Promise<E2bMachine>;
}

interface Live extends E2bMachine {
  machine: TestMachine;
  token: string;
  timer: NodeJS.Timeout;
  envd: Envd;
}

const creation = z.looseObject({
  templateID: z.string(),
  timeout: z.int().min(1).default(300),
  metadata: z.record(z.string(), z.string()).default({}),
  allow_internet_access: z.boolean().default(true),
});
const duration = z.looseObject({ timeout: z.int().min(0).default(300) });
const API_KEY = 'e2b_0000000000000000000000000000000000000000';

/** Listens on 127.0.0.1, on a free port. */
export async function createE2bServer(): Promise<E2bServer> {
  const requests: E2bRequest[] = [];
  const machines = new Map<string, Live>();
  let fault: (request: E2bRequest) => E2bFault | undefined = () => undefined;
  let isIsolated = false;

  async function lose(id: string): Promise<void> {
    const found = machines.get(id);
    machines.delete(id);
    clearTimeout(found?.timer);
    found?.envd.cut();
    await found?.machine.end();
  }

  function setLife(live: Live, seconds: number): void {
    clearTimeout(live.timer);
    live.endsAt = Date.now() + seconds * 1000;
    live.timer = setTimeout(() => void lose(live.id), seconds * 1000).unref();
  }

  async function create(given: z.output<typeof creation>): Promise<Live> {
    const hasInternet = given.allow_internet_access;
    const machine = await createTestMachine({ hasNetwork: hasInternet });
    ({ isIsolated } = machine);
    const live: Live = {
      id: `i${crypto.randomUUID().replaceAll('-', '').slice(0, 19)}`,
      metadata: given.metadata,
      endsAt: 0,
      hasInternet,
      toHost: machine.toHost,
      machine,
      token: crypto.randomUUID(),
      timer: setTimeout(() => undefined, 0),
      envd: createEnvd(machine),
    };
    machines.set(live.id, live);
    setLife(live, given.timeout);
    return live;
  }

  /** The control plane. */
  async function control(request: E2bRequest, query: URLSearchParams): Promise<Answer> {
    const { method } = request;
    if (request.headers['x-api-key'] !== API_KEY) return refuse(401, 'Invalid API key');
    const path = request.path.replace(/^\/v2/, '');
    if (path === '/sandboxes' && method === 'POST') {
      return { status: 201, json: describe(await create(creation.parse(toJson(request.body)))) };
    }
    if (path === '/sandboxes' && method === 'GET') {
      const wanted = [...new URLSearchParams(query.get('metadata') ?? '')];
      const found = [...machines.values()].filter(({ metadata }) =>
        wanted.every(([key, value]) => metadata[decodeURIComponent(key)] === decodeURIComponent(value)),
      );
      return { status: 200, json: found.slice(0, Number(query.get('limit') ?? 100)).map(describe) };
    }
    const [, id = '', verb = ''] = /^\/sandboxes\/([^/]+)(?:\/(\w+))?$/.exec(path) ?? [];
    const live = machines.get(id);
    if (!live) return refuse(404, `Sandbox "${id}" was not found`);
    if (!verb && method === 'GET') return { status: 200, json: describe(live) };
    if (!verb && method === 'DELETE') {
      await lose(id);
      return { status: 204 };
    }
    if (method !== 'POST' || !['connect', 'timeout'].includes(verb))
      return refuse(404, `There is no ${method} ${path}`);
    const { timeout } = duration.parse(toJson(request.body));
    // A connection only makes a life longer.
    if (verb === 'timeout' || Date.now() + timeout * 1000 > live.endsAt) setLife(live, timeout);
    return verb === 'timeout' ? { status: 204 } : { status: 200, json: describe(live) };
  }

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', 'http://127.0.0.1');
    const { method = '', headers } = incoming;
    const machine = headers['e2b-sandbox-id']?.toString();
    const body = await buffer(incoming);
    const request: E2bRequest = { method, path: url.pathname, headers, machine, body };
    requests.push(request);
    const wrong = fault(request);
    if (wrong === 'hang') return;
    if (wrong === 'drop') return void response.destroy();
    if (typeof wrong === 'object') return send(response, refuse(wrong.status, 'The test wants it so'));
    if (machine === undefined) {
      const answer = await control(request, url.searchParams);
      return wrong === 'mute' ? undefined : send(response, answer);
    }
    const live = machines.get(machine);
    if (!live) return send(response, refuse(502, 'The sandbox was not found'));
    if (headers['x-access-token'] !== live.token) return send(response, refuse(401, 'Invalid access token'));
    await live.envd.handle({ request, url, response });
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => {
      if (!response.headersSent) send(response, refuse(400, String(error)));
      else response.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`,
    apiKey: API_KEY,
    requests,
    machines,
    get isIsolated() {
      return isIsolated;
    },
    misbehave(next) {
      fault = next;
    },
    cut() {
      for (const { envd } of machines.values()) envd.cut();
    },
    lose,
    add: (metadata) => create(creation.parse({ templateID: 'base', metadata })),
    async [Symbol.asyncDispose]() {
      await Promise.all([...machines.keys()].map(lose));
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const refuse = (code: number, message: string): Answer => ({ status: code, json: { code, message } });
const toJson = (body: Buffer): unknown => JSON.parse(body.toString() || '{}');

function describe({ id, metadata, endsAt, token }: Live) {
  return {
    sandboxID: id,
    templateID: 'base',
    clientID: 'stand-in',
    alias: 'base',
    envdVersion: '0.6.4',
    envdAccessToken: token,
    domain: null,
    metadata,
    state: 'running',
    cpuCount: 2,
    memoryMB: 512,
    startedAt: new Date(0).toISOString(),
    endAt: new Date(endsAt).toISOString(),
  };
}
