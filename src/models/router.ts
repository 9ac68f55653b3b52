// Model name -> model, by a prefix table. Keys come from the environment only and never leave this file but in requests.
import * as z from 'zod';
import type { AgentError } from '../kernel/errors.ts';
import type { Model } from '../kernel/model.ts';
import { createPackageModel } from './ai-sdk.ts';
import type { Breaker } from './breaker.ts';
import { createBreaker } from './breaker.ts';
import { modelsError } from './errors.ts';
import { createFailoverModel } from './failover.ts';
import type { PackageKind } from './ai-sdk-packages.ts';
import { packageBaseUrl, packageKinds } from './ai-sdk-packages.ts';
import type { ModelLimits } from './openai-wire.ts';
import { createOpenAIWireModel, defaultModelLimits } from './openai-wire.ts';
import { createResilientModel } from './resilient.ts';
import { createDemoModel } from './scripted.ts';

interface Preset {
  apiKeyEnv: string;
  prefixes: string[];
  /** Where the configuration says nothing of the host. Default: openai-compatible. */
  kind?: PackageKind;
  baseUrl?: string;
  example?: string;
}

/** The hosts that are known by name. Without `baseUrl` the configuration must give one. */
const known: Record<string, Preset> = {
  openai: { apiKeyEnv: 'OPENAI_API_KEY', prefixes: [], baseUrl: 'https://api.openai.com/v1' },
  anthropic: { apiKeyEnv: 'ANTHROPIC_API_KEY', prefixes: ['claude'], kind: 'anthropic' },
  deepseek: { apiKeyEnv: 'DEEPSEEK_API_KEY', prefixes: ['deepseek'], baseUrl: 'https://api.deepseek.com/v1' },
  qwen: {
    apiKeyEnv: 'DASHSCOPE_API_KEY',
    prefixes: ['qwen'],
    baseUrl: 'https://dashscope.aliyuncs.com/compatible-mode/v1',
  },
  glm: { apiKeyEnv: 'ZHIPUAI_API_KEY', prefixes: ['glm'], example: 'https://open.bigmodel.cn/api/paas/v4' },
  doubao: { apiKeyEnv: 'ARK_API_KEY', prefixes: ['doubao'], example: 'https://ark.cn-beijing.volces.com/api/v3' },
  'openai-compatible': {
    apiKeyEnv: 'OPENAI_COMPATIBLE_API_KEY',
    prefixes: ['openai-compatible'],
    example: 'http://127.0.0.1:8000/v1',
  },
};

/** Taken in this order where nobody names a model. */
const firstModels = { openai: 'gpt-5-mini', deepseek: 'deepseek-chat', qwen: 'qwen-plus' };

const DEMO = 'demo';

const ms = (what: string) => z.int().min(1).describe(`Milliseconds ${what}`);
const { firstTokenMs, idleMs, totalMs } = defaultModelLimits;
const limits = z.strictObject({
  firstTokenMs: ms(`from the call to the first part of the answer. Default ${firstTokenMs}.`).optional(),
  idleMs: ms(`between two parts; pings do not count. Default ${idleMs}.`).optional(),
  totalMs: ms(`from the call to the end of the answer. Default ${totalMs}.`).optional(),
});

const isPublic = (headers: Record<string, string>) =>
  !Object.keys(headers).some((name) => /authorization|cookie|key|token|secret/i.test(name));

const toPackageKind = (kind?: string): PackageKind | undefined => packageKinds.find((known) => known === kind);

