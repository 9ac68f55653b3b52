// A model behind the chat-completions protocol: one request over node:http, its parts by callback, three time limits.
import type { ClientRequest, IncomingMessage } from 'node:http';
import * as http from 'node:http';
import * as https from 'node:https';
import { AgentError, messageOf } from '../kernel/errors.ts';
import type { FilePart } from '../kernel/messages.ts';
import type { Model, ModelFinish, ModelPart, ModelRequest } from '../kernel/model.ts';
import type { ModelLimits } from './clock.ts';
import { defaultModelLimits, startWatch } from './clock.ts';
import { modelsError, toCut, toNetworkError, toRefusal } from './errors.ts';
import type { FileKind, ShownFiles } from './files.ts';
import { askWithFiles } from './file-fallback.ts';
import { defaultFiles, hasFiles } from './files.ts';
import { encodeRequest } from './openai-encode.ts';
import { createOpenAIStream } from './openai-stream.ts';
import type { SchemaDialect } from './schema-dialect.ts';
import { dialectOf, isSchemaRefusal } from './schema-dialect.ts';

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
  /** What the host takes beside text. Default: by the provider's name. */
  files?: readonly FileKind[];
  /** What the host takes of JSON Schema. Default: by names and address. */
  schemas?: SchemaDialect | undefined;
}

/** A model of any OpenAI-compatible host. Throws `models.not_configured` for a base URL that is none. */
export function createOpenAIWireModel(config: OpenAIWireConfig): Model {
  const { provider } = config;
  const target = toTarget(config);
  let hasUsage = true;
  let hasReasoning = provider === 'deepseek';
  let hasTools = true;
  let schemas = config.schemas ?? dialectOf(config);
  const host = {
    provider,
    name: config.name,
    takes: config.files ?? defaultFiles(provider),
    refused: new WeakSet<FilePart>(),
  };

  async function ask(request: ModelRequest, listener: Listener, files?: ShownFiles): Promise<ModelFinish> {
    let isCorrected = false;
    let isPlain = false;
    let isTold = false;
    for (let isFresh = false; ;) {
      const [hadUsage, hadReasoning, dialect] = [hasUsage, hasReasoning, isPlain ? 'plain' : schemas];
      const encoding = { model: config.model, hasUsage, hasReasoning, schemas: dialect, ...(files && { files }) };
      const shown = hasTools || !request.tools.length ? request : { ...request, tools: [] };
      const body = encodeRequest(shown, encoding);
      if (!isTold && shown !== request) listener.on(withoutTools(config));
      isTold = shown !== request;
      try {
        const finish = await exchange({ ...target, isFresh }, body, listener);
        schemas = dialect;
        return finish;
      } catch (error) {
        if (error instanceof StaleSocket) isFresh = true;
        else if (shown.tools.length && isAbout('not support tools', error)) hasTools = false;
        else if (hadUsage && isAbout('stream_options', error)) hasUsage = false;
        else if (!isCorrected && isAbout('reasoning_content', error)) {
          hasReasoning = !hadReasoning;
          isCorrected = true;
        } else if (shown.tools.length && dialect !== 'plain' && isSchemaRefusal(error)) isPlain = true;
        else throw error;
      }
    }
  }

  return {
    name: config.name,
    call(request, signal, on) {
      if (!hasFiles(request)) return ask(request, { signal, on });
      return askWithFiles(request, { host, signal, on, ask: (files, on) => ask(request, { signal, on }, files) });
    },
  };
}

function withoutTools({ name, provider }: OpenAIWireConfig): ModelPart {
  const message = `${name} of ${provider} cannot use tools: it was asked without them.`;
  return { type: 'warning', code: 'models.no_tools', message, data: { provider, model: name } };
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
      watch.stop();
      return true;
    };
    const close = (error: Error) => {
      if (!settle()) return;
      request?.destroy();
      reject(error);
    };
    const fail = (error: unknown) => close(toError(error, target));
    const complete = () => {
      if (!settle()) return;
      try {
        resolve(stream.end());
      } catch (error) {
        reject(toError(error, target));
      }
    };
    const late = (error: Error) => {
      if (!stream.isFinished) return close(error);
      complete();
      request?.destroy();
    };
    const watch = startWatch({ provider, limits: target.limits, signal }, { abort: close, late });
    const receive = (text: string, response: IncomingMessage) => {
      if (isSettled) return;
      try {
        if (stream.push(text)) watch.heard(stream.isFinished);
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
      fail(toCut(target.provider));
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
  return toRefusal({ provider, status: response.statusCode ?? 0, text, headers: response.headers, secrets });
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

const isReset = (error: unknown): boolean => ['ECONNRESET', 'EPIPE'].includes(codeOf(error));

/** What goes wrong on the way, named by host only: a path or a query may hold a secret. */
function toError(error: unknown, { provider, url }: Target): Error {
  if (error instanceof AgentError || error instanceof StaleSocket) return error;
  const code = codeOf(error);
  if (code) return toNetworkError(code, { provider, place: url.host, cause: error });
  return modelsError('error', `The answer of ${provider} cannot be read: ${messageOf(error)}`);
}
