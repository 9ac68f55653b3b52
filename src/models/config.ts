// What may be configured of models: the `models:` key of the configuration file, and the hosts that are known by name.
import * as z from 'zod';
import type { PackageKind } from './ai-sdk-packages.ts';
import { packageKinds } from './ai-sdk-packages.ts';
import { breakerConfig } from './breaker.ts';
import { defaultModelLimits } from './clock.ts';
import { fileKinds } from './files.ts';
import { schemaDialects } from './schema-dialect.ts';

interface Preset {
  /** As people know it. */
  label: string;
  apiKeyEnv?: string;
  prefixes: string[];
  /** Where the configuration says nothing of the host. Default: openai-compatible. */
  kind?: PackageKind;
  baseUrl?: string;
  example?: string;
  /** One of its models, to begin with. */
  model?: string;
}

/** The hosts that are known by name. Without `baseUrl` the configuration must give one. */
export const known: Record<string, Preset> = {
  openai: {
    label: 'OpenAI',
    apiKeyEnv: 'OPENAI_API_KEY',
    prefixes: [],
    baseUrl: 'https://api.openai.com/v1',
    model: 'gpt-5-mini',
  },
  anthropic: {
    label: 'Anthropic',
    apiKeyEnv: 'ANTHROPIC_API_KEY',
    prefixes: ['claude'],
    kind: 'anthropic',
    model: 'claude-sonnet-4-5',
  },
  deepseek: {
    label: 'DeepSeek',
    apiKeyEnv: 'DEEPSEEK_API_KEY',
    prefixes: ['deepseek'],
    baseUrl: 'https://api.deepseek.com/v1',
    model: 'deepseek-chat',
  },
  qwen: {
    label: 'Qwen (Alibaba Cloud)',
    model: 'qwen-plus',
    apiKeyEnv: 'DASHSCOPE_API_KEY',
    prefixes: ['qwen'],
    baseUrl: 'https://dashscope.aliyuncs.com/compatible-mode/v1',
  },
  glm: {
    label: 'GLM (Zhipu)',
    apiKeyEnv: 'ZHIPUAI_API_KEY',
    prefixes: ['glm'],
    example: 'https://open.bigmodel.cn/api/paas/v4',
    model: 'glm-4.6',
  },
  doubao: {
    label: 'Doubao (Volcengine)',
    apiKeyEnv: 'ARK_API_KEY',
    prefixes: ['doubao'],
    example: 'https://ark.cn-beijing.volces.com/api/v3',
    model: 'doubao-seed-1-6-250615',
  },
  'openai-compatible': {
    label: 'Another server (OpenAI-compatible)',
    apiKeyEnv: 'OPENAI_COMPATIBLE_API_KEY',
    prefixes: ['openai-compatible'],
    example: 'http://127.0.0.1:8000/v1',
  },
  ollama: { label: 'Ollama', prefixes: [], example: 'http://127.0.0.1:11434/v1' },
};

/** The name of the demo model, and of its host. */
export const DEMO = 'demo';
export const OLLAMA = 'ollama';

const ms = (what: string) => z.int().min(1).describe(`Milliseconds ${what}`);
const { firstTokenMs, idleMs, totalMs } = defaultModelLimits;
const limits = z.strictObject({
  firstTokenMs: ms(`from the call to the first part of the answer. Default ${firstTokenMs}.`).optional(),
  idleMs: ms(`between two parts; pings do not count. Default ${idleMs}.`).optional(),
  totalMs: ms(`from the call to the end of the answer. Default ${totalMs}.`).optional(),
});

const isPublic = (headers: Record<string, string>) =>
  !Object.keys(headers).some((name) => /authorization|cookie|key|token|secret/i.test(name));

export const toPackageKind = (kind?: string): PackageKind | undefined => packageKinds.find((known) => known === kind);

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
  files: z
    .array(z.enum(fileKinds))
    .optional()
    .describe(
      'Files that its models take; text goes to every model. Default: image and pdf for openai and anthropic, none for deepseek, else image.',
    ),
  schemas: z
    .enum(schemaDialects)
    .optional()
    .describe('What it takes of JSON Schema; plain is the least. Default: by kind, address and model, else openai.'),
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
      .describe(
        'Model where a request names none. Default: the example model of the first of openai, anthropic, deepseek, qwen, glm and doubao that has its key and address, else the first whole name in models.hosts.*.models, else one of a running Ollama, else the demo model.',
      ),
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
    breaker: breakerConfig,
    limits: limits.default({}).describe('Time limits of each model call.'),
  })
  .superRefine(({ hosts, table }, context) => {
    if (Object.hasOwn(hosts, DEMO)) {
      context.addIssue({ code: 'custom', path: ['hosts', DEMO], message: `"${DEMO}" is the name of the demo model.` });
    }
    for (const [prefix, name] of Object.entries(table)) {
      if (Object.hasOwn(hosts, name) || Object.hasOwn(known, name) || name === DEMO) continue;
      const message = `There is no host "${name}". Hosts: ${[...new Set([...Object.keys(known), ...Object.keys(hosts)])].join(', ')}.`;
      context.addIssue({ code: 'custom', path: ['table', prefix], message });
    }
  })
  .prefault({});

export type ModelsConfig = z.output<typeof modelsConfig>;
export type ModelsConfigInput = NonNullable<z.input<typeof modelsConfig>>;
