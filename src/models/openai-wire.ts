// A model behind the chat-completions protocol: one request over node:http, its parts by callback, three time limits.
import type { ClientRequest, IncomingMessage } from 'node:http';
import * as http from 'node:http';
import * as https from 'node:https';
import { AgentError, messageOf } from '../kernel/errors.ts';
import type { Model, ModelFinish, ModelPart } from '../kernel/model.ts';
import { modelsError, toProviderError } from './errors.ts';
import { parseJson } from './json.ts';
import { encodeRequest } from './openai-encode.ts';
import { createOpenAIStream } from './openai-stream.ts';

/** Milliseconds. Only parts of the answer count: comments, pings and empty chunks do not. */
export interface ModelLimits {
  /** From the call to the first part. */
  firstTokenMs: number;
  /** Between two parts. */
  idleMs: number;
  /** From the call to the end of the answer. */
  totalMs: number;
}

export const defaultModelLimits: ModelLimits = { firstTokenMs: 120_000, idleMs: 60_000, totalMs: 15 * 60_000 };

export interface OpenAIWireConfig {
  /** Shown to people. */
  name: string;
  /** As the host calls it. */
  model: string;
  /** Up to and without `/chat/completions`; a query string is kept. */
  baseUrl: string;
  /** Sent as a bearer token; local servers need none. */
  apiKey?: string;
  headers?: Record<string, string>;
  limits?: Partial<ModelLimits>;
  /** Names the host in errors, for example "deepseek". */
  provider: string;
}

/** A model of any OpenAI-compatible host. Throws `models.not_configured` for a base URL that is none. */
export function createOpenAIWireModel(config: OpenAIWireConfig): Model {
  const target = toTarget(config);
  let hasUsage = true;
  let hasReasoning = config.provider === 'deepseek';
  return {
    name: config.name,
    async call(request, signal, on) {
      let isCorrected = false;
      for (let isFresh = false; ;) {
        const [hadUsage, hadReasoning] = [hasUsage, hasReasoning];
        const body = encodeRequest(request, { model: config.model, hasUsage, hasReasoning });
        try {
          return await exchange({ ...target, isFresh }, body, { signal, on });
        } catch (error) {
          if (error instanceof StaleSocket) isFresh = true;
          else if (hadUsage && isAbout('stream_options', error)) hasUsage = false;
          else if (!isCorrected && isAbout('reasoning_content', error)) {
            hasReasoning = !hadReasoning;
            isCorrected = true;
          } else throw error;
        }
      }
    },
  };
}

/** Hosts differ in what they demand or refuse, and change; they name it in their refusal. */
const isAbout = (field: string, error: unknown): boolean =>
  error instanceof AgentError && error.code === 'models.bad_request' && error.message.includes(field);

/** The host closed a kept-alive connection while the request was on its way: it was never read. */
class StaleSocket extends Error {}

interface Target {
  url: URL;
  headers: Record<string, string>;
  secrets: string[];
  limits: ModelLimits;
  provider: string;
  /** On a connection of its own. */
  isFresh: boolean;
}

/** Free connections close after 20 s, before most hosts close them. */
const pool = { keepAlive: true, timeout: 20_000, maxFreeSockets: 64 };
const agents = { 'http:': new http.Agent(pool), 'https:': new https.Agent(pool) };

function toTarget(config: OpenAIWireConfig): Target {
  const { provider, apiKey, headers = {}, limits } = config;
  const url = URL.canParse(config.baseUrl) ? new URL(config.baseUrl) : undefined;
  if (!url || !(url.protocol in agents)) {
    const hint = 'Correct the base URL: it begins with http:// or https:// and usually ends in /v1.';
    throw modelsError('not_configured', `The base URL of ${provider} is not an http(s) address.`, { hint });
  }
  const path = url.pathname.replace(/\/+$/, '');
  url.pathname = path.endsWith('/chat/completions') ? path : `${path}/chat/completions`;
  return {
    url,
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      'accept-encoding': 'identity',
      'user-agent': 'homard',
      ...(apiKey && { authorization: `Bearer ${apiKey}` }),
      ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    },
    secrets: [...(apiKey ? [apiKey] : []), ...Object.values(headers), url.password].filter(Boolean),
    limits: { ...defaultModelLimits, ...limits },
    provider,
    isFresh: false,
  };
}

interface Listener {
  signal: AbortSignal;
  on: (part: ModelPart) => void;
}

function exchange(target: Target, body: string, { signal, on }: Listener): Promise<ModelFinish> {
  const { provider, secrets } = target;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const stream = createOpenAIStream({ provider, secrets, on });
    let request: ClientRequest | undefined;
    let isSettled = false;

    const settle = (): boolean => {
      if (isSettled) return false;
      isSettled = true;
      clock.stop();
      signal.removeEventListener('abort', abort);
      return true;
    };
    const close = (error: Error) => {
      if (!settle()) return;
      request?.destroy();
      reject(error);
    };
    const fail = (error: unknown) => close(toError(error, target));
    const abort = () => close(signal.reason as Error);
    const complete = () => {
      if (!settle()) return;
      try {
        resolve(stream.end());
      } catch (error) {
        reject(toError(error, target));
      }
    };
    signal.addEventListener('abort', abort, { once: true });
    const clock = startClock(target.limits, (kind) => {
      if (!stream.isFinished) return fail(late(kind, target));
      complete();
      request?.destroy();
    });
    const receive = (text: string, response: IncomingMessage) => {
      if (isSettled) return;
      try {
        if (stream.push(text)) clock.heard(stream.isFinished);
      } catch (error) {
        return fail(error);
      }
      if (!stream.isDone) return;
      complete();
      closeSoon(response);
    };

    try {
      request = open(target, body);
      listen(request, target, { receive, complete, fail, isFinished: () => stream.isFinished });
    } catch (error) {
      fail(error);
    }
  });
}

