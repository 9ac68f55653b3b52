// docs/CONFIG.md from the schema of the configuration, docs/ERRORS.md from the catalogue of errors. Without an option it
// says what is not up to date; with --write it brings it up to date.
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { configSchema } from '../src/config.ts';
import type { ErrorKind } from '../src/kernel/errors.ts';
import { known } from '../src/models/config.ts';

interface Schema {
  type?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  default?: unknown;
  description?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  format?: string;
  not?: Schema;
}

interface Row {
  path: string;
  schema: Schema;
}

const problems: string[] = [];
const sources = new Map(
  globSync('src/**/*.ts', { exclude: ['src/testing/**'] }).map((path) => [
    path.replaceAll('\\', '/'),
    readFileSync(path, 'utf8'),
  ]),
);

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('\n', ' ');
const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

const isObject = (schema: Schema) => schema.properties !== undefined;
const valuesOf = ({ additionalProperties }: Schema) =>
  typeof additionalProperties === 'object' ? additionalProperties : undefined;

function rowsOf(path: string, schema: Schema): Row[] {
  if (schema.properties) {
    return Object.entries(schema.properties).flatMap(([key, value]) => rowsOf(path ? `${path}.${key}` : key, value));
  }
  const within = valuesOf(schema) ?? schema.items;
  const name = valuesOf(schema) ? `${path}.<name>` : `${path}[]`;
  const own = schema.not ? [] : [{ path, schema }];
  return within && isObject(within) ? [...own, ...rowsOf(name, within)] : own;
}

function typeOf(schema: Schema): string {
  const any = schema.anyOf ?? schema.oneOf;
  if (any) return any.map(typeOf).join(' or ');
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${String(value)}\``).join(' or ');
  if (schema.items) return `list of ${typeOf(schema.items)}`;
  const values = valuesOf(schema);
  if (values) return `map of name to ${isObject(values) ? 'the keys below' : typeOf(values)}`;
  if (schema.format === 'uri') return 'address';
  const { type = 'any', minimum, maximum, maxLength } = schema;
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  const from = minimum !== undefined && minimum > -Number.MAX_SAFE_INTEGER ? `from ${minimum}` : '';
  const to = isBounded ? `to ${maximum}` : maxLength === undefined ? '' : `of at most ${maxLength} characters`;
  return [type, from, to].filter(Boolean).join(' ');
}

function toConfigRow({ path, schema }: Row): string[] {
  const { description = '', default: initial } = schema;
  if (!description) problems.push(`The configuration key ${path} has no description: add .describe(...).`);
  const what = initial === undefined ? description : description.replace(/ Default:? [^.]*\.$/, '');
  return [
    `\`${path}\``,
    cell(typeOf(schema)),
    cell(what),
    initial === undefined ? '' : `\`${JSON.stringify(initial)}\``,
  ];
}

/** Beside those that hold keys of the hosts known by name. */
const environment: Record<string, string> = {
  HOMARD_CONFIG: 'Path of the configuration file; `homard.config.yaml` in the working directory where it exists.',
  HOMARD_HOST: 'Goes before `host`.',
  HOMARD_PORT: 'Goes before `port`.',
  HOMARD_DATA: 'Goes before `data`.',
  HOMARD_DATABASE_URL: '`postgres://...`: PostgreSQL 15 or newer instead of the embedded database.',
  HOMARD_TOKEN: "The owner's bearer token; without it one is made in the file `token` of the data directory.",
  HOMARD_LOG: 'Level of the log on standard error: `debug`, `info`, `warn` (default), `error`, `silent`.',
  OPENAI_BASE_URL: 'Address of the host `openai`, where the configuration gives none.',
  OPENAI_MODEL: 'Model of the host `openai` where a request and `models.default` name none.',
  OLLAMA_HOST: 'Where Ollama runs; `127.0.0.1` when absent.',
  OLLAMA_BASE_URL: 'The same; goes before `OLLAMA_HOST`.',
  NODE_ENV: '`production`: the sandbox `local` is refused, unless `sandbox.local.inProduction` allows it.',
  DOCKER_HOST: 'Where the Docker API is, for the sandbox `docker`; `sandbox.docker.socket` goes before it.',
  PATH: 'Where programs such as `bwrap` are looked for.',
  NO_COLOR: 'Set: no colours in the terminal.',
  TERM: '`dumb`: no colours and no status line in the terminal.',
};

