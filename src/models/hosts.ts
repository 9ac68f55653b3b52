// The hosts of models, from configuration and environment: where each is, with which key, and what it still lacks.
import type { AgentError } from '../kernel/errors.ts';
import type { PackageKind } from './ai-sdk-packages.ts';
import { packageBaseUrl } from './ai-sdk-packages.ts';
import type { ModelLimits } from './clock.ts';
import type { ModelsConfig } from './config.ts';
import { known, OLLAMA, toPackageKind } from './config.ts';
import { modelsError } from './errors.ts';
import type { FileKind } from './files.ts';
import { defaultFiles } from './files.ts';
import { ollamaBaseUrl } from './ollama.ts';

export type Environment = Record<string, string | undefined>;

export interface Host {
  name: string;
  /** Absent: OpenAI-compatible. */
  kind: PackageKind | undefined;
  baseUrl: string | undefined;
  apiKeyEnv: string | undefined;
  apiKey: string | undefined;
  /** Where the key is from: the environment, or what was saved by the set-up. */
  keySource: 'env' | 'file' | undefined;
  isKeyRequired: boolean;
  headers: Record<string, string>;
  limits: Partial<ModelLimits>;
  files: readonly FileKind[];
  schemas: ModelsConfig['hosts'][string]['schemas'];
}

/** What the set-up saved: the model where a request names none, its host, a key and the address to which alone that goes. */
export interface SavedHost {
  provider: string;
  model: string;
  baseUrl: string;
  apiKey?: string | undefined;
}

export function toHosts({ hosts, limits }: ModelsConfig, env: Environment, saved?: SavedHost): Map<string, Host> {
  const names = new Set([...Object.keys(known), ...Object.keys(hosts)]);
  const result = new Map<string, Host>();
  for (const name of names) {
    const given = hosts[name];
    const preset = known[name];
    const apiKeyEnv = given?.apiKeyEnv ?? preset?.apiKeyEnv;
    const kind = given ? toPackageKind(given.kind) : preset?.kind;
    const place = given?.baseUrl ?? urlFrom(env, name);
    const usual =
      place ?? preset?.baseUrl ?? (kind && packageBaseUrl(kind)) ?? (name === OLLAMA ? ollamaBaseUrl(env) : undefined);
    const own = saved?.provider === name ? saved : undefined;
    const baseUrl = place ?? own?.baseUrl ?? usual;
    // A key goes to the address that it was given for, and to no other.
    const isUsual = usual === undefined ? isExample(name, baseUrl) : baseUrl === usual;
    const envKey = (apiKeyEnv && isUsual && env[apiKeyEnv]?.trim()) || undefined;
    const savedKey = own && own.baseUrl === baseUrl ? own.apiKey : undefined;
    result.set(name, {
      name,
      kind,
      baseUrl,
      apiKeyEnv,
      apiKey: envKey ?? savedKey,
      keySource: envKey ? 'env' : savedKey ? 'file' : undefined,
      // An address of one's own may need no key.
      isKeyRequired: given?.apiKeyEnv !== undefined || (name !== OLLAMA && place === undefined && baseUrl === usual),
      headers: given?.headers ?? {},
      schemas: given?.schemas,
      limits: { ...limits, ...given?.limits },
      // At an address of one's own "openai" is but the protocol.
      files:
        given?.files ?? defaultFiles(kind ?? (name === 'openai' && (place !== undefined || !isUsual) ? 'other' : name)),
    });
  }
  return result;
}

/** Hosts of many addresses: the key of the environment is for the maker's own. */
function isExample(name: string, baseUrl: string | undefined): boolean {
  const [example, own] = [known[name]?.example, baseUrl].map((url) => URL.parse(url ?? '')?.origin);
  return baseUrl === undefined || (own !== undefined && own === example);
}

function urlFrom(env: Environment, name: string): string | undefined {
  if (name === 'openai') return env.OPENAI_BASE_URL?.trim() || undefined;
  const isGiven = env.OLLAMA_BASE_URL?.trim() || env.OLLAMA_HOST?.trim();
  return name === OLLAMA && isGiven ? ollamaBaseUrl(env) : undefined;
}

/** Why a host cannot be asked, and what to do; undefined when it can. */
export function problemOf(
  { name, baseUrl, apiKey, apiKeyEnv, isKeyRequired }: Host,
  model: string,
): AgentError | undefined {
  const problem = (message: string, hint: string) =>
    modelsError('not_configured', message, { hint, data: { host: name, apiKeyEnv: apiKeyEnv ?? null } });
  if (!baseUrl) {
    const example = known[name]?.example ?? 'https://host/v1';
    return problem(
      `The model "${model}" goes to the host "${name}", which is not configured: it needs a base URL${apiKeyEnv ? `, and its key in ${apiKeyEnv}` : ''}.`,
      `Set models.hosts.${name}.baseUrl in homard.config.yaml (for example ${example}), ${apiKeyEnv ? `set ${apiKeyEnv}` : 'or correct OLLAMA_HOST'}, and start again.`,
    );
  }
  if (!apiKey && isKeyRequired) {
    const other = name === 'openai' ? ' For a local server set OPENAI_BASE_URL.' : '';
    return problem(
      `The model "${model}" goes to the host "${name}", which has no key: ${apiKeyEnv} is not set.`,
      `Set the environment variable ${apiKeyEnv} and start again, or choose another model.${other}`,
    );
  }
  if (apiKey && !/^[\x21-\x7e]+$/.test(apiKey)) {
    return problem(
      `${apiKeyEnv} is set, but holds characters that no key has.`,
      `Correct the environment variable ${apiKeyEnv}: it may hold a blank, a quotation mark or a line end.`,
    );
  }
  return undefined;
}

/** Without what may be secret. */
export function toPublicUrl(baseUrl: string | undefined): string | null {
  if (!baseUrl || !URL.canParse(baseUrl)) return null;
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname}`;
}
