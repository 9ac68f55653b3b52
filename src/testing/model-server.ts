// An OpenAI-compatible server inside the test's process: it says what a script tells it to, also what no server should.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import type { Json } from '../kernel/messages.ts';

const wireCall = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});
const wireMessage = z.looseObject({
  role: z.enum(['system', 'user', 'assistant', 'tool']),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]).nullish(),
  tool_calls: z.array(wireCall).optional(),
  tool_call_id: z.string().optional(),
});
const wireRequest = z.looseObject({
  model: z.string(),
  stream: z.boolean().optional(),
  messages: z.array(wireMessage),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).optional(),
});

export type WireMessage = z.infer<typeof wireMessage>;
export type WireRequest = z.infer<typeof wireRequest>;

export interface ModelServerRequest {
  body: WireRequest;
  headers: IncomingHttpHeaders;
  path: string;
  /** Number of the connection, from 1: equal ones were kept alive. */
  connection: number;
  /** The client closed the connection before the answer was complete. */
  isAborted: boolean;
}

/**
 * One thing that the server does, in order. `text` and `reasoning` come in chunks of a word. An answer without
 * `finish`, `end`, `cut`, `hang` or `raw` gets its finish, usage and `[DONE]` by itself.
 */
export type ModelServerStep =
  | { text: string }
  | { reasoning: string; field?: 'reasoning_content' | 'reasoning' }
  | { call: string; args?: Json; id?: string; index?: number }
  | { usage: Record<string, Json> }
  | { finish: string }
  | { chunk: Record<string, unknown> }
  | { raw: string | Uint8Array }
  | { delayMs: number }
  /** Ends the body as it is. */
  | { end: true }
  /** Destroys the socket. */
  | { cut: true }
  /** Says nothing more and keeps the connection open. */
  | { hang: true };

/** Steps, or an answer that is no stream: a refusal by `status`, or one JSON text (an error in a 200). */
export type ModelServerReply = ModelServerStep[] | { status?: number; json: Json; headers?: Record<string, string> };

/** Replies in order, the last one again and again, or a function of the request. */
export type ModelServerScript = ModelServerReply[] | ((request: ModelServerRequest, n: number) => ModelServerReply);

export interface ModelServerConfig {
  /** Answers 400 to a history that a strict provider refuses. Default false. */
  isStrict?: boolean;
  /** Milliseconds between two chunks. Default 0. */
  paceMs?: number;
}

export interface ModelServer extends AsyncDisposable {
  /** Ends in `/v1`. */
  readonly url: string;
  /** All requests so far, in order. */
  readonly requests: readonly ModelServerRequest[];
}

/** Listens on 127.0.0.1, on a free port. Without a script the last user message decides: see `defaultReply`. */
export async function createModelServer(
  script: ModelServerScript = ({ body }) => defaultReply(body.messages),
  config: ModelServerConfig = {},
): Promise<ModelServer> {
  const requests: ModelServerRequest[] = [];
  let connections = 0;
  const numbers = new WeakMap<object, number>();

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = incoming.url ?? '';
    const parsed = wireRequest.safeParse(JSON.parse((await read(incoming)) || 'null'));
    if (incoming.method !== 'POST' || !/\/chat\/completions(\?|$)/.test(path)) {
      return json(response, 404, { error: { message: `There is no ${incoming.method} ${path}` } });
    }
    if (!parsed.success) return json(response, 400, { error: { message: z.prettifyError(parsed.error) } });
    const connection = numbers.get(incoming.socket) ?? 0;
    const request = { body: parsed.data, headers: incoming.headers, path, connection, isAborted: false };
    const n = requests.push(request) - 1;
    response.on('close', () => {
      request.isAborted = !response.writableFinished;
    });
    const problem = config.isStrict ? problemOf(request.body.messages) : undefined;
    if (problem) return json(response, 400, { error: { message: problem, type: 'invalid_request_error' } });
    const reply = typeof script === 'function' ? script(request, n) : (script[n] ?? script.at(-1) ?? []);
    if (!Array.isArray(reply)) return json(response, reply.status ?? 200, reply.json, reply.headers);
    await stream(response, reply, { model: request.body.model, paceMs: config.paceMs ?? 0 });
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  server.on('connection', (socket) => numbers.set(socket, ++connections));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(incoming: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of incoming.setEncoding('utf8')) text += String(piece);
  return text;
}

function json(response: ServerResponse, status: number, value: Json, headers: Record<string, string> = {}): void {
  const isText = typeof value === 'string';
  response.writeHead(status, { 'content-type': isText ? 'text/html' : 'application/json', ...headers });
  response.end(isText ? value : JSON.stringify(value));
}

async function stream(
  response: ServerResponse,
  steps: ModelServerStep[],
  { model, paceMs }: { model: string; paceMs: number },
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.flushHeaders();
  for (const step of withEnd(steps)) {
    if (response.destroyed) return;
    if ('delayMs' in step) await sleep(step.delayMs);
    else if ('hang' in step) return;
    else if ('raw' in step) response.write(step.raw);
    else if ('end' in step) response.end();
    else if ('cut' in step) {
      // Lets what was written reach the client first.
      await sleep(5);
      response.destroy();
    } else {
      for (const chunk of chunksOf(step)) {
        if (paceMs) await sleep(paceMs);
        response.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', model, ...chunk })}\n\n`);
      }
    }
  }
}

