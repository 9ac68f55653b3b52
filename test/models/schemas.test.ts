import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/kernel/messages.ts';
import { allowAll, createAgent, defineTool } from '../../src/kernel/index.ts';
import type { ToolSpec } from '../../src/kernel/model.ts';
import { createPackageModel } from '../../src/models/ai-sdk.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import { modelsConfig } from '../../src/models/config.ts';
import { createRouter } from '../../src/models/router.ts';
import { dialectOf, lowerSchema, schemaDialects } from '../../src/models/schema-dialect.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import { createStrictModelServer, refusesKeywords } from '../../src/testing/strict-model-server.ts';
import { parametersProblem } from '../../src/testing/strict-schemas.ts';
import type { Schema } from './json-schema.ts';
import { accepts, isObject, valuesOf } from './json-schema.ts';
import { nastySchemas } from './nasty-schemas.ts';

/** As it is sent. */
const sent = (schema: Schema, dialect: (typeof schemaDialects)[number]): Schema =>
  JSON.parse(JSON.stringify(lowerSchema(schema, dialect))) as Schema;

describe.each(schemaDialects)('D12 the dialect %s', (dialect) => {
  it.each(nastySchemas)('takes $name, and admits what it admits', ({ schema, good, bad }) => {
    const before = JSON.stringify(schema);
    const lowered = sent(schema, dialect);
    const parameters = dialect === 'gemini' && lowered.properties === undefined ? undefined : lowered;
    expect(parametersProblem(parameters, dialect) ?? 'taken').toBe('taken');
    expect(JSON.stringify(schema)).toBe(before);
    expect(JSON.stringify(lowered).length).toBeLessThan(60_000);
    for (const value of good) {
      expect({ value, isIn: accepts(schema, value) }).toEqual({ value, isIn: true });
      expect({ value, lowered, isIn: accepts(lowered, value) }).toEqual({ value, lowered, isIn: true });
    }
    for (const value of bad) expect({ value, isIn: accepts(schema, value) }).toEqual({ value, isIn: false });
    const property = fc.property(valuesOf(schema, schema), (value) => {
      if (isObject(value) && accepts(schema, value)) expect(accepts(lowered, value)).toBe(true);
    });
    fc.assert(property, { numRuns: 200 });
  });

  it('is reached by lowering once, and by lowering what is lowered', () => {
    for (const { schema } of nastySchemas) {
      const once = sent(schema, dialect);
      const twice = sent(once, dialect);
      const parameters = dialect === 'gemini' && twice.properties === undefined ? undefined : twice;
      expect(parametersProblem(parameters, dialect) ?? 'taken').toBe('taken');
    }
  });
});

const keywords =
  '$ref $defs definitions $id $anchor type enum const properties required items prefixItems additionalItems additionalProperties ' +
  'patternProperties allOf anyOf oneOf not if then else minimum exclusiveMinimum minItems pattern format description nullable contains';
const names = ['a', 'b', '名', '__proto__', '$ref', 'x'.repeat(70)];
const refs = [
  '#',
  '#/$defs/a',
  '#/$defs/b',
  '#/definitions/a',
  '#/properties/a',
  '#a',
  'b',
  'b#/$defs/a',
  '#/nowhere',
  '',
];

/** Keywords with values of all kinds, right and wrong. */
const { junk } = fc.letrec<{ junk: Schema; value: Json }>((tie) => ({
  junk: fc.dictionary(fc.constantFrom(...keywords.split(' ')), tie('value'), { maxKeys: 4, noNullPrototype: true }),
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<Json>(
      'string',
      'object',
      'array',
      'null',
      'integer',
      ...names.slice(0, 3),
      ...refs,
      'date-time',
      '(',
    ),
    fc.constantFrom<Json>(0, 1, 2.5, -1, true, false, null, [], {}, ['a', 'ghost'], ['string', 'null'], ['x', 1, null]),
    tie('junk'),
    fc.array(tie('junk'), { maxLength: 3 }),
    fc.array(fc.tuple(fc.constantFrom(...names), tie('junk')), { maxLength: 3 }).map((all) => Object.fromEntries(all)),
  ),
}));

