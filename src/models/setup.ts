// Choosing the model while the server runs: a choice is tried by one live call, saved, and used from the next run on.
// Configuration and environment win over what is saved, and `describe` says where they do.
import * as z from 'zod';
import { AgentError, messageOf } from '../kernel/errors.ts';
import type { ModelsConfig } from './config.ts';
import { DEMO, known, OLLAMA } from './config.ts';
import type { Environment, Host, SavedHost } from './hosts.ts';
import { toHosts, toPublicUrl } from './hosts.ts';
import { toOllamaUrl } from './ollama.ts';
import type { Router } from './router.ts';
import { createRouter } from './router.ts';
import { loadSettings, removeDrafts, removeSettings, saveSettings, setupError } from './settings.ts';
import type { Trial } from './trial.ts';
import { tryModel } from './trial.ts';

const blankAsAbsent = (text: string | undefined) => text?.trim() || undefined;

/** What people choose. Without a base URL the provider's own; without a key the one that is known for that address. */
export const setupChoice = z.strictObject({
  provider: z.string().refine((name) => Object.hasOwn(known, name), 'is none of the providers'),
  model: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .regex(/^\P{Cc}*$/u, 'holds a control character'),
  baseUrl: z.string().max(2000).optional().transform(blankAsAbsent),
  apiKey: z
    .string()
    .max(4000)
    .optional()
    .transform(blankAsAbsent)
    .refine((key) => key === undefined || /^[\x21-\x7e]+$/.test(key), 'holds characters that no key has'),
});

export type SetupChoice = z.output<typeof setupChoice>;

export interface SetupDescription {
  providers: ProviderDescription[];
  /** What answers where a request names no model. */
  current: {
    provider: string;
    model: string;
    baseUrl: string | null;
    hasKey: boolean;
    keySource: 'env' | 'file' | null;
    source: 'config' | 'env' | 'file' | 'found' | 'demo';
  };
  saved: { provider: string; model: string; baseUrl: string; hasKey: boolean } | null;
  /** What of the saved choice is not used, and what is used instead of it. */
  overriddenBy: { setting: 'model' | 'baseUrl' | 'apiKey'; by: string }[];
  isDemo: boolean;
  /** Why nothing is saved although there is a file. */
  problem: string | null;
}

export interface ProviderDescription {
  id: string;
  label: string;
  kind: string;
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
  /** Always routes by what is saved now; a model that it gave before stays what it was. */
  router: Router;
  /** Holds no key. */
  describe(): SetupDescription;
  /** One live call, at most 20 s. Throws `setup.invalid`, and `setup.busy` while another one is under way. */
  test(choice: SetupChoice): Promise<Trial>;
  /** The same; where it answers, the choice replaces all that was saved before. */
  save(choice: SetupChoice): Promise<Trial>;
  /** Back to what configuration and environment say. */
  clear(): Promise<void>;
}

export interface SetupConfig {
  /** The data directory. */
  directory: string;
  config: ModelsConfig;
  environment: Environment;
  /** Told in one sentence when the saved file cannot be used. */
  warn: (message: string) => void;
}

export async function createSetup({ directory, config, environment, warn }: SetupConfig): Promise<Setup> {
  let problem: string | null = null;
  let isBusy = false;
  await removeDrafts(directory).catch((error: unknown) => {
    warn(`Drafts in ${directory} cannot be removed, and may hold a key: ${messageOf(error)}`);
  });
  let saved = await loadSettings(directory).catch((error: unknown) => {
    if (!(error instanceof AgentError)) throw error;
    problem = `${error.message} ${error.hint}`;
    warn(problem);
    return undefined;
  });
  let router = createRouter(config, environment, { saved });

  function use(next: SavedHost | undefined): void {
    saved = next;
    problem = null;
    router = createRouter(config, environment, { saved });
  }

  async function exclusively<T>(work: () => Promise<T>): Promise<T> {
    if (isBusy) throw setupError('busy', 'A model is being tested already.');
    isBusy = true;
    try {
      return await work();
    } finally {
      isBusy = false;
    }
  }

  /** With the key to try, and the one to save: a key of the environment is not copied into the file. */
  function toCandidate(choice: SetupChoice) {
    const { provider, model, baseUrl, apiKey } = parseChoice(choice);
    const usual = toHosts(config, environment).get(provider)?.baseUrl;
    const place = baseUrl === undefined ? usual : toBaseUrl(provider, baseUrl);
    if (place === undefined) throw setupError('invalid', `baseUrl: ${known[provider]!.label} needs one.`);
    const kept = saved?.provider === provider && saved.baseUrl === place ? saved.apiKey : undefined;
    const candidate = { provider, model, baseUrl: place, apiKey: apiKey ?? kept };
    const host = toHosts(config, environment, candidate).get(provider);
    const trialKey = candidate.apiKey ?? (host?.baseUrl === place ? host.apiKey : undefined);
    if (trialKey === undefined && needsKey(provider) && (usual === undefined || place === usual)) {
      throw setupError('invalid', `apiKey: ${known[provider]!.label} needs one at ${new URL(place).host}.`);
    }
    return { candidate, trialKey };
  }

  async function attempt(choice: SetupChoice, isKept: boolean): Promise<Trial> {
    const { candidate, trialKey } = toCandidate(choice);
    const trial = await tryModel(config, { ...candidate, apiKey: trialKey });
    if (!trial.ok || !isKept) return trial;
    await saveSettings(directory, candidate);
    use(candidate);
    return trial;
  }

  return {
    router: {
      resolve: (name) => router.resolve(name),
      findLocal: () => router.findLocal(),
      describe: () => router.describe(),
      defaultRoute: () => router.defaultRoute(),
      list: () => router.list(),
      hostOf: (name) => router.hostOf(name),
    },
    test: (choice) => exclusively(() => attempt(choice, false)),
    save: (choice) => exclusively(() => attempt(choice, true)),
    clear: () =>
      exclusively(async () => {
        await removeSettings(directory);
        use(undefined);
        await router.findLocal();
      }),
    describe() {
      const { host, model } = router.defaultRoute();
      return {
        providers: Object.keys(known).map((id) => toProvider(id, router.hostOf(id))),
        current: {
          provider: host,
          model,
          baseUrl: toPublicUrl(router.hostOf(host)?.baseUrl),
          ...toKeyState(router.hostOf(host)),
          source: sourceOf({ config, saved, route: { host, model } }),
        },
        saved: saved ? toPublic(saved) : null,
        overriddenBy: saved ? overrides({ config, saved, router }) : [],
        isDemo: host === DEMO,
        problem,
      };
    },
  };
}

