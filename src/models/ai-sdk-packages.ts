// The provider packages, each loaded when a host of its kind is first asked.
import type { LanguageModelV4 } from '@ai-sdk/provider';
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

export interface PackageSettings {
  baseURL: string;
  apiKey: string;
  headers: Record<string, string>;
}

/** Rejects as `import` does where the package is not installed. */
export async function loadPackage(kind: PackageKind, id: string, settings: PackageSettings): Promise<LanguageModelV4> {
  const create = await packages[kind].load();
  return create({ ...settings, fetch: nodeFetch })(id);
}