describe.each(schemaDialects)('D12 the dialect %s', (dialect) => {
  it('takes whatever is declared', () => {
    const property = fc.property(junk, (schema) => {
      const before = JSON.stringify(schema);
      const lowered = sent(schema, dialect);
      const parameters = dialect === 'gemini' && lowered.properties === undefined ? undefined : lowered;
      expect(parametersProblem(parameters, dialect) ?? 'taken').toBe('taken');
      expect(JSON.stringify(schema)).toBe(before);
    });
    fc.assert(property, { numRuns: 2000 });
  });

  // Gemini wants a type where the schema names none: the one that its keywords mean.
  it.skipIf(dialect === 'gemini')('admits whatever the declared one admits', () => {
    let count = 0;
    const values = (schema: Schema) =>
      fc.tuple(fc.constant(schema), fc.array(valuesOf(schema, schema), { minLength: 5 }));
    const property = fc.property(junk.chain(values), ([schema, all]) => {
      const lowered = sent(schema, dialect);
      for (const value of [...all, {}]) {
        if (!isObject(value) || judge(schema, value) !== true) continue;
        count++;
        expect(judge(lowered, value)).not.toBe(false);
      }
    });
    fc.assert(property, { numRuns: 1000 });
    expect(count).toBeGreaterThan(500);
  });
});

