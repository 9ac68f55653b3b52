// The names of models that people can choose: what hosts list by themselves, and what configuration and presets name.
import * as z from 'zod';
import { known, OLLAMA } from './config.ts';
import type { Host } from './hosts.ts';
import { nodeFetch } from './node-fetch.ts';
import { listOllama } from './ollama.ts';
import type { HostDescription, Route } from './router.ts';

export interface ModelsList {
  /** The model where a request names none. */
  default: string;
  /** The scripted demo is that. */
  isDemo: boolean;
  /** A name to send as `modelName`, and the host that it goes to. */
  models: ModelChoice[];
  /** `isReachable`: it answered; null where it was not asked, because it is not configured. */
  hosts: (HostDescription & { isReachable: boolean | null })[];
}

export interface ModelChoice {
  name: string;
  host: string;
}

export interface CatalogConfig {
  /** Those that can be asked. */
  hosts: readonly Host[];
  /** Models that the configuration names. */
  named: readonly Route[];
  /** A name that leads there. */
  nameOf: (route: Route) => string;
  /** Milliseconds, on any clock. */
  now: () => number;
}

export interface Catalog {
  /** `standard` comes first. */
  list(standard: ModelChoice): Promise<{ models: ModelChoice[]; reachable: ReadonlyMap<string, boolean> }>;
}

interface Answer {
  isReachable: boolean;
  /** Absent: it does not tell. */
  models?: string[] | undefined;
}

const ASK_MS = 2000;
const KEEP_MS = 5 * 60_000;
/** Whoever did not answer may be there soon. */
const FAILED_MS = 15_000;
const MAX_MODELS = 1000;
const MAX_BYTES = 4_000_000;

export function createCatalog({ hosts, named, nameOf, now }: CatalogConfig): Catalog {
  const cache = new Map<string, { until: number; answer: Promise<Answer> }>();

  function ask(host: Host): Promise<Answer> {
    const found = cache.get(host.name);
    if (found && now() < found.until) return found.answer;
    const entry = { until: now() + KEEP_MS, answer: listModels(host) };
    cache.set(host.name, entry);
    void entry.answer.then(({ models }) => {
      if (!models) entry.until = now() + FAILED_MS;
    });
    return entry.answer;
  }

  /** What a host lists, and what is named for it and not known to be missing there. */
  function choicesOf(host: Host, { models }: Answer): ModelChoice[] {
    const own = named.filter((route) => route.host === host.name).map(({ model }) => model);
    const example = known[host.name]?.model;
    const all = new Set(models ?? [...own, ...(example === undefined ? [] : [example])]);
    // A prefix is no model where models that begin with it are listed.
    for (const model of own) if (!models?.some((id) => id.startsWith(model))) all.add(model);
    return [...all].map((model) => ({ name: nameOf({ host: host.name, model }), host: host.name }));
  }

  return {
    async list(standard) {
      const answers = await Promise.all(hosts.map(async (host) => ({ host, answer: await ask(host) })));
      const models = answers.flatMap(({ host, answer }) => choicesOf(host, answer));
      const byName = new Map([standard, ...models].map((choice) => [choice.name, choice]));
      const reachable = new Map(answers.map(({ host, answer }) => [host.name, answer.isReachable]));
      return { models: [...byName.values()], reachable };
    },
  };
}

const modelsAnswer = z.object({ data: z.array(z.object({ id: z.string().min(1).max(200) })) });

/** Models of one purpose that is not talking. */
const OTHERS =
  /embed|rerank|whisper|moderation|transcribe|\btts\b|dall-e|image|realtime|\baudio\b|\bsora\b|davinci|babbage|\bbge-/i;

/** Never rejects: what fails is told as unreachable, and chat will say more. */
async function listModels({ name, kind, baseUrl = '', apiKey, headers }: Host): Promise<Answer> {
  const signal = AbortSignal.timeout(ASK_MS);
  if (name === OLLAMA) {
    const models = await listOllama(baseUrl, signal);
    return { isReachable: models !== undefined, models };
  }
  try {
    const response = await nodeFetch(`${baseUrl.replace(/\/+$/, '')}/models`, {
      headers: { ...headers, ...keyHeaders(kind, apiKey) },
      signal,
    });
    if (!response.ok) {
      await response.body?.cancel();
      return { isReachable: response.status < 500 };
    }
    const { data } = modelsAnswer.safeParse(await readJson(response));
    const ids = data?.data.map(({ id }) => id.replace(/^models\//, '')).filter((id) => !OTHERS.test(id));
    return { isReachable: true, models: ids?.slice(0, MAX_MODELS) };
  } catch {
    return { isReachable: false };
  }
}

function keyHeaders(kind: Host['kind'], apiKey: string | undefined): Record<string, string> {
  if (kind !== 'anthropic') return apiKey ? { authorization: `Bearer ${apiKey}` } : {};
  return { 'anthropic-version': '2023-06-01', ...(apiKey && { 'x-api-key': apiKey }) };
}

async function readJson(response: Response): Promise<unknown> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_BYTES) return undefined;
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