function withEnd(steps: ModelServerStep[]): ModelServerStep[] {
  const ends = ['finish', 'end', 'cut', 'hang', 'raw'];
  const hasEnd = steps.some((step) => ends.some((name) => name in step));
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const reason = steps.some((step) => 'call' in step) ? 'tool_calls' : 'stop';
  const hasUsage = steps.some((step) => 'usage' in step);
  const last: ModelServerStep[] = hasEnd ? [] : [{ finish: reason }, ...(hasUsage ? [] : [{ usage }])];
  const isOpen = steps.some((step) => 'raw' in step || 'hang' in step || 'cut' in step || 'end' in step);
  return [...numbered(steps), ...last, ...(isOpen ? [] : [{ raw: 'data: [DONE]\n\n' }, { end: true as const }])];
}

function numbered(steps: ModelServerStep[]): ModelServerStep[] {
  let calls = 0;
  return steps.map((step) => ('call' in step ? { index: calls, id: `call_${calls++}`, ...step } : step));
}

function chunksOf(step: ModelServerStep): Record<string, unknown>[] {
  const delta = (delta: Json, reason: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
  if ('text' in step) return words(step.text).map((content) => delta({ content }));
  if ('reasoning' in step) {
    return words(step.reasoning).map((text) => delta({ [step.field ?? 'reasoning_content']: text }));
  }
  if ('call' in step) {
    const args = typeof step.args === 'string' ? step.args : JSON.stringify(step.args ?? {});
    const half = args.length >> 1;
    const { index = 0, id = '' } = step;
    const pieces = [{ index, id, type: 'function', function: { name: step.call, arguments: args.slice(0, half) } }];
    const rest = { index, function: { arguments: args.slice(half) } };
    return [delta({ tool_calls: pieces }), delta({ tool_calls: [rest] })];
  }
  if ('finish' in step) return [delta({}, step.finish)];
  if ('usage' in step) return [{ choices: [], usage: step.usage }];
  return 'chunk' in step ? [step.chunk] : [];
}

const words = (text: string): string[] => text.match(/\s*\S+|\s+$/g) ?? [];

/**
 * What the last user message asks for, line by line: `call NAME {json}`, `think TEXT`, `status NUMBER`, `wait MS`, `hang`,
 * `cut`; any other text is said back. After tool results they are said back.
 */
export function defaultReply(messages: readonly WireMessage[]): ModelServerReply {
  const at = messages.findLastIndex((message) => message.role === 'user');
  const results = messages.slice(at + 1).filter((message) => message.role === 'tool');
  if (results.length) return [{ text: `Results: ${results.map(textOf).join(' | ')}` }];
  const steps: ModelServerStep[] = [];
  for (const line of textOf(messages[at]).split('\n')) {
    const [, verb = '', rest = ''] = /^(call|think|status|wait|hang|cut)\b ?(.*)$/.exec(line) ?? [];
    if (verb === 'status') return { status: Number(rest), json: { error: { message: `The script says ${rest}.` } } };
    if (verb === 'call') {
      const [, name = '', args = ''] = /^(\S+) ?(.*)$/.exec(rest) ?? [];
      steps.push({ call: name, args: args || '{}' });
    } else if (verb === 'think') steps.push({ reasoning: rest });
    else if (verb === 'wait') steps.push({ delayMs: Number(rest) });
    else if (verb === 'hang') steps.push({ hang: true });
    else if (verb === 'cut') steps.push({ cut: true });
    else steps.push({ text: `You said: ${line}` });
  }
  return steps;
}

function textOf(message: WireMessage | undefined): string {
  const { content } = message ?? {};
  return typeof content === 'string' ? content : (content ?? []).map(({ text = '' }) => text).join('\n');
}

/** Why a strict provider refuses this history; undefined when it takes it. */
export function problemOf(messages: readonly WireMessage[]): string | undefined {
  const first = messages.find((message) => message.role !== 'system');
  if (first?.role !== 'user') return `The first message after the system message is of role ${first?.role}, not user.`;
  let open = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (open.delete(message.tool_call_id ?? '')) continue;
      return `messages[${index}]: the tool result ${message.tool_call_id} has no call before it.`;
    }
    if (open.size) return `messages[${index}]: the calls ${[...open].join(', ')} have no result.`;
    const ids = (message.tool_calls ?? []).map(({ id }) => id);
    open = new Set(ids);
    if (open.size < ids.length) return `messages[${index}]: two calls have the same id.`;
    const broken = message.tool_calls?.find((call) => !isObjectText(call.function.arguments));
    if (broken) return `messages[${index}]: the arguments of ${broken.id} are not a JSON object.`;
  }
  return open.size ? `The calls ${[...open].join(', ')} have no result.` : undefined;
}

function isObjectText(text: string): boolean {
  try {
    return z.record(z.string(), z.unknown()).safeParse(JSON.parse(text)).success;
  } catch {
    return false;
  }
}