/** Undefined for a schema that is about itself without end. */
function judge(schema: Schema, value: Json): boolean | undefined {
  try {
    return accepts(schema, value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

describe('D12 schemas that are small and mean much', () => {
  const object = (set: number, i: number): Schema => ({
    type: 'object',
    properties: { [`kind${set}`]: { const: `k${i}` }, [`of${set}_${i}`]: { type: 'integer' }, n: { type: 'number' } },
    required: [`kind${set}`],
  });
  const anyOf = (set: number, length: number): Schema => ({
    anyOf: Array.from({ length }, (_, i) => object(set, i)),
  });
  const all = (sets: number, length = 8): Schema => ({
    allOf: Array.from({ length: sets }, (_, set) => anyOf(set, length)),
  });
  const kinds = (sets: number) =>
    Object.fromEntries(Array.from({ length: sets }, (_, set) => [`kind${set}`, `k${set % 4}`]));
  const many: Schema[] = Array.from({ length: 30 }, () => ({ type: ['number', 'integer', 'string', 'string'] }));
  const branches = Array.from({ length: 700 }, (_, i): Schema => ({
    properties: { kind: { const: i }, [`p${i}`]: {} },
  }));
  const cases: { name: string; schema: Schema; good: Schema }[] = [
    { name: '10 times one of 8', schema: { type: 'object', ...all(10) }, good: kinds(10) },
    { name: '20 times one of 8', schema: { type: 'object', ...all(20) }, good: kinds(20) },
    { name: '12 times one of 4', schema: { type: 'object', ...all(12, 4) }, good: { ...kinds(12), n: 1 } },
    { name: 'the same in a property', schema: { type: 'object', properties: { a: all(20) } }, good: { a: kinds(20) } },
    { name: 'types again and again', schema: { type: 'object', properties: { a: { allOf: many } } }, good: { a: 1 } },
    {
      name: 'itself 300 times',
      schema: { type: 'object', anyOf: [...Array.from({ length: 300 }, () => ({ $ref: '#' })), object(0, 0)] },
      good: { kind0: 'k0' },
    },
    {
      name: 'references to references',
      schema: {
        anyOf: Array.from({ length: 300 }, () => ({ $ref: '#/$defs/d0' })),
        $defs: Object.fromEntries(
          Array.from({ length: 9 }, (_, d) => [
            `d${d}`,
            { anyOf: Array.from({ length: 9 }, (_, i) => (i > d ? { $ref: `#/$defs/d${i}` } : object(0, i))) },
          ]),
        ),
      },
      good: { kind0: 'k8' },
    },
    { name: 'more branches than are read', schema: { type: 'object', oneOf: branches }, good: { kind: 650 } },
  ];

  it.each(schemaDialects.flatMap((dialect) => cases.map((each) => ({ ...each, dialect }))))(
    '$dialect: $name',
    ({ dialect, schema, good }) => {
      const begun = performance.now();
      const lowered = sent(schema, dialect);
      expect(performance.now() - begun).toBeLessThan(400);
      const parameters = dialect === 'gemini' && lowered.properties === undefined ? undefined : lowered;
      expect(parametersProblem(parameters, dialect) ?? 'taken').toBe('taken');
      expect(accepts(lowered, good)).toBe(true);
    },
  );
});

describe('what a lowered schema tells', () => {
  const find = (name: string): Schema => nastySchemas.find((each) => each.name === name)!.schema;
  const property = (name: string, key: string, dialect: (typeof schemaDialects)[number]): Json =>
    (sent(find(name), dialect).properties as Schema)[key]!;

  it('D12 $ref keeps the items of a list', () => {
    const items = { anyOf: [{ type: 'string' }, { type: 'integer' }] };
    expect(property('lists and their limits', 'a', 'gemini')).toMatchObject({ type: 'array', items });
    expect(property('recursive $ref', 'tree', 'gemini')).toMatchObject({
      properties: { children: { type: 'array', items: { type: 'object', properties: { name: { type: 'string' } } } } },
    });
    const plain = property('recursive $ref', 'tree', 'plain');
    expect(plain).toMatchObject({ properties: { children: { items: { properties: { name: { type: 'string' } } } } } });
  });

  it('D12 what the dialect has no word for is in the description', () => {
    expect(property('exclusive bounds as numbers', 'a', 'gemini')).toEqual({ type: 'integer', minimum: 1, maximum: 9 });
    expect(property('exclusive bounds as numbers', 'b', 'gemini')).toMatchObject({
      description: 'Greater than 0.5; multiple of 0.5',
    });
    expect(property('odd formats', 'id', 'gemini')).toEqual({ type: 'string', description: 'Format uuid' });
    expect(property('const', 'a', 'gemini')).toEqual({ type: 'string', enum: ['x'] });
    expect(property('types with null', 'a', 'gemini')).toEqual({ type: 'string', nullable: true });
    expect(property('a nullable object of OpenAPI', 's', 'gemini')).toEqual({
      type: 'string',
      description: 'A date',
      nullable: true,
    });
    expect(property('$ref with siblings', 'a', 'plain')).toEqual({
      type: 'string',
      description: 'mine (at least 2 characters)',
    });
    expect(sent(find('names in Chinese'), 'anthropic').description).toContain('城市');
  });

  it('a schema that a host takes is sent as it is, to the byte', () => {
    const schema: Schema = {
      type: 'object',
      description: 'd',
      properties: {
        a: { type: ['string', 'null'], default: null },
        b: { anyOf: [{ $ref: '#/$defs/b' }, { type: 'null' }] },
      },
      required: ['a'],
      $defs: { b: { oneOf: [{ type: 'integer', minimum: 1 }, { const: 'x' }, { $ref: '#' }] } },
      additionalProperties: false,
    };
    for (const dialect of ['openai', 'anthropic'] as const) {
      expect(JSON.stringify(lowerSchema(schema, dialect))).toBe(JSON.stringify(schema));
    }
  });

  it.each([
    ['openai', 'https://api.openai.com/v1', 'gpt-5', 'openai'],
    ['google', 'https://x/v1', 'm', 'gemini'],
    ['x', 'https://generativelanguage.googleapis.com/v1beta/openai', 'm', 'gemini'],
    ['gate', 'https://gate/v1', 'google/gemini-3-flash', 'gemini'],
    ['gate', 'https://gate/v1', 'claude-x', 'anthropic'],
    ['anthropic', 'https://api.anthropic.com/v1', 'x', 'anthropic'],
    ['gate', 'https://gate/v1', 'qwen-plus', 'openai'],
  ])('%s at %s with %s takes %s', (provider, baseUrl, model, dialect) => {
    expect(dialectOf({ provider, baseUrl, model })).toBe(dialect);
  });
});

const tools: ToolSpec[] = nastySchemas.map(({ schema }, i) => ({ name: `t${i}`, description: '', schema }));
const request = {
  system: '',
  messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'hi' }] }],
  tools,
};
const signal = new AbortController().signal;

