// The configuration: homard.config.yaml for what may be read by anybody, the environment for secrets and addresses.
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse as parseYaml } from 'yaml';
import * as z from 'zod';
import { defineErrors, messageOf } from './kernel/index.ts';
import { modelsConfig } from './models/config.ts';
import { pricesConfig } from './models/prices.ts';
import { sandboxConfig } from './sandbox/config.ts';

export const configError = defineErrors('config', {
  invalid: { status: 500, hint: 'Correct homard.config.yaml, or the environment variable that is named.' },
  not_found: { status: 500, hint: 'Give the path of an existing file in HOMARD_CONFIG, or unset it.' },
});

export const configSchema = z.strictObject({
  host: z
    .string()
    .default('127.0.0.1')
    .describe('Address to listen on. Anything but a loopback address is reachable by others.'),
  port: z.int().min(0).max(65_535).default(4680).describe('TCP port; 0 takes a free one.'),
  hosts: z
    .array(z.string())
    .default([])
    .describe('Further host names (with or without port) under which pages may call the server.'),
  data: z
    .string()
    .default('.homard')
    .describe('Directory of the embedded database, secrets and files; relative to the working directory.'),
  workspace: z
    .string()
    .min(1)
    .optional()
    .describe('Folder of what people may read, such as conversations; below the data directory when absent.'),
  transcripts: z.boolean().default(true).describe('Each conversation is also a YAML file in the workspace.'),
  bodyLimitBytes: z.int().min(1024).default(5_000_000).describe('Largest request body, in bytes.'),
  fileLimitBytes: z.int().min(1).default(20_000_000).describe('Largest file that is taken, in bytes.'),
  heartbeatSeconds: z.number().min(0.05).default(15).describe('Pause between heartbeats in event streams, in seconds.'),
  backlogBytes: z
    .int()
    .min(1024)
    .default(1_000_000)
    .describe('How far a reader of an event stream may be behind, in bytes.'),
  system: z.string().max(100_000).optional().describe('System prompt of the assistant; a short one when absent.'),
  limits: z
    .strictObject({
      steps: z.int().min(1).default(50).describe('Model calls a run.'),
      runMs: z.int().min(100).default(1_800_000).describe('Time a run may take, in milliseconds.'),
      toolMs: z.int().min(100).default(120_000).describe('Time a tool call may take, in milliseconds.'),
    })
    .prefault({}),
  window: z
    .strictObject({
      messages: z.int().min(4).default(50).describe('Entries of a conversation that the model sees at most.'),
      tokens: z.int().min(1000).default(100_000).describe('The same in tokens, as estimated from bytes.'),
      resultChars: z
        .int()
        .min(1000)
        .default(50_000)
        .describe('Longer tool results are shown by head and tail. Characters.'),
    })
    .prefault({}),
  backup: z
    .strictObject({
      everyHours: z
        .number()
        .min(0)
        .max(500)
        .optional()
        .describe(
          'Hours between automatic backups to "backups" in the data directory; 0 makes none. 24 when absent, 0 on PostgreSQL.',
        ),
      keep: z.int().min(1).max(1000).default(7).describe('Automatic backups that are kept.'),
    })
    .prefault({}),
  retention: z
    .strictObject({
      conversationDays: z
        .number()
        .min(1)
        .optional()
        .describe('Days after which a conversation that nobody touched is deleted; all are kept when absent.'),
    })
    .prefault({}),
  sandbox: sandboxConfig.prefault({}),
  mask: z
    .strictObject({
      names: z
        .array(z.string().min(1))
        .default([])
        .describe(
          'Names of arguments and of fields of results whose values are not shown, beside password, token and the like.',
        ),
    })
    .prefault({}),
  prices: pricesConfig.default({}),
  models: modelsConfig.prefault({}),
});

export type ConfigInput = z.input<typeof configSchema>;

export interface Config extends z.output<typeof configSchema> {
  /** `postgres://...`; absent: the embedded store below `data`. */
  databaseUrl: string | undefined;
  /** A bearer token that is the owner's. */
  token: string | undefined;
  /** The file that was read. */
  file: string | undefined;
}

type Environment = Record<string, string | undefined>;

/** Reads the file (HOMARD_CONFIG, else homard.config.yaml where it exists) and the environment. Throws `config.*`. */
export function loadConfig(environment: Environment = process.env): Config {
  const file = environment.HOMARD_CONFIG || (existsSync('homard.config.yaml') ? 'homard.config.yaml' : undefined);
  const input = file === undefined ? {} : readFile(file);
  const overrides = {
    ...(environment.HOMARD_HOST && { host: environment.HOMARD_HOST }),
    ...(environment.HOMARD_PORT && { port: toPort(environment.HOMARD_PORT) }),
    ...(environment.HOMARD_DATA && { data: environment.HOMARD_DATA }),
  };
  const config = toConfig({ ...input, ...overrides }, file ?? 'The configuration');
  return {
    ...config,
    data: resolve(config.data),
    databaseUrl: environment.HOMARD_DATABASE_URL || undefined,
    token: toToken(environment.HOMARD_TOKEN),
    file,
  };
}

/** What a value means with all defaults. Throws `config.invalid` with the path of each problem. */
export function toConfig(value: unknown, source: string): z.output<typeof configSchema> {
  const result = configSchema.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues.map(
    ({ path, message }) => `${path.map(String).join('.') || 'top level'}: ${message}`,
  );
  throw configError('invalid', `${source} is not valid: ${problems.join('; ')}`);
}

function toToken(text: string | undefined): string | undefined {
  if (!text) return undefined;
  if (/^[\x21-\x7e]+$/.test(text)) return text;
  throw configError('invalid', 'HOMARD_TOKEN holds a blank or a character that no HTTP header can carry.');
}

function toPort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw configError('invalid', `HOMARD_PORT is "${text}", not a port between 0 and 65535.`);
}

function readFile(file: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw configError('not_found', `The configuration ${file} cannot be read: ${messageOf(error)}`, { cause: error });
  }
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (error) {
    throw configError('invalid', `${file} is not YAML: ${messageOf(error)}`, { cause: error });
  }
  if (value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw configError('invalid', `${file} must hold keys and values, such as "port: 4680".`);
  }
  return value as Record<string, unknown>;
}
