// Any LanguageModelV4 of the AI SDK as a model. Only types are imported from there.
import type {
  LanguageModelV4,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import { AgentError, defineErrors, messageOf } from '../kernel/errors.ts';
import type { Json, Usage } from '../kernel/messages.ts';
import { noUsage } from '../kernel/messages.ts';
import type { FinishReason, Model, ModelFinish, ModelPart, ModelRequest } from '../kernel/model.ts';
import type { ReasoningMode } from './ai-sdk-encode.ts';
import { defaultReasoning, encodePrompt, encodeTools } from './ai-sdk-encode.ts';
import { mask, modelsError, toProviderError } from './errors.ts';
import { isRecord, parseJson } from './json.ts';
import type { PackageKind } from './ai-sdk-packages.ts';
import { loadPackage } from './ai-sdk-packages.ts';
import { networkReasons, reasonOf, toWait } from './node-fetch.ts';
import type { ModelLimits } from './openai-wire.ts';
import { defaultModelLimits } from './openai-wire.ts';

export const packageError = defineErrors('models', {
  package_missing: { status: 502, hint: 'Install the package and start again, or choose another model.' },
});

export interface AiSdkConfig {
  /** The model itself, or what loads it when it is first asked. */
  model: LanguageModelV4 | (() => Promise<LanguageModelV4>);
  /** Shown to people. */
  name: string;
  /** Names the host in errors, for example "anthropic"; decides the default of `reasoning`, too. */
  provider: string;
  limits?: Partial<ModelLimits>;
  /** Never shown in errors: keys and header values. */
  secrets?: readonly string[];
  reasoning?: ReasoningMode;
}

/** Fails with the same `models.*` errors and keeps the same time limits as a model over HTTP (openai-wire.ts). */
export function createAiSdkModel(config: AiSdkConfig): Model {
  const { name, provider, secrets = [], reasoning = defaultReasoning(provider) } = config;
  const limits = { ...defaultModelLimits, ...config.limits };
  const load = toLoader(config.model);
  return {
    name,
    async call(request, signal, on) {
      signal.throwIfAborted();
      const inner = new AbortController();
      const answer = createAnswer({ provider, secrets, on });
      const stopped = Promise.withResolvers<never>();
      const stop = (error: Error) => {
        stopped.reject(error);
        inner.abort(error);
      };
      const abort = () => stop(signal.reason as Error);
      const clock = startClock(limits, (kind) => stop(late(kind, provider, limits)));
      signal.addEventListener('abort', abort, { once: true });
      try {
        return await Promise.race([stopped.promise, read({ load, request, reasoning, inner, answer, clock })]);
      } catch (error) {
        // An AgentError of ours and the caller's reason pass; whatever the package throws is sorted.
        const own = inner.signal.aborted ? (inner.signal.reason as Error) : undefined;
        const failure = own ?? toError(error, { provider, secrets, hasBegun: answer.hasBegun });
        inner.abort(failure);
        throw failure;
      } finally {
        clock.stop();
        signal.removeEventListener('abort', abort);
      }
    },
  };
}

function toLoader(model: AiSdkConfig['model']): () => Promise<LanguageModelV4> {
  if (typeof model !== 'function') return () => Promise.resolve(model);
  let loading: Promise<LanguageModelV4> | undefined;
  return () => {
    if (!loading) {
      loading = model();
      loading.catch(() => (loading = undefined));
    }
    return loading;
  };
}

interface Reading {
  load: () => Promise<LanguageModelV4>;
  request: ModelRequest;
  reasoning: ReasoningMode;
  inner: AbortController;
  answer: ReturnType<typeof createAnswer>;
  clock: { heard(): void };
}

async function read({ load, request, reasoning, inner, answer, clock }: Reading): Promise<ModelFinish> {
  const model = await load();
  const { signal } = inner;
  signal.throwIfAborted();
  const { stream } = await model.doStream({
    prompt: encodePrompt(request, reasoning),
    ...(request.tools.length && { tools: encodeTools(request.tools), toolChoice: { type: 'auto' as const } }),
    abortSignal: signal,
  });
  const reader = stream.getReader();
  const cancel = () => void reader.cancel(signal.reason).catch(() => undefined);
  // A model that does not listen to the signal is let go of all the same.
  signal.addEventListener('abort', cancel, { once: true });
  if (signal.aborted) cancel();
  for (;;) {
    const { done, value } = await reader.read();
    signal.throwIfAborted();
    if (done) return answer.end();
    if (answer.take(value)) clock.heard();
    if (!answer.isFinished) continue;
    drain(reader, inner);
    return answer.end();
  }
}

/** The answer is complete: the connection is free again once the host ends the body, which it may forget to do. */
function drain(reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart>, inner: AbortController): void {
  const timer = setTimeout(() => inner.abort(), 1000).unref();
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  rest()
    .catch(() => undefined)
    .finally(() => clearTimeout(timer));
}

interface AnswerConfig {
  provider: string;
  secrets: readonly string[];
  on: (part: ModelPart) => void;
}

/** The meaning of the parts. `take` is true for those that bring something of the answer. */
function createAnswer({ provider, secrets, on }: AnswerConfig) {
  /** Metadata of the open reasoning parts: it may come with their start, a delta or their end. */
  const open = new Map<string, { [key: string]: Json }>();
  let half: { type: 'text' | 'reasoning'; text: string } | undefined;
  let finish: LanguageModelV4FinishReason | undefined;
  let usage: Usage = noUsage;
  let model: string | undefined;
  let hasCalls = false;
  let hasBegun = false;

  function flush(): void {
    if (half) on({ type: half.type, text: half.text.toWellFormed() });
    half = undefined;
  }

  /** A character that the host cut in two (surrogates in two deltas) is kept until its other half comes. */
  function write(type: 'text' | 'reasoning', delta: string): void {
    if (half && half.type !== type) flush();
    const whole = (half?.text ?? '') + delta;
    half = undefined;
    const isCut = /[\ud800-\udbff]$/.test(whole);
    const text = isCut ? whole.slice(0, -1) : whole;
    if (text) on({ type, text: text.toWellFormed() });
    if (isCut) half = { type, text: whole.slice(-1) };
  }

  function remember(id: string, metadata: unknown): void {
    if (!isRecord(metadata)) return;
    const known = open.get(id) ?? {};
    for (const [name, value] of Object.entries(metadata)) {
      if (isRecord(value)) known[name] = { ...(known[name] as object), ...(value as { [key: string]: Json }) };
    }
    if (Object.keys(known).length) open.set(id, known);
  }

  function endReasoning(id: string): void {
    flush();
    const metadata = open.get(id);
    open.delete(id);
    if (metadata) on({ type: 'reasoning', text: '', metadata });
  }

  function sort(part: LanguageModelV4StreamPart): boolean {
    switch (part.type) {
      case 'text-delta':
        write('text', part.delta);
        return part.delta !== '';
      case 'reasoning-start':
        remember(part.id, part.providerMetadata);
        return false;
      case 'reasoning-delta':
        remember(part.id, part.providerMetadata);
        write('reasoning', part.delta);
        return part.delta !== '' || part.providerMetadata !== undefined;
      case 'reasoning-end':
        remember(part.id, part.providerMetadata);
        endReasoning(part.id);
        return true;
      case 'tool-input-start':
      case 'tool-input-delta':
        return true;
      case 'tool-call':
        // What the provider runs itself is no call of ours.
        if (part.providerExecuted) return true;
        flush();
        hasCalls = true;
        on({ type: 'tool_call', id: part.toolCallId, name: part.toolName, args: part.input });
        return true;
      case 'response-metadata':
        if (part.modelId) model = part.modelId;
        return false;
      case 'finish':
        finish = part.finishReason;
        usage = toUsage(part.usage);
        return true;
      case 'error':
        throw toError(part.error, { provider, secrets, hasBegun });
      default:
        return false;
    }
  }

  return {
    get isFinished() {
      return finish !== undefined;
    },
    get hasBegun() {
      return hasBegun;
    },
    take(part: LanguageModelV4StreamPart): boolean {
      const isSome = sort(part);
      hasBegun ||= isSome;
      return isSome;
    },
    end(): ModelFinish {
      flush();
      const said = mask(finish?.raw?.slice(0, 80) ?? '', secrets);
      if (!finish || finish.unified === 'interrupted' || (finish.unified === 'other' && !said)) {
        const what = hasBegun ? 'ended its answer without saying that it is complete' : 'ended without an answer';
        throw modelsError('stream_cut', `${provider} ${what}.`);
      }
      const reason = reasons[finish.unified];
      if (!reason) {
        const kind = failures[said.toLowerCase()] ?? (finish.unified === 'error' ? 'unavailable' : 'error');
        throw modelsError(kind, `${provider} broke the answer off${said && `: ${said}`}.`);
      }
      const isWhole = reason === 'stop' || reason === 'tool_calls';
      return {
        reason: isWhole ? (hasCalls ? 'tool_calls' : 'stop') : reason,
        usage,
        ...(model !== undefined && { model }),
      };
    },
  };
}

const reasons: Record<string, FinishReason | undefined> = {
  stop: 'stop',
  'tool-calls': 'tool_calls',
  length: 'length',
  'content-filter': 'content_filter',
};

/** Reasons of the provider that mean a fault of the host, as in openai-stream.ts. */
const failures: Record<string, 'overloaded' | 'unavailable' | 'stream_cut' | undefined> = {
  insufficient_system_resource: 'overloaded',
  network_error: 'unavailable',
  abort: 'stream_cut',
  aborted: 'stream_cut',
};

function toUsage({ inputTokens, outputTokens }: LanguageModelV4Usage): Usage {
  const { total, noCache, cacheRead, cacheWrite } = inputTokens;
  return {
    inputTokens: total ?? (noCache ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0),
    outputTokens: outputTokens.total ?? (outputTokens.text ?? 0) + (outputTokens.reasoning ?? 0),
    reasoningTokens: outputTokens.reasoning ?? 0,
    cachedTokens: cacheRead ?? 0,
  };
}

interface ErrorContext {
  provider: string;
  secrets: readonly string[];
  hasBegun: boolean;
}

/** By shape: an error may come from another copy of the package, or be no Error at all. */
function toError(error: unknown, { provider, secrets, hasBegun }: ErrorContext): AgentError {
  if (error instanceof AgentError) return error;
  const missing = missingPackage(error);
  if (missing) {
    const hint = `Run \`npm install ${missing}\` and start again, or choose another model.`;
    return packageError('package_missing', `Models of ${provider} need the package ${missing}.`, { hint });
  }
  if (!isRecord(error)) return toProviderError({ provider, body: error, secrets });
  const name = typeof error.name === 'string' ? error.name : '';
  const status = typeof error.statusCode === 'number' ? error.statusCode : undefined;
  if (status !== undefined && status >= 400) {
    const retryAfterMs = toWait(error.responseHeaders);
    const wait = retryAfterMs !== undefined && { retryAfterMs };
    if (error.responseHeaders === undefined && error.responseBody === undefined) {
      // Reported inside a 200.
      return toProviderError({ provider, secrets, body: { message: error.message, type: error.type, status } });
    }
    const text = typeof error.responseBody === 'string' ? error.responseBody : '';
    return toProviderError({ provider, status, secrets, body: parseJson(text) ?? (text || error.message), ...wait });
  }
  const reason = reasonOf(error);
  if (reason === 'ERR_INVALID_CHAR') {
    return modelsError('auth', `The key or a header for ${provider} holds a character that cannot be sent.`);
  }
  if (reason && hasBegun) {
    return modelsError('stream_cut', `${provider} closed the connection in the middle of its answer.`);
  }
  if (reason) {
    const data = { provider, reason };
    return modelsError('network', `${provider} cannot be reached: ${networkReasons[reason] ?? reason}.`, { data });
  }
  if (name === 'AI_LoadAPIKeyError') return modelsError('auth', `${provider} has no key.`);
  if (!(error instanceof Error) && !name) return toProviderError({ provider, body: error, secrets });
  const text = mask(messageOf(error).slice(0, 300), secrets);
  const isUnread = status !== undefined || /JSONParse|TypeValidation|EmptyResponseBody|InvalidResponse/.test(name);
  if (isUnread) {
    const hint = 'Check that the base URL of this host is that of its own protocol.';
    return modelsError('stream_invalid', `The answer of ${provider} cannot be read: ${text}`, { hint });
  }
  return modelsError('error', `${provider} failed: ${text}`);
}

function missingPackage(error: unknown): string | undefined {
  if (!isRecord(error) || error.code !== 'ERR_MODULE_NOT_FOUND') return undefined;
  return /'(@ai-sdk\/[\w-]+)'/.exec(messageOf(error))?.[1];
}

type Late = 'timeout_first' | 'timeout_idle' | 'timeout_total';

/** One timer for all three limits, as in openai-wire.ts. */
function startClock(limits: ModelLimits, expire: (kind: Late) => void) {
  const begun = performance.now();
  let last: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  const until = () => {
    const quiet = last === undefined ? begun + limits.firstTokenMs : last + limits.idleMs;
    return Math.min(quiet, begun + limits.totalMs);
  };
  const check = () => {
    const now = performance.now();
    if (now < until()) arm();
    else if (now >= begun + limits.totalMs) expire('timeout_total');
    else expire(last === undefined ? 'timeout_first' : 'timeout_idle');
  };
  const arm = () => {
    clearTimeout(timer);
    timer = setTimeout(check, Math.min(Math.ceil(until() - performance.now()), 2 ** 31 - 1));
  };
  arm();
  return {
    heard(): void {
      const isFirst = last === undefined;
      last = performance.now();
      if (isFirst) arm();
    },
    stop: () => clearTimeout(timer),
  };
}

function late(kind: Late, provider: string, limits: ModelLimits): AgentError {
  const messages = {
    timeout_first: `${provider} did not begin to answer within ${limits.firstTokenMs / 1000} s.`,
    timeout_idle: `${provider} was silent for ${limits.idleMs / 1000} s in the middle of its answer.`,
    timeout_total: `${provider} did not end its answer within ${limits.totalMs / 1000} s.`,
  };
  return modelsError(kind, messages[kind], { data: { provider } });
}

export interface PackageModelConfig {
  kind: PackageKind;
  /** Shown to people. */
  name: string;
  /** As the host calls it. */
  model: string;
  provider: string;
  baseUrl: string;
  apiKey?: string;
  headers?: Record<string, string>;
  limits?: Partial<ModelLimits>;
}

/** Loads the kind's package with the first call, which fails with `models.package_missing` where it is not installed. */
export function createPackageModel({ kind, model, baseUrl, apiKey, headers = {}, ...rest }: PackageModelConfig): Model {
  // The key is never empty: the packages would look for one of their own in the environment.
  return createAiSdkModel({
    ...rest,
    model: () => loadPackage(kind, model, { baseURL: baseUrl, apiKey: apiKey || 'none', headers }),
    secrets: [...(apiKey ? [apiKey] : []), ...Object.values(headers)],
    reasoning: defaultReasoning(kind),
  });
}