describe('a host that takes less than was known', () => {
  const wire = { name: 'm', model: 'm', provider: 'gate' };

  it.each([
    ['chat completions', (baseUrl: string) => createOpenAIWireModel({ ...wire, baseUrl })],
    ['an AI SDK package', (baseUrl: string) => createPackageModel({ ...wire, kind: 'deepseek', baseUrl })],
  ])('D12 is asked once more with plain schemas, and so from then on: %s', async (_, create) => {
    await using server = await createStrictModelServer(refusesKeywords('plain'));
    const model = create(server.url);
    for (let i = 0; i < 3; i++) await model.call(request, signal, () => undefined);
    expect(server.requests).toHaveLength(4);
  });

  it('D12 is asked no third time, and is not taken for a plain one where that was no help', async () => {
    const json = { error: { message: 'Invalid schema for function t0' } };
    await using server = await createModelServer((_, n) => (n < 2 ? { status: 400, json } : [{ text: 'ok' }]));
    const model = createOpenAIWireModel({ ...wire, baseUrl: server.url });
    await expect(model.call(request, signal, () => undefined)).rejects.toMatchObject({ code: 'models.bad_request' });
    await model.call(request, signal, () => undefined);
    const [first, second, third, ...others] = server.requests.map(({ body }) => JSON.stringify(body.tools));
    expect(others).toEqual([]);
    expect(second).not.toBe(first);
    expect(third).toBe(first);
  });

  it('D12 is given the dialect that is configured', async () => {
    await using server = await createStrictModelServer(refusesKeywords('gemini'));
    const config = modelsConfig.parse({ hosts: { gate: { baseUrl: server.url, schemas: 'gemini' } } });
    await createRouter(config, {})
      .resolve('gate/m')
      .call(request, signal, () => undefined);
    expect(server.requests).toHaveLength(1);
  });
});

it('D12 arguments that only the lowered schema admits do not run the tool', async () => {
  const original = nastySchemas.filter(({ bad }) => bad.length);
  let admitted = 0;
  for (const { schema, bad, good } of original) {
    const ran: Json[] = [];
    const tool = defineTool<Json>({
      name: 't',
      description: '',
      effect: 'read',
      schema,
      parameters: {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: (value) =>
            accepts(schema, value as Json) ? { value: value as Json } : { issues: [{ message: 'refused' }] },
        },
      },
      run: (args) => void ran.push(args),
    });
    const wrong = bad.find((value) => accepts(lowerSchema(schema, 'gemini'), value));
    if (wrong === undefined) continue;
    admitted++;
    const calls = [wrong, ...good.slice(0, 1)].map((args) => ({ call: 't', args }));
    await using server = await createModelServer(({ body }) =>
      body.messages.at(-1)?.role === 'tool' ? [{ text: 'done' }] : calls,
    );
    const model = createOpenAIWireModel({ name: 'm', model: 'm', baseUrl: server.url, provider: 'google' });
    await using agent = createAgent({ model, tools: [tool], policy: allowAll });
    const results: boolean[] = [];
    for await (const event of agent.run({ conversation: 'c', text: 'go' })) {
      if (event.type === 'tool_result') results.push(...event.results.map(({ isError }) => isError));
    }
    expect(results).toEqual([true, ...good.slice(0, 1).map(() => false)]);
    expect(ran).toEqual(good.slice(0, 1));
  }
  expect(admitted).toBeGreaterThan(5);
});
