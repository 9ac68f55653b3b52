// Model name -> model, by a prefix table. Keys come from the environment only and leave this folder in requests alone.
import type { Model } from '../kernel/model.ts';
import { createPackageModel } from './ai-sdk.ts';
import type { Breaker } from './breaker.ts';
import { createBreaker } from './breaker.ts';
import type { ModelsList } from './catalog.ts';
import { createCatalog } from './catalog.ts';
import type { ModelsConfig } from './config.ts';
import { DEMO, known, OLLAMA } from './config.ts';
import { createFailoverModel, fallbacksOf, toPrefix } from './failover.ts';
import type { Environment, Host, SavedHost } from './hosts.ts';
import { problemOf, toHosts, toPublicUrl } from './hosts.ts';
import { createOllamaSearch } from './ollama.ts';
import { createOpenAIWireModel } from './openai-wire.ts';
import { createResilientModel } from './resilient.ts';
import { createDemoModel } from './scripted.ts';

/** What is configured, for people: holds no key. */
export interface ModelsDescription {
  /** The model where a request names none. */
  default: string;
  hosts: HostDescription[];
}

export interface HostDescription {
  name: string;
  baseUrl: string | null;
  isConfigured: boolean;
  /** Where the key is looked for. */
  apiKeyEnv: string | null;
  hasKey: boolean;
  prefixes: string[];
}

export interface Router {
  /**
   * The model of a name such as `deepseek-chat` or `host/model`, or the default one. Throws `models.not_configured`
   * (400) that names what is missing; never gives another model instead.
   */
  resolve(modelName?: string | null): Model;
  /**
   * Looks for a running Ollama where no model is configured, for at most 300 ms; while the demo model stands in, again
   * with requests from then on. A router that was never told to never asks the network by itself.
   */
  findLocal(): Promise<void>;
  describe(): ModelsDescription;
  /** Where a request goes that names no model. */
  defaultRoute(): Route;
  /** What people can choose; asks the hosts that are configured, for at most two seconds. */
  list(): Promise<ModelsList>;
  /** As it is used: with its key. */
  hostOf(name: string): Host | undefined;
}

export interface Route {
  host: string;
  model: string;
}

const toKey = ({ host, model }: Route): string => `${host}/${model}`;

/** Models that are kept; names come from requests. */
const MAX_MODELS = 64;

export interface RouterOptions {
  /** Replaces the demo model, for example by one that does not pace its words. */
  demo?: Model;
  /** Milliseconds, on any clock. */
  now?: () => number;
  /** What the set-up saved; configuration and environment win over it. */
  saved?: SavedHost | undefined;
}

