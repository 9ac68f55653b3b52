import { describe, expect, it } from 'vitest';
import type { JsonSchema } from '../../src/agents/output.ts';
import { createOutput } from '../../src/agents/output.ts';
import type { Json } from '../../src/kernel/index.ts';

const tooLarge: unknown = expect.objectContaining({ code: 'agents.output_too_large', status: 400 });
const nested = (levels: number): JsonSchema => (levels ? { items: nested(levels - 1) } : { type: 'string' });
const string = { type: 'string' };

describe('the schema of a final answer', () => {
  it.each<[string, JsonSchema]>([
    ['too many values', { type: 'string', enum: Array.from({ length: 2000 }, (_, i) => i) }],
    ['too deep', nested(40)],
    ['deeper than a stack of calls', JSON.parse(`${'{"items":'.repeat(20_000)}{}${'}'.repeat(20_000)}`) as JsonSchema],
    ['too long', { type: 'string', description: '字'.repeat(40_000) }],
    ['about itself', { type: 'object', anyOf: Array.from({ length: 300 }, () => ({ $ref: '#' })) }],
    [
      'small, and means 2^15 checks',
      {
        $ref: '#/$defs/d0',
        $defs: Object.fromEntries(
          Array.from({ length: 16 }, (_, i) => [
            `d${i}`,
            i < 15 ? { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] } : string,
          ]),
        ),
        type: 'object',
      },
    ],
  ])('is refused at once where it is %s', (_, schema) => {
    const begun = performance.now();
    expect(() => createOutput(schema)).toThrow(tooLarge);
    expect(performance.now() - begun).toBeLessThan(500);
  });

  it('may be large, deep and recursive within that', async () => {
    const properties = Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`p${i}`, string]));
    for (const schema of [{ type: 'object', properties }, nested(25)])
      expect(createOutput(schema).tool.spec).toBeDefined();
    const tree: JsonSchema = {
      type: 'object',
      properties: { name: string, children: { type: 'array', items: { $ref: '#' } } },
      required: ['name'],
      additionalProperties: false,
    };
    const { tool } = createOutput(tree);
    const check = async (value: Json) => 'value' in (await tool.validate(value));
    expect(await check({ name: 'a', children: [{ name: 'b' }] })).toBe(true);
    expect(await check({ name: 'a', children: [{}] })).toBe(false);
  });
});
