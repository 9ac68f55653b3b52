// The HTTP interface of a server, as a terminal needs it: one message in, its events out, whatever happens on the way.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentEvent, Json } from '../kernel/index.ts';
import { AgentError, defineErrors, isTerminal } from '../kernel/index.ts';
import { framesOf } from './frames.ts';

export const terminalError = defineErrors('terminal', {
  unreachable: {
    status: 502,
    hint: 'Start it again with "homard start": what it was sent is kept, and the run goes on.',
    retryable: true,
  },
  not_ours: {
    status: 502,
    hint: 'Look at what listens on that address; the file server.json in the data directory names it.',
  },
});

export interface ClientConfig {
  /** Of a running server, or of one in this process. */
  fetch: (request: Request) => Response | Promise<Response>;
  address: string;
  /** Absent where the server knows who calls. */
  token?: string;
  /** Milliseconds that a server may be away in the middle of a run. */
  patienceMs?: number;
  onLost?: (isLost: boolean) => void;
}

export interface Message {
  conversation: string;
  query: string;
  model?: string;
}

export interface Decision {
  decision: 'allow' | 'deny';
  comment?: string;
  args?: Json;
}

export interface Client {
  /** Sends a message once and tells its events to the last one, also when the server restarts in between. */
  talk(message: Message, signal: AbortSignal): AsyncGenerator<AgentEvent>;
  cancel(run: string): Promise<void>;
  decide(approval: string, decision: Decision): Promise<void>;
  /** Any other call. Throws what the server refuses as the error that it names. */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
}

const PATIENCE_MS = 60_000;
const PAUSE_MS = 500;
const HEALTH_MS = 3000;

export function createClient({ fetch, address, token, patienceMs = PATIENCE_MS, onLost }: ClientConfig): Client {
  async function request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const { body, headers, signal } = options;
    const response = await fetch(
      new Request(`${address}${path}`, {
        method,
        headers: {
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      }),
    );
    if (!response.ok) throw await toRefusal(response);
    return response;
  }

  async function call(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await request(method, path, body === undefined ? {} : { body });
    const text = await response.text();
    return text ? JSON.parse(text) : undefined;
  }

  async function* talk({ conversation, query, model }: Message, signal: AbortSignal): AsyncGenerator<AgentEvent> {
    const body = { conversationId: conversation, query, ...(model !== undefined && { modelName: model }) };
    const key = crypto.randomUUID();
    let run: string | undefined;
    let last: string | undefined;
    let lostAt: number | undefined;
    for (let hasAnswered = false; ;) {
      try {
        const response =
          run === undefined
            ? await request('POST', '/chat/stream', { body, headers: { 'idempotency-key': key }, signal })
            : await request('GET', `/runs/${encodeURIComponent(run)}/events`, {
                headers: last === undefined ? {} : { 'last-event-id': last },
                signal,
              });
        hasAnswered = true;
        if (lostAt !== undefined) onLost?.(false);
        lostAt = undefined;
        for await (const { event, id, data } of framesOf(response.body)) {
          if (id !== undefined) last = id;
          const told = { ...data, type: event } as AgentEvent;
          if (told.type === 'run_start') run = told.run;
          yield told;
          if (isTerminal(told)) return;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof AgentError && error.status !== 503) throw error;
        if (!hasAnswered) throw error instanceof AgentError ? error : unreachable(error);
      }
      if (lostAt === undefined) onLost?.(true);
      lostAt ??= performance.now();
      if (performance.now() - lostAt > patienceMs) throw unreachable();
      await sleep(PAUSE_MS, undefined, { signal });
    }
  }

  const unreachable = (cause?: unknown) =>
    terminalError('unreachable', `The server at ${address} does not answer.`, cause === undefined ? {} : { cause });

  return {
    talk,
    call,
    async cancel(run) {
      await call('DELETE', `/runs/${encodeURIComponent(run)}`);
    },
    async decide(approval, decision) {
      await call('POST', `/approvals/${encodeURIComponent(approval)}`, decision);
    },
  };
}

/** A server of this program answers there; whether its database does, it says by itself. */
export async function isServer(address: string): Promise<boolean> {
  const asking = fetch(`${address}/health`, { signal: AbortSignal.timeout(HEALTH_MS) });
  return await asking
    .then((response) => response.text())
    .then(
      (text) => text.startsWith('{"status":'),
      () => false,
    );
}

interface RequestOptions {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function toRefusal(response: Response): Promise<AgentError> {
  const text = await response.text();
  const error = toErrorObject(text);
  if (!error) return terminalError('not_ours', `The server answered ${response.status} without saying why.`);
  const { code, message, hint } = error;
  return new AgentError(code, { status: response.status, hint }, message);
}

function toErrorObject(text: string): { code: string; message: string; hint: string } | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Record<string, unknown> };
    const { code, message, hint } = error ?? {};
    const isError = typeof code === 'string' && typeof message === 'string' && typeof hint === 'string';
    return isError ? { code, message, hint } : undefined;
  } catch {
    return undefined; // a page of a proxy
  }
}
