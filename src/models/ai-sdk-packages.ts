// The provider packages, each loaded when a host of its kind is first asked.
import { readFileSync } from 'node:fs';
import type { LanguageModelV4 } from '@ai-sdk/provider';
import { modelsError, toProviderError } from './errors.ts';
import { isRecord, parseJson } from './json.ts';
import { nodeFetch } from './node-fetch.ts';

/** Kind of a host -> its own base URL, and the package that speaks its protocol. */
const packages = {
  anthropic: {
    baseUrl: 'https://api.anthropic.com/v1',
    load: async () => (await import('@ai-sdk/anthropic')).createAnthropic,
  },
  openai: {
    baseUrl: 'https://api.openai.com/v1',
    load: async () => (await import('@ai-sdk/openai')).createOpenAI,
  },
  deepseek: {
    baseUrl: 'https://api.deepseek.com',
    load: async () => (await import('@ai-sdk/deepseek')).createDeepSeek,
  },
  alibaba: {
    baseUrl: 'https://dashscope.aliyuncs.com/compatible-mode/v1',
    load: async () => (await import('@ai-sdk/alibaba')).createAlibaba,
  },
};

export type PackageKind = keyof typeof packages;

export const packageKinds = Object.keys(packages) as PackageKind[];

export const packageBaseUrl = (kind: PackageKind): string => packages[kind].baseUrl;

/** As npm takes it: a provider package in the version that was tested, by the manifest. */
export function installable(name: string): string {
  const manifest = parseJson(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const peers = isRecord(manifest) && isRecord(manifest.peerDependencies) ? manifest.peerDependencies : {};
  const range = Object.hasOwn(peers, name) ? peers[name] : undefined;
  return typeof range === 'string' ? `${name}@${range.replace(/^\^/, '')}` : name;
}

export interface PackageSettings {
  /** Named in errors. */
  provider: string;
  /** Never shown in errors. */
  secrets: readonly string[];
  baseURL: string;
  apiKey: string;
  headers: Record<string, string>;
}

/** Rejects as `import` does where the package is not installed. */
export async function loadPackage(kind: PackageKind, id: string, settings: PackageSettings): Promise<LanguageModelV4> {
  const { provider, secrets, ...rest } = settings;
  const create = await packages[kind].load();
  return create({ ...rest, fetch: toStreamFetch(provider, secrets) })(id);
}

/** A stream is asked for. One JSON text or a page instead is a refusal, which the packages take for an empty answer. */
function toStreamFetch(provider: string, secrets: readonly string[]): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await nodeFetch(input, init);
    const type = response.headers.get('content-type') ?? '';
    if (!response.ok || !/^(?:text\/html|application\/json)\b/i.test(type)) return response;
    const text = await response.text();
    const body = parseJson(text);
    if (body !== undefined) throw toProviderError({ provider, body, secrets });
    throw modelsError('stream_invalid', `${provider} answered with a web page.`);
  };
}