function environmentRows(): string[][] {
  const used = new Set(
    [...sources.values()].flatMap((text) =>
      [...text.matchAll(/\b(?:env|environment)\.([A-Z][A-Z0-9_]+)/g)].map(([, name = '']) => name),
    ),
  );
  for (const name of used) if (!(name in environment)) problems.push(`${name} is read, and not in scripts/docs.ts.`);
  for (const name of Object.keys(environment)) if (!used.has(name)) problems.push(`${name} is not read any more.`);
  const keys = Object.entries(known).flatMap(([host, { apiKeyEnv }]) =>
    apiKeyEnv === undefined ? [] : [[`\`${apiKeyEnv}\``, `Key of the host \`${host}\`.`]],
  );
  return [...Object.entries(environment).map(([name, what]) => [`\`${name}\``, cell(what)]), ...keys];
}

function toConfigDocument(): string {
  const root = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Schema;
  const top = Object.entries(root.properties ?? {});
  const isGroup = (schema: Schema) => isObject(schema) || isObject(valuesOf(schema) ?? {});
  const head = ['key', 'type', 'what it does', 'default'];
  const plain = top.filter(([, schema]) => !isGroup(schema)).flatMap(([key, schema]) => rowsOf(key, schema));
  const groups = top.filter(([, schema]) => isGroup(schema));
  return [
    `# Configuration\n\n${GENERATED}\n`,
    'All keys are optional. The file is `homard.config.yaml` in the working directory, or what `HOMARD_CONFIG` names. Unknown keys',
    'are refused. Secrets never go into it: they come from the environment.\n',
    '## Server\n',
    table(head, plain.map(toConfigRow)),
    ...groups.flatMap(([key, schema]) => [`\n## ${key}\n`, table(head, rowsOf(key, schema).map(toConfigRow))]),
    '\n## Environment\n',
    table(['variable', 'what it does'], environmentRows()),
    '',
  ].join('\n');
}

interface Catalogue {
  folder: string;
  kinds: Record<string, ErrorKind>;
}

const isCatalogue = (value: unknown): value is Catalogue =>
  typeof value === 'function' && 'folder' in value && 'kinds' in value;

async function toErrorDocument(): Promise<string> {
  const found: (Catalogue & { path: string })[] = [];
  for (const [path, text] of sources) {
    const declared = [...text.matchAll(/= defineErrors\('(\w+)'/g)].map(([, folder = '']) => folder);
    if (!declared.length) continue;
    const exported = Object.values((await import(`../${path}`)) as object).filter(isCatalogue);
    for (const folder of declared) {
      const catalogue = exported.find((candidate) => candidate.folder === folder);
      if (catalogue) found.push({ folder, kinds: catalogue.kinds, path });
      else problems.push(`${path}: export what defineErrors('${folder}', ...) gives, so that it can be documented.`);
    }
  }
  found.sort((a, b) => a.folder.localeCompare(b.folder) || a.path.localeCompare(b.path));
  const sections = found.map(({ folder, kinds, path }) => {
    const rows = Object.entries(kinds).map(([kind, { status, hint, retryable }]) => [
      `\`${folder}.${kind}\``,
      String(status),
      retryable ? 'yes' : '',
      cell(hint),
    ]);
    return `\n## ${folder}\n\nDeclared in [${path}](../${path}).\n\n${table(['code', 'HTTP', 'again', 'what to do'], rows)}`;
  });
  return [
    `# Errors\n\n${GENERATED}\n`,
    'Over HTTP a refusal is `{ "error": { "code", "message", "hint", "requestId" } }` with the status below; in an event stream it is',
    'the event `error`, at the command line two lines and exit code 1. Codes are stable; messages and hints are for people. "again":',
    'the same call may succeed later.',
    ...sections,
    '',
  ].join('\n');
}

const GENERATED =
  '<!-- Made by scripts/docs.ts from the code: `npm run fix` writes it, `npm run check` compares it. -->';

const documents = { 'docs/CONFIG.md': toConfigDocument(), 'docs/ERRORS.md': await toErrorDocument() };
for (const [path, text] of Object.entries(documents)) {
  if (existsSync(path) && readFileSync(path, 'utf8') === text) continue;
  if (process.argv.includes('--write')) writeFileSync(path, text);
  else problems.push(`${path} is not up to date: npm run fix`);
}
console.log(problems.length ? problems.join('\n') : 'docs: ok');
process.exit(problems.length ? 1 : 0);
