// The rest of nasty-schemas.ts, and what both are written with.
import type { Json } from '../../src/kernel/messages.ts';
import type { Schema } from './json-schema.ts';

export interface Nasty {
  name: string;
  schema: Schema;
  good: Json[];
  bad: Json[];
}

export const object = (properties: Schema, more: Schema = {}): Schema => ({ type: 'object', properties, ...more });
export const nasty = (name: string, schema: Schema, good: Json[], bad: Json[] = []): Nasty => ({
  name,
  schema,
  good,
  bad,
});
/** Through JSON, so that `__proto__` is a key like any other. */
const parsed = (text: string): Schema => JSON.parse(text) as Schema;
export const ref = (name: string): Schema => ({ $ref: `#/$defs/${name}` });

let deep: Schema = object({ end: { type: 'integer' } }, { required: ['end'] });
for (let i = 0; i < 30; i++) deep = object({ next: deep });

export const moreSchemas: Nasty[] = [
  nasty(
    'if, then and else',
    parsed(
      '{"type":"object","properties":{"kind":{"enum":["a","b"]},"v":{}},"if":{"properties":{"kind":{"const":"a"}}},"then":{"properties":{"v":{"type":"string"}},"required":["v"]},"else":{"properties":{"w":{"type":"number"}}}}',
    ),
    [
      { kind: 'a', v: 'x' },
      { kind: 'b', v: 1, w: 2 },
    ],
    [{ kind: 'a' }],
  ),
  nasty(
    'dependentRequired',
    object(
      { card: { type: 'string' }, zip: { type: 'string' } },
      { dependentRequired: { card: ['zip'] }, dependencies: { zip: ['card'] } },
    ),
    [{ card: 'x', zip: 'y' }, {}],
    [{ card: 'x' }],
  ),
  nasty(
    'odd formats',
    object({
      id: { type: 'string', format: 'uuid' },
      at: { type: 'string', format: 'date-time' },
      n: { type: 'integer', format: 'int64' },
      m: { type: 'number', format: 'money' },
      o: { type: 'string', format: 7 },
    }),
    [{ id: 'a', at: 'b', n: 1, m: 2.5, o: 'x' }],
    [{ n: 1.5 }],
  ),
  nasty('nothing at all', {}, [{}, { a: 1 }]),
  nasty('no properties', { type: 'object' }, [{}, { a: [1] }]),
  nasty(
    'true, false and {}',
    object({
      any: true,
      never: false,
      free: {},
      list: { type: 'array', items: true },
      none: { type: 'array', items: false },
    }),
    [{ any: { a: 1 }, free: ['x'], list: [1, 'a'], none: [] }],
    [{ never: 1 }, { none: [1] }],
  ),
  nasty(
    'missing types',
    { properties: { a: { minLength: 2 }, b: { properties: { c: { items: { type: 'string' } } } } }, required: ['b'] },
    [{ a: 'abc', b: { c: ['x'] } }],
    [{}, { b: { c: [1] } }],
  ),
  nasty(
    'keywords as names',
    parsed(
      '{"type":"object","properties":{"$ref":{"type":"string"},"type":{"type":"string"},"properties":{"type":"object","properties":{"items":{"type":"integer"}}},"__proto__":{"type":"string"},"constructor":{"type":"integer"},"enum":{"type":"array","items":{"type":"string"}}},"required":["__proto__","type"]}',
    ),
    [parsed('{"$ref":"#","type":"t","properties":{"items":1},"__proto__":"p","constructor":2,"enum":["a"]}')],
    [{ type: 't' }],
  ),
  nasty(
    'what is required is no property',
    object({ a: { type: 'string' } }, { required: ['a', 'ghost', 'a', 7] }),
    [{ a: 'x', ghost: 1 }],
    [{ a: 'x' }],
  ),
  nasty(
    'names in Chinese',
    object(
      {
        城市: { type: 'string', description: '城市名' },
        'a b/~c': { type: 'integer' },
        plain: { $ref: '#/properties/a%20b~1~0c' },
      },
      { required: ['城市'], additionalProperties: false },
    ),
    [{ 城市: '北京', 'a b/~c': 1, plain: 2 }],
    [{ 城市: 1 }, { 城市: 'x', plain: 'y' }],
  ),
  nasty('deep nesting', deep, [{ next: { next: { next: {} } } }], [{ next: 1 }]),
  nasty(
    'a huge enum',
    object({ code: { type: 'string', enum: Array.from({ length: 3000 }, (_, i) => `c${i}`) } }),
    [{ code: 'c2999' }],
    [{ code: 'd' }],
  ),
  nasty(
    'anchors and dynamic references',
    object({
      a: { $ref: '#here' },
      b: { $dynamicRef: '#here' },
      c: { $anchor: 'here', type: 'integer' },
      d: { $dynamicAnchor: 'there', type: 'string' },
      e: { $ref: '#there' },
    }),
    [{ a: 1, b: 2, c: 3, d: 'x', e: 'y' }],
    [{ a: 'x' }],
  ),
  nasty(
    '$ref to the top',
    object({ value: { type: 'string' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } }, { required: ['value'] }),
    [{ value: 'a', next: { value: 'b', next: { value: 'c', next: null } } }],
    [{ value: 'a', next: {} }],
  ),
  nasty(
    '$ref out of the document, to nothing, and to itself',
    object(
      {
        far: { $ref: 'https://example.org/x.json#/a' },
        gone: { $ref: '#/$defs/gone' },
        self: ref('self'),
        odd: { $ref: '#/%' },
      },
      {
        $defs: {
          self: ref('self'),
          named: {
            $id: 'https://example.org/named',
            $defs: { in: { type: 'integer' } },
            properties: { a: { $ref: '#/$defs/in' } },
          },
        },
      },
    ),
    [{ far: 1, gone: 'x' }],
  ),
  nasty(
    'a resource with an id',
    {
      $id: 'https://example.org/root',
      ...object({ n: { $ref: 'named' } }),
      $defs: {
        named: {
          $id: 'named',
          type: 'object',
          $defs: { in: { type: 'integer' } },
          properties: { a: { $ref: '#/$defs/in' } },
        },
        in: { type: 'string' },
      },
    },
    [{ n: { a: 1 } }],
    [{ n: 1 }],
  ),
  nasty(
    'annotations',
    object(
      {
        a: {
          type: 'string',
          default: 'x',
          examples: [{ $ref: '#/nowhere', type: 'odd' }],
          contentMediaType: 'application/json',
          contentEncoding: 'base64',
          deprecated: true,
          readOnly: true,
          title: 'A',
          'x-order': 1,
        },
      },
      { $schema: 'http://json-schema.org/draft-07/schema#', $comment: 'c', title: 'T' },
    ),
    [{ a: 'aGk=' }],
    [{ a: 1 }],
  ),
  nasty(
    'lists and their limits',
    object(
      {
        a: {
          type: 'array',
          uniqueItems: true,
          minItems: 1,
          maxItems: 3,
          contains: { type: 'string' },
          items: ref('item'),
        },
        b: { type: 'array' },
      },
      { $defs: { item: { type: ['string', 'integer'] } } },
    ),
    [{ a: ['x', 1], b: [1, 'x', {}] }],
    [{ a: [] }, { a: [1] }, { a: ['x', true] }],
  ),
  nasty(
    'names and counts of properties',
    object({
      m: {
        type: 'object',
        propertyNames: { pattern: '^[a-z]+$' },
        minProperties: 1,
        maxProperties: 2,
        unevaluatedProperties: false,
      },
    }),
    [],
    [{ m: {} }, { m: { A: 1 } }],
  ),
  nasty(
    'wrong kinds of values',
    object({
      a: { type: 'text', enum: [], minLength: 'x' },
      b: { type: 'any', required: true, pattern: '(' },
      c: { type: [], properties: null },
    }),
    [{ a: 1, b: 'x', c: {} }],
  ),
  nasty(
    'a nullable object of OpenAPI',
    object({
      o: { type: 'object', nullable: true, properties: { a: { type: 'string' } }, required: ['a'] },
      s: { anyOf: [{ type: 'string', description: 'A date' }, { type: 'null' }], default: null },
    }),
    [
      { o: { a: 'x' }, s: null },
      { o: null, s: 'x' },
    ],
    [{ o: {} }, { s: 1 }],
  ),
  nasty(
    'many references',
    {
      ...object({ a: ref('d0') }),
      $defs: Object.fromEntries(
        Array.from({ length: 25 }, (_, i) => [
          `d${i}`,
          i === 24 ? { type: 'string' } : object({ l: ref(`d${i + 1}`), r: ref(`d${i + 1}`) }),
        ]),
      ),
    },
    [{ a: { l: { r: {} } } }],
    [{ a: 1 }],
  ),
];
