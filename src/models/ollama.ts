// Ollama, found by itself: where it listens, and which of its models answers where nothing else is configured.
import * as z from 'zod';
import { AgentError } from '../kernel/errors.ts';
import type { Model } from '../kernel/model.ts';
import { nodeFetch } from './node-fetch.ts';

/** A start may wait as long as this. */
const LOOK_MS = 300;
const PAUSE_MS = 30_000;
/** Models that are asked what they can do; the list is sorted by the newest. */
const MAX_ASKED = 12;

/**
 * The address without `/v1`, from what people write and what Ollama's own OLLAMA_HOST takes: `host`, `:port`,
 * `0.0.0.0`, `::1`, `http://host:port/v1`. As there, the port is 11434 only where no scheme is given. Undefined for
 * what is no address.
 */
export function toOllamaUrl(text: string): string | undefined {
  const [, scheme, rest = ''] = /^(?:(https?):\/\/)?(.*)$/i.exec(text.trim()) ?? [];
  const host = /^[0-9a-f]*:[0-9a-f:.]*:[0-9a-f.]*$/i.test(rest) ? `[${rest}]` : rest.replace(/^:/, '127.0.0.1:');
  const hasPort = /^[^/?#]*:\d+(?=[/?#]|$)/.test(host.replace(/\[[^\]]*\]/, ''));
  const written = `${scheme ?? 'http'}://${host}`;
  if (!URL.canParse(written)) return undefined;
  const url = new URL(written);
  if (!scheme && !hasPort) url.port = '11434';
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1';
  if (url.hostname === '[::]') url.hostname = '[::1]';
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/\/(?:v1|api)$/, '');
  url.search = url.hash = '';
  return url.href.replace(/\/$/, '');
}

/** The base URL of Ollama's OpenAI-compatible API, by the environment. */
export function ollamaBaseUrl(env: Record<string, string | undefined>): string | undefined {
  const url = toOllamaUrl(env.OLLAMA_BASE_URL?.trim() || env.OLLAMA_HOST?.trim() || '127.0.0.1');
  return url && `${url}/v1`;
}

export interface OllamaSearch {
  /** The model that was found. */
  readonly model: string | undefined;
  /** Asks once, for at most 300 ms. Never rejects. */
  look(): Promise<void>;
  /** After a look that found nothing: looks again in the background, at most every 30 s. */
  refresh(): void;
  /** The same model. Where Ollama cannot be reached or does not know it, it is found no more, and another is looked for. */
  watch(model: Model): Model;
}

export interface OllamaSearchConfig {
  baseUrl: string | undefined;
  /** Milliseconds, on any clock. */
  now: () => number;
}

export function createOllamaSearch({ baseUrl, now }: OllamaSearchConfig): OllamaSearch {
  const url = baseUrl === undefined ? undefined : toOllamaUrl(baseUrl);
  let model: string | undefined;
  let looked: number | undefined;

  async function look(): Promise<void> {
    if (url === undefined) return;
    looked = now();
    const found = await findModel(url, AbortSignal.timeout(LOOK_MS));
    model ??= found;
  }

  return {
    get model() {
      return model;
    },
    look,
    refresh() {
      if (model === undefined && looked !== undefined && now() - looked >= PAUSE_MS) void look();
    },
    watch: (inner) => ({
      name: inner.name,
      async call(...args) {
        try {
          return await inner.call(...args);
        } catch (error) {
          const isGone = error instanceof AgentError && /^models\.(network|not_found)$/.test(error.code);
          if (isGone && inner.name === model) {
            model = undefined;
            void look();
          }
          throw error;
        }
      },
    }),
  };
}

const tagsAnswer = z.object({
  models: z.array(
    z.object({
      name: z.string().min(1),
      // Its answers come from elsewhere: not chosen unasked.
      remote_host: z.string().optional(),
      details: z.object({ family: z.string().nullish() }).nullish(),
    }),
  ),
});
const showAnswer = z.object({ capabilities: z.array(z.string()).optional() });

/** Its models that chat, newest first; undefined where nothing answers in time. `baseUrl` may end in /v1. */
export async function listOllama(baseUrl: string, signal: AbortSignal): Promise<string[] | undefined> {
  return (await readTags(toOllamaUrl(baseUrl) ?? baseUrl, signal))?.map(({ name }) => name);
}

async function readTags(url: string, signal: AbortSignal) {
  const answer = tagsAnswer.safeParse(await ask(`${url}/api/tags`, { signal }));
  return answer.data?.models.filter(
    ({ name, details }) => !/embed/i.test(name) && !/bert/i.test(details?.family ?? ''),
  );
}

/** Of the models that chat the newest that can use tools, else the newest; undefined where nothing answers in time. */
async function findModel(url: string, signal: AbortSignal): Promise<string | undefined> {
  const listed = await readTags(url, signal);
  if (!listed) return undefined;
  const names = listed
    .filter(({ name, remote_host }) => !remote_host && !/[:-]cloud$/.test(name))
    .map(({ name }) => name)
    .slice(0, MAX_ASKED);
  const known = await Promise.all(
    names.map(async (name) => {
      const body = JSON.stringify({ model: name });
      const shown = showAnswer.safeParse(await ask(`${url}/api/show`, { method: 'POST', body, signal }));
      return { name, capabilities: shown.data?.capabilities };
    }),
  );
  const able = known.filter(({ capabilities }) => capabilities?.includes('completion') ?? true);
  return (able.find(({ capabilities }) => capabilities?.includes('tools')) ?? able[0])?.name;
}

/** Undefined where nobody is there, or somebody else is: that is no failure. */
async function ask(url: string, init: RequestInit): Promise<unknown> {
  try {
    const response = await nodeFetch(url, init);
    if (response.ok) return await response.json();
    await response.body?.cancel();
    return undefined;
  } catch {
    return undefined;
  }
}
