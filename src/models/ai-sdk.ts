// Any LanguageModelV4 of the AI SDK as a model. Only types are imported from there.
import type {
  LanguageModelV4,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import type { Json, Usage } from '../kernel/messages.ts';
import { noUsage } from '../kernel/messages.ts';
import type { FinishReason, Model, ModelFinish, ModelPart, ModelRequest } from '../kernel/model.ts';
import type { ReasoningMode } from './ai-sdk-encode.ts';
import { defaultReasoning, encodePrompt, encodeTools, withCacheMarks } from './ai-sdk-encode.ts';
import type { ModelLimits, Watch } from './clock.ts';
import { defaultModelLimits, startWatch } from './clock.ts';
import { toError } from './ai-sdk-errors.ts';
import { faultOf, modelsError } from './errors.ts';
import { toFinishReason } from './finish.ts';
import type { FileHost, FileKind, ShownFiles } from './files.ts';
import { askWithFiles } from './file-fallback.ts';
import { defaultFiles, hasFiles } from './files.ts';
import { isRecord } from './json.ts';
import type { PackageKind } from './ai-sdk-packages.ts';
import { loadPackage } from './ai-sdk-packages.ts';
import type { SchemaDialect } from './schema-dialect.ts';
import { dialectOf, isSchemaRefusal } from './schema-dialect.ts';

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
  /** What the host takes beside text. Default: by the provider's name. */
  files?: readonly FileKind[];
  /** What the host takes of JSON Schema; packages lower it themselves where need be. Default: by the provider's name. */
  schemas?: SchemaDialect | undefined;
  /** Marks for Anthropic's prompt cache. Default: where the provider's name says Anthropic. */
  hasCacheMarks?: boolean;
}

/** Fails with the same `models.*` errors and keeps the same time limits as a model over HTTP (openai-wire.ts). */
export function createAiSdkModel(config: AiSdkConfig): Model {
  const { name, provider, secrets = [], reasoning = defaultReasoning(provider) } = config;
  const limits = { ...defaultModelLimits, ...config.limits };
  const load = toLoader(config.model);
  const reading: Reading['config'] = {
    host: { provider, name, takes: config.files ?? defaultFiles(provider), refused: new WeakSet() },
    reasoning,
    hasCacheMarks: config.hasCacheMarks ?? /anthropic/i.test(provider),
    schemas: config.schemas ?? (/anthropic/i.test(provider) ? 'anthropic' : 'openai'),
    refuse(error) {
      throw toError(error, { provider, secrets, hasBegun: false });
    },
  };
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
      const watch = startWatch({ provider, limits, signal }, { abort: stop, late: stop });
      try {
        return await Promise.race([
          stopped.promise,
          read({ load, request, config: reading, inner, answer, watch, on }),
        ]);
      } catch (error) {
        // An AgentError of ours and the caller's reason pass; whatever the package throws is sorted.
        const own = inner.signal.aborted ? (inner.signal.reason as Error) : undefined;
        const failure = own ?? toError(error, { provider, secrets, hasBegun: answer.isOpen });
        inner.abort(failure);
        throw failure;
      } finally {
        watch.stop();
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
  config: {
    host: FileHost;
    reasoning: ReasoningMode;
    hasCacheMarks: boolean;
    schemas: SchemaDialect;
    /** Throws what the package threw before the answer as an error of ours. */
    refuse: (error: unknown) => never;
  };
  inner: AbortController;
  answer: ReturnType<typeof createAnswer>;
  watch: Watch;
  on: (part: ModelPart) => void;
}

async function read({ load, request, config, inner, answer, watch, on }: Reading): Promise<ModelFinish> {
  const { host, reasoning, hasCacheMarks, schemas, refuse } = config;
  const model = await load();
  const { signal } = inner;
  signal.throwIfAborted();
  const begin = async (files?: ShownFiles, dialect = schemas) => {
    const prompt = encodePrompt(request, reasoning, files);
    const { stream } = await model.doStream({
      prompt: hasCacheMarks ? withCacheMarks(prompt) : prompt,
      ...(request.tools.length && {
        tools: encodeTools(request.tools, dialect),
        toolChoice: { type: 'auto' as const },
      }),
      abortSignal: signal,
    });
    config.schemas = dialect;
    return stream.getReader();
  };
  const ask = (files?: ShownFiles) =>
    begin(files).catch((error: unknown) => {
      if (schemas === 'plain' || !request.tools.length || !isSchemaRefusal(error)) throw error;
      return begin(files, 'plain');
    });
  const reader = hasFiles(request)
    ? await askWithFiles(request, { host, signal, on, ask: (files) => ask(files).catch(refuse) })
    : await ask();
  answer.isOpen = true;
  const cancel = () => void reader.cancel(signal.reason).catch(() => undefined);
  // A model that does not listen to the signal is let go of all the same.
  signal.addEventListener('abort', cancel, { once: true });
  if (signal.aborted) cancel();
  for (;;) {
    const { done, value } = await reader.read();
    signal.throwIfAborted();
    if (done) return answer.end();
    if (answer.take(value)) watch.heard();
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
        throw toError(part.error, { provider, secrets, hasBegun: true });
      default:
        return false;
    }
  }

  return {
    get isFinished() {
      return finish !== undefined;
    },
    /** The host began to answer, if only with its headers. */
    isOpen: false,
    take(part: LanguageModelV4StreamPart): boolean {
      const isSome = sort(part);
      hasBegun ||= isSome;
      return isSome;
    },
    end(): ModelFinish {
      flush();
      const said = finish?.raw ?? '';
      if (!finish || finish.unified === 'interrupted' || (finish.unified === 'other' && !said)) {
        const what = hasBegun ? 'ended its answer without saying that it is complete' : 'ended without an answer';
        throw modelsError('stream_cut', `${provider} ${what}.`);
      }
      // "other" is a word that the package does not know, but we may.
      const word = finish.unified === 'error' && !faultOf(said) ? 'error' : said;
      const reason = reasons[finish.unified] ?? toFinishReason(word, { provider, secrets });
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

function toUsage({ inputTokens, outputTokens }: LanguageModelV4Usage): Usage {
  const { total, noCache, cacheRead, cacheWrite } = inputTokens;
  return {
    inputTokens: total ?? (noCache ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0),
    outputTokens: outputTokens.total ?? (outputTokens.text ?? 0) + (outputTokens.reasoning ?? 0),
    reasoningTokens: outputTokens.reasoning ?? 0,
    cachedTokens: cacheRead ?? 0,
  };
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
  /** What the host takes beside text. Default: by its kind. */
  files?: readonly FileKind[] | undefined;
  /** What the host takes of JSON Schema. Default: by its kind. */
  schemas?: SchemaDialect | undefined;
}

/** Loads the kind's package with the first call, which fails with `models.package_missing` where it is not installed. */
export function createPackageModel({
  kind,
  model,
  baseUrl,
  apiKey,
  headers = {},
  files,
  schemas,
  ...rest
}: PackageModelConfig): Model {
  const secrets = [...(apiKey ? [apiKey] : []), ...Object.values(headers)];
  // The key is never empty: the packages would look for one of their own in the environment.
  return createAiSdkModel({
    ...rest,
    model: () =>
      loadPackage(kind, model, {
        provider: rest.provider,
        secrets,
        baseURL: baseUrl,
        apiKey: apiKey || 'none',
        headers,
      }),
    secrets,
    reasoning: defaultReasoning(kind),
    files: files ?? defaultFiles(kind),
    schemas: schemas ?? dialectOf({ provider: kind, baseUrl, model }),
    hasCacheMarks: kind === 'anthropic',
  });
}