/** Whoever asks in a terminal comes without the server's check. */
function parseChoice(choice: SetupChoice): SetupChoice {
  const { data, error } = setupChoice.safeParse(choice);
  if (data) return data;
  throw setupError('invalid', error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '));
}

function toPublic({ provider, model, baseUrl, apiKey }: SavedHost) {
  return { provider, model, baseUrl, hasKey: apiKey !== undefined };
}

/** Local servers need none. */
const needsKey = (provider: string) => provider !== OLLAMA && provider !== 'openai-compatible';

/** As it is pasted: with the path of a call, without Ollama's /v1. Throws `setup.invalid`. */
function toBaseUrl(provider: string, text: string): string {
  const written = provider === OLLAMA && toOllamaUrl(text) ? `${toOllamaUrl(text)}/v1` : text;
  const url = URL.canParse(written) ? new URL(written) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw setupError('invalid', 'baseUrl: must be an address that begins with http:// or https://.');
  }
  if (url.username || url.password) throw setupError('invalid', 'baseUrl: must not hold a user or password.');
  if (url.search || url.hash) throw setupError('invalid', 'baseUrl: must not hold "?" or "#".');
  return url.href.replace(/\/+$/, '').replace(/\/(?:chat\/completions|messages|responses)$/, '');
}

function toKeyState(host: Host | undefined) {
  return { hasKey: host?.apiKey !== undefined, keySource: host?.keySource ?? null };
}

function toProvider(id: string, host: Host | undefined): ProviderDescription {
  const { label, kind, baseUrl, example, model, apiKeyEnv } = known[id]!;
  const place = toPublicUrl(host?.baseUrl);
  return {
    id,
    label,
    kind: kind ?? 'openai-compatible',
    needsKey: needsKey(id),
    needsBaseUrl: place === null || (baseUrl === undefined && kind === undefined && id !== OLLAMA),
    baseUrl: place,
    exampleBaseUrl: example ?? null,
    exampleModel: model ?? null,
    apiKeyEnv: host?.apiKeyEnv ?? apiKeyEnv ?? null,
    ...toKeyState(host),
  };
}

interface State {
  config: ModelsConfig;
  saved: SavedHost | undefined;
  route: { host: string; model: string };
}

function sourceOf({ config, saved, route: { host, model } }: State): SetupDescription['current']['source'] {
  if (config.default !== undefined) return 'config';
  if (saved?.provider === host && saved.model === model) return 'file';
  if (host === DEMO) return 'demo';
  if (config.hosts[host]?.models?.some((name) => name.trim() === model)) return 'config';
  return host === OLLAMA ? 'found' : 'env';
}

function overrides({ config, saved, router }: { config: ModelsConfig; saved: SavedHost; router: Router }) {
  const result: SetupDescription['overriddenBy'] = [];
  const { host, model } = router.defaultRoute();
  const used = router.hostOf(saved.provider);
  const file = 'in homard.config.yaml';
  if (host !== saved.provider || model !== saved.model) {
    result.push({ setting: 'model', by: config.default === undefined ? 'OPENAI_MODEL' : `models.default ${file}` });
  }
  if (used && used.baseUrl !== saved.baseUrl) {
    const isFile = config.hosts[saved.provider]?.baseUrl !== undefined;
    const variable = saved.provider === OLLAMA ? 'OLLAMA_HOST' : 'OPENAI_BASE_URL';
    result.push({ setting: 'baseUrl', by: isFile ? `models.hosts.${saved.provider}.baseUrl ${file}` : variable });
  }
  if (saved.apiKey !== undefined && used && used.keySource !== 'file') {
    result.push({ setting: 'apiKey', by: used.keySource === 'env' ? used.apiKeyEnv! : 'the other base URL' });
  }
  return result;
}
