// What hosts take of JSON Schema for the parameters of tools. The model is shown the lowered schema only: the kernel
// checks what it writes against the tool's own.
import { lightSchema } from './schema-light.ts';
import { isRecord } from './json.ts';
import type { Schema } from './schema-refs.ts';
import { createRefs } from './schema-refs.ts';
import { renderGemini, renderPlain } from './schema-render.ts';
import type { Shape } from './schema-shape.ts';
import { MOST_SCHEMAS, shapeOf } from './schema-shape.ts';

/**
 * `openai`: JSON Schema with an object at the top and without what OpenAI and hosts like it refuse. `anthropic`: JSON
 * Schema 2020-12 with an object at the top and simple names. `gemini`: Google's subset of OpenAPI 3.0. `plain`: types,
 * descriptions, properties and items, which any host takes.
 */
export const schemaDialects = ['openai', 'anthropic', 'gemini', 'plain'] as const;
export type SchemaDialect = (typeof schemaDialects)[number];

/** Of a host for which nothing is configured. Gateways pass models on with the demands of their makers. */
export function dialectOf({
  provider,
  baseUrl,
  model,
}: Record<'provider' | 'baseUrl' | 'model', string>): SchemaDialect {
  if (/gemini|google/i.test(provider) || /googleapis\.com/i.test(baseUrl) || /\bgemini/i.test(model)) return 'gemini';
  return /anthropic/i.test(provider) || /\bclaude/i.test(model) ? 'anthropic' : 'openai';
}

/** Levels of a schema that are shown in the small dialects. */
const MOST_LEVELS = 12;

/** A schema of the dialect that admits what the tool's own admits, and perhaps more. */
export function lowerSchema(schema: Schema, dialect: SchemaDialect): Schema {
  if (dialect === 'openai') return lightSchema(schema, { hasTuples: false, hasPlainKeys: false });
  if (dialect === 'anthropic') return lightSchema(schema, { hasTuples: true, hasPlainKeys: true });
  return dialect === 'gemini' ? renderGemini(toShape(schema)) : renderPlain(toShape(schema));
}

const toShape = (schema: Schema): Shape =>
  shapeOf(schema, {
    refs: createRefs(schema),
    resource: schema,
    depth: MOST_LEVELS,
    open: [],
    budget: { left: MOST_SCHEMAS },
  });

const keywords =
  /\$schema|\$ref|\$defs|\b(json.?)?schema\b|function_declarations|(additional|pattern)Properties|(exclusive)?M(in|ax)imum|(any|one|all)_?Of|prefixItems|\bproperties\b/i;

/** Whether a 400, as an error of ours or of an AI SDK package, is about the parameters of tools. */
export function isSchemaRefusal(error: unknown): boolean {
  if (!isRecord(error) || typeof error.message !== 'string') return false;
  return (error.code === 'models.bad_request' || error.statusCode === 400) && keywords.test(error.message);
}
