// Histories that no kernel gives, but an embedding caller may.
import * as fc from 'fast-check';
import { project } from '../../src/kernel/index.ts';
import type { Json, Message, ToolCallPart } from '../../src/kernel/messages.ts';
import { callsOf } from '../../src/kernel/messages.ts';
import type { ToolSpec } from '../../src/kernel/model.ts';
import { anyHistory, anyWindow } from '../kernel/history.ts';

const text = fc.constantFrom('', ' ', '\n', 'hi', 'hi', '中文😀', 'cut\ud83e', '\udc00cut', 'tail \n', '\\ud83e');
const half: Json = { 'k\ud83e': ['\ud83e', { a: null }] };
const args = fc.constantFrom<Json>({}, { a: 1 }, null, [1], 'text', 7, half, { a: '\\ud83e' });
const id = fc.constantFrom(
  'call_0',
  'call_0',
  'call_1',
  'functions.time:0',
  '',
  'x'.repeat(60),
  '日',
  'call_0_2',
  'a b',
);
const name = fc.constantFrom('time', 'time', 'no such.tool', '', 'é'.repeat(70), '名');
const file = { type: 'file', id: 'f', name: 'a\n\ud83e.bin', mime: 'application/x-thing', bytes: 3 } as const;
const metadata = fc.constantFrom<Json | undefined>(
  undefined,
  null,
  'x',
  { anthropic: { signature: 'sig1' } },
  {
    openai: { itemId: 'r' },
  },
);

const user: fc.Arbitrary<Message> = fc
  .array(
    fc.oneof({ weight: 5, arbitrary: text.map((each) => ({ type: 'text' as const, text: each })) }, fc.constant(file)),
    {
      maxLength: 3,
    },
  )
  .map((parts) => ({ role: 'user', parts }));

const part = fc.oneof(
  text.map((each) => ({ type: 'text' as const, text: each })),
  fc.record({ text, metadata }).map(({ metadata: signed, ...thought }) => ({
    type: 'reasoning' as const,
    ...thought,
    ...(signed !== undefined && { metadata: signed }),
  })),
  fc.record({ id, name, args }).map((call): ToolCallPart => ({ type: 'tool_call', ...call })),
);
const assistant: fc.Arbitrary<Message> = fc
  .array(part, { maxLength: 5 })
  .map((parts) => ({ role: 'assistant', parts, model: 'm' }));

const result = fc.record({ call: id, name, result: fc.oneof(text, args), isError: fc.boolean() });
const orphan: fc.Arbitrary<Message> = result.map((each) => ({ role: 'tool', ...each }));

/** An assistant message and results that fit it more or less. */
const step: fc.Arbitrary<Message[]> = fc
  .tuple(assistant, fc.array(fc.tuple(fc.nat(3), result), { maxLength: 4 }))
  .map(([said, results]) => {
    const calls = said.role === 'assistant' ? callsOf(said.parts) : [];
    return [said, ...results.map(([k, each]): Message => ({ role: 'tool', ...each, call: calls[k]?.id ?? each.call }))];
  });

const one = (message: fc.Arbitrary<Message>) => message.map((each) => [each]);

export const hostileHistory: fc.Arbitrary<Message[]> = fc
  .array(fc.oneof(one(user), one(user), one(assistant), step, step, one(orphan)), { maxLength: 10 })
  .map((groups) => groups.flat());

export const kernelHistory: fc.Arbitrary<Message[]> = fc
  .record({ history: anyHistory, window: anyWindow, call: fc.nat(1000) })
  .map(({ history: { entries, calls }, window, call }) =>
    project(entries.slice(0, calls[call % calls.length]), window),
  );

export const history = fc.oneof(hostileHistory, hostileHistory, kernelHistory);

export const tools: ToolSpec[] = [
  { name: 'none', description: '', schema: {} },
  { name: 'half', description: 'a\ud83e', schema: { type: 'object', properties: { 'a\ud83e': { const: '\ud83e' } } } },
  {
    name: 'foreign',
    description: 'All that some host refuses',
    schema: {
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'https://example.org/a',
      $ref: '#/$defs/node',
      $defs: {
        node: {
          type: 'object',
          properties: {
            kind: { const: 'a' },
            count: { type: 'integer', exclusiveMinimum: 0 },
            old: { type: 'number', minimum: 0, exclusiveMinimum: true },
            pair: { type: 'array', prefixItems: [{ type: 'string' }, true] },
            list: { type: 'array' },
            next: { oneOf: [{ $ref: '#' }, { type: 'null' }] },
            mixed: { type: ['string', 'null'], enum: ['x', null, ''] },
            any: true,
            never: false,
            名前: { type: 'string', format: 'uuid', pattern: '^.' },
          },
          required: ['kind', 'unknown'],
          additionalProperties: false,
        },
      },
    },
  },
];
