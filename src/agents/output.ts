// A structured final answer: the caller's JSON Schema as a tool whose valid call ends the run.
import * as z from 'zod';
import type { Assembly, Json } from '../kernel/index.ts';
import { defineTool, messageOf } from '../kernel/index.ts';
import type { Refs } from '../models/schema-refs.ts';
import { createRefs, isSchema } from '../models/schema-refs.ts';
import { agentsError } from './errors.ts';

const MOST_NODES = 2000;
const MOST_LEVELS = 32;
const MOST_BYTES = 100_000;

export type JsonSchema = { [key: string]: Json };

/**
 * Tools take objects; any other schema is asked for as the property `value`. Throws `agents.invalid_output` for what is not
 * a JSON Schema, and `agents.output_too_large` for one that would keep the server busy.
 */
export function createOutput(schema: JsonSchema): NonNullable<Assembly['output']> {
  checkSize(schema);
  const isWrapped = schema.type !== 'object';
  const object: JsonSchema = isWrapped
    ? { type: 'object', properties: { value: schema }, required: ['value'], additionalProperties: false }
    : schema;
  checkWork(object);
  let parameters: z.ZodType;
  try {
    parameters = z.fromJSONSchema(object);
  } catch (error) {
    throw agentsError('invalid_output', `"output" cannot be used as a JSON Schema: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const tool = defineTool({
    name: 'final_answer',
    title: 'Final answer',
    description: 'Gives the final answer in the form that was asked for. Call it once, when you have the answer.',
    parameters,
    schema: object,
    effect: 'read',
    run: () => null,
  });
  const take = (args: Json): Json => (isWrapped ? ((args as JsonSchema).value ?? null) : args);
  return { tool, take };
}

/** Level by level: a stack of calls would end before the limit is told. */
function checkSize(schema: JsonSchema): void {
  let nodes = 0;
  let level: Json[] = [schema];
  for (let depth = 1; level.length; depth++) {
    nodes += level.length;
    if (depth > MOST_LEVELS) throw tooLarge(`is nested deeper than ${MOST_LEVELS} levels`);
    if (nodes > MOST_NODES) throw tooLarge(`holds more than ${MOST_NODES} values`);
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []));
  }
  if (Buffer.byteLength(JSON.stringify(schema)) > MOST_BYTES) throw tooLarge(`is larger than ${MOST_BYTES} bytes`);
}

/** References make few words mean much: what one value is checked against, at any place, is bounded, too. */
function checkWork(root: JsonSchema): void {
  const refs = createRefs(root);
  const known = new Map<Json, number>();
  const visit = (value: Json): void => {
    if (typeof value !== 'object' || value === null) return;
    if (!(workOf(value, { root, refs, known }) <= MOST_NODES)) {
      throw tooLarge(`refers to itself without end, or checks one value more than ${MOST_NODES} times`);
    }
    for (const each of Object.values(value)) visit(each);
  };
  visit(root);
}

/** Schemas that a value is checked against; infinite where one leads back to itself. */
function workOf(schema: Json, context: { root: JsonSchema; refs: Refs; known: Map<Json, number> }): number {
  const { root, refs, known } = context;
  const made = known.get(schema);
  if (made !== undefined || !isSchema(schema)) return made ?? 1;
  known.set(schema, Infinity);
  const { $ref, allOf, anyOf, oneOf, not = true } = schema;
  const target = typeof $ref === 'string' ? refs.resolve($ref, root)?.schema : undefined;
  const parts = [allOf, anyOf, oneOf].flatMap((list) => (Array.isArray(list) ? list : []));
  let work = 1;
  for (const part of [...parts, not, target ?? true]) work += workOf(part, context);
  known.set(schema, work);
  return work;
}

const tooLarge = (what: string) => agentsError('output_too_large', `"output" ${what}.`);