const hostShape = z.strictObject({
  kind: z
    .enum(['openai-compatible', ...packageKinds])
    .optional()
    .describe('Protocol of the host. All but openai-compatible, the default, need their package @ai-sdk/<kind>.'),
  baseUrl: z
    .url({ protocol: /^https?$/, error: 'Must be an http(s) address.' })
    .refine((url) => !/^\w+:\/\/[^/?#]*@/.test(url), 'Must not hold a user or password.')
    .optional()
    .describe('Address of the API, up to and without /chat/completions. Required for the kind openai-compatible.'),
  apiKeyEnv: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'Must be the name of an environment variable.')
    .optional()
    .describe('Environment variable that holds the key. Default: that of a host known by name, else no key is sent.'),
  apiKey: z
    .never({ error: 'Keys do not belong into this file: name an environment variable in apiKeyEnv.' })
    .optional()
    .describe('Not allowed: name an environment variable in apiKeyEnv.'),
  models: z
    .array(z.string().min(1))
    .optional()
    .describe('Prefixes of the model names that go to this host, in any case. Default: none.'),
  headers: z
    .record(z.string(), z.string())
    .refine(isPublic, 'Keys and tokens do not belong into this file: use apiKeyEnv.')
    .optional()
    .describe('Further HTTP headers of each request; no keys. Default: none.'),
  limits: limits.optional().describe('Time limits of this host. Default: models.limits.'),
});
const host = hostShape.refine(({ kind, baseUrl }) => baseUrl ?? toPackageKind(kind), {
  path: ['baseUrl'],
  error: 'Required for a host of the kind openai-compatible.',
});

/** The `models:` key of the configuration file. */
export const modelsConfig = z
  .strictObject({
    default: z
      .string()
      .min(1)
      .optional()
      .describe('Model where a request names none. Default: that of the first configured key, else the demo model.'),
    hosts: z
      .record(z.string().regex(/^[a-z0-9][a-z0-9._-]*$/, 'Must be lower case letters, digits, ".", "_" or "-".'), host)
      .default({})
      .describe('Hosts by name. A model named "host/model" goes to that host. Default: those known by name.'),
    table: z
      .record(z.string().min(1), z.string())
      .default({})
      .describe('Prefix of model names -> host, beside and above the built-in ones; the longest prefix wins.'),
    retries: z
      .int()
      .min(0)
      .max(10)
      .default(2)
      .describe('Attempts after a failed first one, before the first part. Default 2.'),
    fallbacks: z
      .record(z.string().min(1), z.array(z.string().min(1)))
      .default({})
      .describe(
        'Model, "host/model" or a prefix of them -> models that are asked in this order where it fails; "*" is any. The longest prefix wins. Default: none.',
      ),
    limits: limits.default({}).describe('Time limits of each model call.'),
  })
  .superRefine(({ hosts, table }, context) => {
    if (DEMO in hosts) {
      context.addIssue({ code: 'custom', path: ['hosts', DEMO], message: `"${DEMO}" is the name of the demo model.` });
    }
    for (const [prefix, name] of Object.entries(table)) {
      if (name in hosts || name in known || name === DEMO) continue;
      const message = `There is no host "${name}". Hosts: ${[...new Set([...Object.keys(known), ...Object.keys(hosts)])].join(', ')}.`;
      context.addIssue({ code: 'custom', path: ['table', prefix], message });
    }
  })
  .prefault({});

export type ModelsConfig = z.output<typeof modelsConfig>;
export type ModelsConfigInput = NonNullable<z.input<typeof modelsConfig>>;

/** What is configured, for people: holds no key. */
export interface ModelsDescription {
  /** The model where a request names none. */
  default: string;
  hosts: {
    name: string;
    baseUrl: string | null;
    isConfigured: boolean;
    /** Where the key is looked for. */
    apiKeyEnv: string | null;
    hasKey: boolean;
    prefixes: string[];
  }[];
}

export interface Router {
  /**
   * The model of a name such as `deepseek-chat` or `host/model`, or the default one. Throws `models.not_configured`
   * (400) that names what is missing; never gives another model instead.
   */
  resolve(modelName?: string | null): Model;
  describe(): ModelsDescription;
}

type Environment = Record<string, string | undefined>;

interface Host {
  name: string;
  /** Absent: OpenAI-compatible. */
  kind: PackageKind | undefined;
  baseUrl: string | undefined;
  apiKeyEnv: string | undefined;
  apiKey: string | undefined;
  isKeyRequired: boolean;
  headers: Record<string, string>;
  limits: Partial<ModelLimits>;
}

interface Route {
  host: string;
  model: string;
}

const toKey = ({ host, model }: Route): string => `${host}/${model}`;

/** The fallbacks of the longest prefix that any of a model's names has. */
function fallbacksOf({ fallbacks }: ModelsConfig, names: string[]): string[] {
  const rows = Object.entries(fallbacks).map(([prefix, list]) => [toPrefix(prefix), list] as const);
  const fitting = rows.filter(([prefix]) => names.some((name) => name.toLowerCase().startsWith(prefix)));
  const [, list = []] = fitting.sort(([a], [b]) => b.length - a.length)[0] ?? [];
  return [...new Set(list.map((name) => name.trim()))];
}

const toPrefix = (text: string): string => text.trim().toLowerCase().replace(/\*$/, '');

/** Models that are kept; names come from requests. */
const MAX_MODELS = 64;

/** `demo` replaces the demo model, for example by one that does not pace its words. */
export function createRouter(config: ModelsConfig, env: Environment, options: { demo?: Model } = {}): Router {
  const { demo = createDemoModel() } = options;
  const hosts = toHosts(config, env);
  const table = toTable(config);
  const models = new Map<string, Model>();
  const breakers = new Map<string, Breaker>();

  function toRoute(name: string): Route {
    const lower = name.toLowerCase();
    if (lower === DEMO) return { host: DEMO, model: DEMO };
    const slash = lower.indexOf('/');
    const prefix = lower.slice(0, Math.max(slash, 0));
    if (hosts.has(prefix) && name.length > slash + 1) return { host: prefix, model: name.slice(slash + 1) };
    return { host: table.find((row) => lower.startsWith(row.prefix))?.host ?? 'openai', model: name };
  }

  function defaultRoute(): Route {
    if (config.default !== undefined) return toRoute(config.default.trim());
    for (const [name, model] of Object.entries(firstModels)) {
      if (problemOf(hosts.get(name)!, model)) continue;
      // OPENAI_MODEL belongs to OPENAI_BASE_URL, whatever its prefix: local servers have models of all makers.
      return { host: name, model: (name === 'openai' && env.OPENAI_MODEL?.trim()) || model };
    }
    return { host: DEMO, model: DEMO };
  }

  function create({ host: name, model }: Route): Model {
    if (name === DEMO) return demo;
    const host = hosts.get(name)!;
    const problem = problemOf(host, model);
    if (problem) throw problem;
    const { baseUrl = '', apiKey, headers, limits } = host;
    const wire = { name: model, model, provider: name, baseUrl, headers, limits, ...(apiKey && { apiKey }) };
    const bare = host.kind ? createPackageModel({ ...wire, kind: host.kind }) : createOpenAIWireModel(wire);
    return createResilientModel(breakerOf(name).guard(bare), { retries: config.retries });
  }

  function breakerOf(host: string): Breaker {
    const breaker = breakers.get(host) ?? createBreaker({ host });
    breakers.set(host, breaker);
    return breaker;
  }

  function withFallbacks(route: Route): Model {
    const first = create(route);
    const key = toKey(route);
    const names = fallbacksOf(config, [route.model, key]).filter((name) => toKey(toRoute(name)) !== key);
    const others = names.map((name) => {
      // One that is not configured is told where it is asked, and the next one is: the chosen model may well answer.
      let made: Model | undefined;
      const call: Model['call'] = async (...args) => (made ??= create(toRoute(name))).call(...args);
      return { name, call };
    });
    return others.length ? createFailoverModel([first, ...others]) : first;
  }

  return {
    resolve(modelName) {
      const name = modelName?.trim();
      const route = name ? toRoute(name) : defaultRoute();
      const key = toKey(route);
      let model = models.get(key);
      if (!model) {
        model = withFallbacks(route);
        const oldest = models.keys().next();
        if (models.size >= MAX_MODELS && !oldest.done) models.delete(oldest.value);
        models.set(key, model);
      }
      return model;
    },
    describe: () => ({
      default: config.default ?? defaultRoute().model,
      hosts: [...hosts.values()].map((host) => ({
        name: host.name,
        baseUrl: toPublicUrl(host.baseUrl),
        isConfigured: !problemOf(host, host.name),
        apiKeyEnv: host.apiKeyEnv ?? null,
        hasKey: host.apiKey !== undefined,
        prefixes: table.filter((row) => row.host === host.name).map((row) => row.prefix),
      })),
    }),
  };
}

function toHosts({ hosts, limits }: ModelsConfig, env: Environment): Map<string, Host> {
  const names = new Set([...Object.keys(known), ...Object.keys(hosts)]);
  const result = new Map<string, Host>();
  for (const name of names) {
    const given = hosts[name];
    const preset = known[name];
    const apiKeyEnv = given?.apiKeyEnv ?? preset?.apiKeyEnv;
    const envUrl = name === 'openai' ? env.OPENAI_BASE_URL?.trim() || undefined : undefined;
    const kind = given ? toPackageKind(given.kind) : preset?.kind;
    result.set(name, {
      name,
      kind,
      baseUrl: given?.baseUrl ?? envUrl ?? preset?.baseUrl ?? (kind && packageBaseUrl(kind)),
      apiKeyEnv,
      apiKey: (apiKeyEnv && env[apiKeyEnv]?.trim()) || undefined,
      // An address of one's own may need no key.
      isKeyRequired: given?.apiKeyEnv !== undefined || (given?.baseUrl ?? envUrl) === undefined,
      headers: given?.headers ?? {},
      limits: { ...limits, ...given?.limits },
    });
  }
  return result;
}

/** Longest prefix first. For equal ones the table is above the hosts, and those above the built-in prefixes. */
function toTable({ hosts, table }: ModelsConfig): { prefix: string; host: string }[] {
  const rows = new Map<string, string>();
  const add = (prefix: string, host: string) => rows.set(toPrefix(prefix), host);
  for (const [name, { prefixes }] of Object.entries(known)) for (const prefix of prefixes) add(prefix, name);
  for (const [name, { models = [] }] of Object.entries(hosts)) for (const prefix of models) add(prefix, name);
  for (const [prefix, name] of Object.entries(table)) add(prefix, name);
  return [...rows].map(([prefix, host]) => ({ prefix, host })).sort((a, b) => b.prefix.length - a.prefix.length);
}

/** Why a host cannot be asked, and what to do; undefined when it can. */
function problemOf({ name, baseUrl, apiKey, apiKeyEnv, isKeyRequired }: Host, model: string): AgentError | undefined {
  const problem = (message: string, hint: string) =>
    modelsError('not_configured', message, { hint, data: { host: name, apiKeyEnv: apiKeyEnv ?? null } });
  if (!baseUrl) {
    const example = known[name]?.example ?? 'https://host/v1';
    return problem(
      `The model "${model}" goes to the host "${name}", which is not configured: it needs a base URL, and its key in ${apiKeyEnv}.`,
      `Set models.hosts.${name}.baseUrl in homard.config.yaml (for example ${example}), set ${apiKeyEnv}, and start again.`,
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

function toPublicUrl(baseUrl: string | undefined): string | null {
  if (!baseUrl || !URL.canParse(baseUrl)) return null;
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname}`;
}
