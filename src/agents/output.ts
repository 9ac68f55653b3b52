// A structured final answer: the caller's JSON Schema as a tool whose valid call ends the run.
import * as z from 'zod';
import type { Assembly, Json } from '../kernel/index.ts';
import { defineTool, messageOf } from '../kernel/index.ts';
import { agentsError } from './errors.ts';

export type JsonSchema = { [key: string]: Json };

/**
 * Tools take objects; any other schema is asked for as the property `value`. Throws `agents.invalid_output` for what is not
 * a JSON Schema.
 */
export function createOutput(schema: JsonSchema): NonNullable<Assembly['output']> {
  const isWrapped = schema.type !== 'object';
  const object: JsonSchema = isWrapped
    ? { type: 'object', properties: { value: schema }, required: ['value'], additionalProperties: false }
    : schema;
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