export function createRouter(config: ModelsConfig, env: Environment, options: RouterOptions = {}): Router {
  const { demo = createDemoModel(), now = () => performance.now(), saved } = options;
  const hosts = toHosts(config, env, saved);
  const table = toTable(config);
  const models = new Map<string, Model>();
  const breakers = new Map<string, Breaker>();
  const ollama = createOllamaSearch({ baseUrl: hosts.get(OLLAMA)?.baseUrl, now });

  function toRoute(name: string): Route {
    const lower = name.toLowerCase();
    if (lower === DEMO) return { host: DEMO, model: DEMO };
    const slash = lower.indexOf('/');
    const prefix = lower.slice(0, Math.max(slash, 0));
    if (hosts.has(prefix) && name.length > slash + 1) return { host: prefix, model: name.slice(slash + 1) };
    return { host: table.find((row) => lower.startsWith(row.prefix))?.host ?? 'openai', model: name };
  }

  function configuredRoute(): Route | undefined {
    if (config.default !== undefined) return toRoute(config.default.trim());
    // OPENAI_MODEL belongs to OPENAI_BASE_URL, whatever its prefix: local servers have models of all makers.
    const named = env.OPENAI_MODEL?.trim();
    if (named && !problemOf(hosts.get('openai')!, named)) return { host: 'openai', model: named };
    if (saved) return { host: saved.provider, model: saved.model };
    // The presets in their order, then what the file lists.
    const presets = Object.entries(known).flatMap(([host, { model }]) => (model === undefined ? [] : { host, model }));
    return [...presets, ...modelsOf(config)].find(({ host, model }) => !problemOf(hosts.get(host)!, model));
  }

  function defaultRoute(): Route {
    const route = configuredRoute();
    if (route) return route;
    ollama.refresh();
    return ollama.model === undefined ? { host: DEMO, model: DEMO } : { host: OLLAMA, model: ollama.model };
  }

  /** The shortest name that leads there. */
  function nameOf(route: Route): string {
    const isShort = route.host !== OLLAMA && toKey(toRoute(route.model)) === toKey(route);
    return isShort ? route.model : toKey(route);
  }

  function describe(): ModelsDescription {
    return {
      default: nameOf(defaultRoute()),
      hosts: [...hosts.values()].map((host) => ({
        name: host.name,
        baseUrl: toPublicUrl(host.baseUrl),
        isConfigured: !problemOf(host, host.name),
        apiKeyEnv: host.apiKeyEnv ?? null,
        hasKey: host.apiKey !== undefined,
        prefixes: table.filter((row) => row.host === host.name).map((row) => row.prefix),
      })),
    };
  }

  const catalog = createCatalog({
    hosts: [...hosts.values()].filter((host) => !problemOf(host, host.name)),
    named: [...namesIn(config).map(toRoute), ...(saved ? [{ host: saved.provider, model: saved.model }] : [])],
    nameOf,
    now,
  });

  function create({ host: name, model }: Route): Model {
    if (name === DEMO) return demo;
    const host = hosts.get(name)!;
    const problem = problemOf(host, model);
    if (problem) throw problem;
    const { baseUrl = '', apiKey, headers, limits, files, schemas } = host;
    const wire = {
      name: model,
      model,
      provider: name,
      baseUrl,
      headers,
      limits,
      files,
      schemas,
      ...(apiKey && { apiKey }),
    };
    const bare = host.kind ? createPackageModel({ ...wire, kind: host.kind }) : createOpenAIWireModel(wire);
    const watched = name === OLLAMA ? ollama.watch(bare) : bare;
    return createResilientModel(breakerOf(name).guard(watched), { retries: config.retries });
  }

  function breakerOf(host: string): Breaker {
    const breaker = breakers.get(host) ?? createBreaker({ host, ...config.breaker });
    breakers.set(host, breaker);
    return breaker;
  }

  function withFallbacks(route: Route): Model {
    const first = create(route);
    const key = toKey(route);
    const names = fallbacksOf(config.fallbacks, [route.model, key]).filter((name) => toKey(toRoute(name)) !== key);
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
    async findLocal() {
      if (!configuredRoute()) await ollama.look();
    },
    describe,
    defaultRoute,
    hostOf: (name) => hosts.get(name),
    async list() {
      const { default: standard, hosts: described } = describe();
      const { models, reachable } = await catalog.list({ name: standard, host: defaultRoute().host });
      return {
        default: standard,
        isDemo: defaultRoute().host === DEMO,
        models,
        hosts: described.map((host) => ({ ...host, isReachable: reachable.get(host.name) ?? null })),
      };
    },
  };
}

/** Models that hosts of the file list by whole names: what ends in a sign, such as `llama*` or `gpt-`, is a prefix. */
function modelsOf({ hosts }: ModelsConfig): Route[] {
  const rows = Object.entries(hosts).flatMap(([host, { models = [] }]) =>
    models.map((model) => ({ host, model: model.trim() })),
  );
  return rows.filter(({ model }) => /[\p{L}\p{N}]$/u.test(model));
}

/** Names of models that the configuration holds; a prefix with a star is none. */
function namesIn({ hosts, table, fallbacks }: ModelsConfig): string[] {
  const own = Object.entries(hosts).flatMap(([host, { models = [] }]) => models.map((model) => `${host}/${model}`));
  const listed = [...Object.keys(table), ...own, ...Object.values(fallbacks).flat()];
  return listed.map((name) => name.trim()).filter((name) => name && !name.endsWith('*'));
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
