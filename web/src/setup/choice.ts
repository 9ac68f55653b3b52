// What the server says of the model and its provider, and how the page changes it.
import { getJson, send, sendJson } from '../api/http.ts';
import type { MessageKey } from '../i18n.ts';
import { t } from '../i18n.ts';

export interface Provider {
  id: string;
  label: string;
  needsKey: boolean;
  needsBaseUrl: boolean;
  /** Where it is, if nobody says another place. */
  baseUrl: string | null;
  exampleBaseUrl: string | null;
  exampleModel: string | null;
  apiKeyEnv: string | null;
  hasKey: boolean;
  keySource: 'env' | 'file' | null;
}

export interface Setup {
  providers: Provider[];
  current: { provider: string; model: string; source: 'config' | 'env' | 'file' | 'found' | 'demo' };
  saved: { provider: string; model: string; baseUrl: string; hasKey: boolean } | null;
  overriddenBy: { setting: 'model' | 'baseUrl' | 'apiKey'; by: string }[];
  problem: string | null;
}

export interface Choice {
  provider: string;
  model: string;
  baseUrl?: string;
  apiKey?: string;
}

export type Field = 'apiKey' | 'baseUrl' | 'model';

export const getSetup = () => getJson<Setup>('/setup');

/** One live call; what answers is saved. Throws ApiError with the model's own words where it does not. */
export const saveSetup = (choice: Choice) =>
  sendJson<{ ms: number; text: string; setup: Setup }>('POST', '/setup', choice);

export async function removeSetup(): Promise<Setup> {
  const response = await send('/setup', { method: 'DELETE', headers: { accept: 'application/json' } });
  return (await response.json()) as Setup;
}

const names: Record<string, MessageKey> = {
  qwen: 'setup.qwen',
  glm: 'setup.glm',
  doubao: 'setup.doubao',
  'openai-compatible': 'setup.other',
};

export function nameOf({ id, label }: Pick<Provider, 'id' | 'label'>): string {
  const key = names[id];
  return key ? t(key) : label;
}

const fieldOfCode: Record<string, Field> = {
  'models.auth': 'apiKey',
  'models.not_found': 'model',
  'models.network': 'baseUrl',
  'models.timeout_total': 'baseUrl',
  'models.stream_invalid': 'baseUrl',
};

/** The field that a refusal speaks of; undefined where it speaks of none. */
export function fieldOf({ code, message }: { code: string; message: string }): Field | undefined {
  const named = /\b(apiKey|baseUrl|model)\b/.exec(message)?.[1];
  return code.startsWith('models.') ? fieldOfCode[code] : (named as Field | undefined);
}
