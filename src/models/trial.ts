import { AgentError } from '../kernel/errors.ts';
import type { ModelsConfig } from './config.ts';
import { mask, modelsError } from './errors.ts';
import type { SavedHost } from './hosts.ts';
import { createRouter } from './router.ts';

/** `text`: what the model said; `error`: why it did not answer, without keys. Milliseconds. */
export type Trial =
  | { ok: true; ms: number; text: string }
  | { ok: false; ms: number; error: { code: string; message: string; hint: string } };

const TRIAL_MS = 20_000;
const question = {
  system: 'This is a connection test. Answer with one word.',
  messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'Say: ok' }] }],
  tools: [],
};

/** Asks a model once, through the adapter that runs will use, whatever environment and configuration say of its host. */
export async function tryModel(config: ModelsConfig, candidate: SavedHost): Promise<Trial> {
  const { provider, model, baseUrl, apiKey = '' } = candidate;
  const { kind, headers, schemas } = config.hosts[provider] ?? {};
  const limits = { firstTokenMs: TRIAL_MS, idleMs: TRIAL_MS, totalMs: TRIAL_MS };
  const hosts = provider in config.hosts ? { [provider]: { kind, headers, schemas } } : {};
  const only = { ...config, default: undefined, fallbacks: {}, retries: 0, hosts, limits };
  const begun = performance.now();
  const took = () => Math.round(performance.now() - begun);
  const signal = AbortSignal.timeout(TRIAL_MS);
  let text = '';
  try {
    const asked = createRouter(only, {}, { saved: candidate }).resolve(`${provider}/${model}`);
    await asked.call(question, signal, (part) => {
      if (part.type === 'text') text += part.text;
      if (part.type === 'restart') text = '';
    });
    return { ok: true, ms: took(), text: mask(text.trim().slice(0, 200).toWellFormed(), [apiKey]) };
  } catch (error) {
    const known = signal.aborted ? toLate(baseUrl) : error;
    if (!(known instanceof AgentError)) throw error;
    const { code, message, hint } = known;
    return { ok: false, ms: took(), error: { code, message: mask(message, [apiKey]), hint } };
  }
}

function toLate(baseUrl: string): AgentError {
  const hint = 'Check the base URL and the name of the model, and try again.';
  return modelsError('timeout_total', `${new URL(baseUrl).host} did not answer within ${TRIAL_MS / 1000} s.`, { hint });
}