interface Sink {
  receive: (text: string, response: IncomingMessage) => void;
  complete: () => void;
  fail: (error: unknown) => void;
  isFinished: () => boolean;
}

function listen(request: ClientRequest, target: Target, { receive, complete, fail, isFinished }: Sink): void {
  request.on('error', (error) => fail(request.reusedSocket && isReset(error) ? new StaleSocket() : error));
  request.on('response', (response) => {
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) return readRefusal(response, (text) => fail(refusal(response, text, target)));
    response.setEncoding('utf8');
    response.on('data', (text: string) => receive(text, response));
    response.on('end', complete);
    response.on('error', () => {
      if (isFinished()) return complete();
      fail(modelsError('stream_cut', `${target.provider} closed the connection in the middle of its answer.`));
    });
  });
}

function open({ url, headers, isFresh }: Target, body: string): ClientRequest {
  const bytes = Buffer.from(body);
  const isHttps = url.protocol === 'https:';
  const agent = isFresh ? false : agents[isHttps ? 'https:' : 'http:'];
  const options = { method: 'POST', agent, headers: { ...headers, 'content-length': bytes.length } };
  const request = isHttps ? https.request(url, options) : http.request(url, options);
  request.end(bytes);
  return request;
}

/** The answer is complete: the connection is free again once the host ends the body, which it may forget to do. */
function closeSoon(response: IncomingMessage): void {
  const timer = setTimeout(() => response.destroy(), 1000).unref();
  response.once('close', () => clearTimeout(timer));
}

type Late = 'timeout_first' | 'timeout_idle' | 'timeout_total';

/** After its reason to end, an answer waits at most this long for usage and the end of the body. */
const FINISH_MS = 5000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** One timer for all three limits; `heard` costs no timer but at the first part and at the finish. */
function startClock(limits: ModelLimits, expire: (kind: Late) => void) {
  const begun = performance.now();
  let last: number | undefined;
  let idleMs = limits.idleMs;
  let timer: NodeJS.Timeout | undefined;

  const check = () => {
    const now = performance.now();
    const isTotal = now >= begun + limits.totalMs;
    if (now < until()) arm();
    else expire(isTotal ? 'timeout_total' : last === undefined ? 'timeout_first' : 'timeout_idle');
  };
  const until = () => {
    const quiet = last === undefined ? begun + limits.firstTokenMs : last + idleMs;
    return Math.min(quiet, begun + limits.totalMs);
  };
  const arm = () => {
    clearTimeout(timer);
    timer = setTimeout(check, Math.min(Math.ceil(until() - performance.now()), MAX_TIMER_MS));
  };
  arm();
  return {
    heard(isFinished: boolean): void {
      const isFirst = last === undefined;
      last = performance.now();
      if (isFinished) idleMs = Math.min(limits.idleMs, FINISH_MS);
      if (isFirst || isFinished) arm();
    },
    stop: () => clearTimeout(timer),
  };
}

function late(kind: Late, { provider, limits }: Target): AgentError {
  const data = { provider };
  if (kind === 'timeout_first') {
    const message = `${provider} did not begin to answer within ${limits.firstTokenMs / 1000} s.`;
    return modelsError(kind, message, { data });
  }
  const message =
    kind === 'timeout_idle'
      ? `${provider} was silent for ${limits.idleMs / 1000} s in the middle of its answer.`
      : `${provider} did not end its answer within ${limits.totalMs / 1000} s.`;
  return modelsError(kind, message, { data });
}

/** Bytes of a refusal that are read; more is a web page. */
const MAX_REFUSAL = 64 * 1024;

function readRefusal(response: IncomingMessage, done: (text: string) => void): void {
  let text = '';
  response.setEncoding('utf8');
  response.on('data', (piece: string) => {
    text += piece;
    if (text.length > MAX_REFUSAL) done(text);
  });
  response.on('end', () => done(text));
  response.on('error', () => done(text));
}

function refusal(response: IncomingMessage, text: string, { provider, secrets }: Target): AgentError {
  const status = response.statusCode ?? 0;
  const body = parseJson(text) ?? text;
  const retryAfterMs = toWait(response);
  return toProviderError({ provider, status, body, secrets, ...(retryAfterMs !== undefined && { retryAfterMs }) });
}

/** Milliseconds that the host asks to wait: a number of them, of seconds, or a date. */
function toWait({ headers }: IncomingMessage): number | undefined {
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (exact >= 0) return exact;
  const after = headers['retry-after'];
  if (!after) return undefined;
  const seconds = Number(after);
  const wait = Number.isNaN(seconds) ? Date.parse(after) - Date.now() : seconds * 1000;
  return wait >= 0 ? Math.round(wait) : undefined;
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

const isReset = (error: unknown): boolean => ['ECONNRESET', 'EPIPE'].includes(codeOf(error));

const reasons: Record<string, string | undefined> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the name server does not answer',
  ECONNRESET: 'the connection was closed',
  ETIMEDOUT: 'the connection timed out',
};

/** What goes wrong on the way, named by host only: a path or a query may hold a secret. */
function toError(error: unknown, { provider, url }: Target): Error {
  if (error instanceof AgentError || error instanceof StaleSocket) return error;
  const code = codeOf(error);
  if (code === 'ERR_INVALID_CHAR') {
    return modelsError('auth', `The key or a header for ${provider} holds a character that cannot be sent.`);
  }
  if (!code) return modelsError('error', `The answer of ${provider} cannot be read: ${messageOf(error)}`);
  const message = `${provider} cannot be reached at ${url.host}: ${reasons[code] ?? code}.`;
  return modelsError('network', message, { cause: error, data: { provider, reason: code } });
}
