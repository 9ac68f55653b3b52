import { defineErrors, messageOf } from './errors.ts';
import type { Json } from './messages.ts';
import type { ToolSpec } from './model.ts';
import { clip } from './project.ts';

export const toolError = defineErrors('tool', {
  invalid_definition: { status: 500, hint: 'Correct the tool definition.' },
});

/** The part of Standard Schema (standardschema.dev) that a tool needs; zod 4.2+, valibot and arktype have it. */
export interface StandardSchema<T> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<T> | Promise<SchemaResult<T>>;
    readonly types?: { readonly input: unknown; readonly output: T } | undefined;
    readonly jsonSchema?: { readonly input: (options: { target: 'draft-2020-12' }) => Record<string, unknown> };
  };
}

type SchemaResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[];
    };

/**
 * What running a call twice would mean. `read`: nothing. `idempotent`: nothing, given the same `key`. `once`: a second
 * effect; such a call is never begun twice, whatever dies. Tools of unknown nature are `once`.
 */
export type Effect = 'read' | 'idempotent' | 'once';

export interface ToolContext {
  /** `run:step`, the same for every attempt at this call: hand it to whatever deduplicates. */
  key: string;
  call: string;
  run: string;
  tenant: string;
  owner: string;
  conversation: string;
  /** Aborts on cancel, on the tool's time limit and when the run is lost to another worker. */
  signal: AbortSignal;
  /** Takes the run's secrets out of a text: of results that is done anyway, but what is cut or kept elsewhere needs it before. */
  scrub: (text: string) => string;
  /** Shows progress to whoever watches, best in whole lines; not recorded. */
  output: (text: string) => void;
}

export interface Tool {
  name: string;
  /** Shown to people; the name when absent. */
  title: string;
  icon?: string;
  description: string;
  effect: Effect;
  /** Milliseconds before the call is aborted and told to the model as timed out; the run's own limit when absent. */
  timeoutMs?: number;
  /** Nothing that it does leaves an isolated sandbox: the default policy lets it run. */
  isContained?: boolean;
  spec: ToolSpec;
  /** Resolves to the arguments or to a sentence that tells the model what is wrong with them. */
  validate: (args: Json) => Promise<{ value: unknown } | { problem: string }>;
  run: (args: never, context: ToolContext) => unknown;
  probe?: (key: string) => Promise<{ result: Json } | undefined>;
}

export interface ToolDefinition<T> {
  /** At most 64 of `A-Z a-z 0-9 _ -`, as every provider takes it. */
  name: string;
  title?: string;
  icon?: string;
  description: string;
  parameters: StandardSchema<T>;
  /** Where `parameters` cannot make its own JSON Schema, or another one should be shown. */
  schema?: { [key: string]: Json };
  effect: Effect;
  timeoutMs?: number;
  isContained?: boolean;
  /** Its result is told to the model; what it throws is told as an error. Must be JSON, or undefined. */
  run: (args: T, context: ToolContext) => unknown;
  /** After a crash: what became of the call with this key; undefined when that cannot be known. */
  probe?: (key: string) => Promise<{ result: Json } | undefined>;
}

/** Declares a tool. Its JSON Schema is made here, once. Throws `tool.invalid_definition`. */
export function defineTool<T>(definition: ToolDefinition<T>): Tool {
  const { name, description, parameters, title, schema, ...rest } = definition;
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw toolError('invalid_definition', `"${name}" is not a tool name: 1 to 64 of A-Z a-z 0-9 _ -`);
  }
  const standard = parameters['~standard'];
  const json = schema ?? standard.jsonSchema?.input({ target: 'draft-2020-12' });
  if (!json) {
    throw toolError('invalid_definition', `Tool ${name}: ${standard.vendor} cannot make a JSON Schema; give "schema"`);
  }
  const { $schema: _, ...bare } = json as { [key: string]: Json };
  return {
    ...rest,
    name,
    description,
    title: title ?? name,
    spec: { name, description, schema: bare },
    async validate(args) {
      const result = await standard.validate(args);
      if (!result.issues) return { value: result.value };
      return { problem: result.issues.map(({ message, path }) => `${toPath(path)}${message}`).join('; ') };
    },
  };
}

function toPath(path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined): string {
  if (!path?.length) return '';
  return `${path.map((segment) => String(typeof segment === 'object' ? segment.key : segment)).join('.')}: `;
}

/** Of a result, in characters of its JSON; a longer one is kept as text, by head and tail. */
const MOST_CHARS = 2_000_000;

/** Whatever a tool returned, as JSON: undefined becomes null, what cannot be JSON throws a sentence for the model. */
export function toResult(value: unknown): Json {
  if (value === undefined) return null;
  if (typeof value === 'string') return clip(value, MOST_CHARS);
  try {
    const text = JSON.stringify(value);
    return text.length > MOST_CHARS ? clip(text, MOST_CHARS) : (JSON.parse(text) as Json);
  } catch (error) {
    throw new Error(`The tool's result is not JSON: ${messageOf(error)}`, { cause: error });
  }
}
