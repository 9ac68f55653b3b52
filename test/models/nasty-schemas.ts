// Parameters of tools as servers really declare them, with arguments that each accepts and arguments that it refuses.
import { moreSchemas } from './nasty-schemas-more.ts';
import type { Nasty } from './nasty-schemas-more.ts';
import { nasty, object, ref } from './nasty-schemas-more.ts';

export const nastySchemas: Nasty[] = [
  nasty(
    '$ref with siblings',
    object(
      { a: { $ref: '#/$defs/a', description: 'mine', minLength: 2 } },
      { $defs: { a: { type: 'string', description: 'theirs' } } },
    ),
    [{ a: 'abc' }],
    [{ a: 'x' }, { a: 1 }],
  ),
  nasty(
    'recursive $ref',
    object(
      { tree: ref('node') },
      {
        $defs: {
          node: object(
            { name: { type: 'string' }, children: { type: 'array', items: ref('node') } },
            { required: ['name'] },
          ),
        },
      },
    ),
    [
      {
        tree: {
          name: 'a',
          children: [{ name: 'b', children: [{ name: 'c', children: [{ name: 'd', children: [] }] }] }],
        },
      },
    ],
    [{ tree: { children: [] } }],
  ),
  nasty(
    '$defs at depth',
    object({
      a: { type: 'object', $defs: { b: { type: 'integer' } }, properties: { c: { $ref: '#/properties/a/$defs/b' } } },
    }),
    [{ a: { c: 1 } }],
    [{ a: { c: 'x' } }],
  ),
  nasty(
    'definitions, and $ref at the top',
    {
      $ref: '#/definitions/In',
      definitions: {
        In: object({ a: { $ref: '#/definitions/Kind' } }, { required: ['a'], additionalProperties: false }),
        Kind: { enum: ['x', 'y'], type: 'string' },
      },
    },
    [{ a: 'x' }],
    [{}, { a: 'z' }],
  ),
  nasty(
    'allOf of two objects',
    {
      allOf: [
        object({ a: { type: 'string' } }, { required: ['a'] }),
        object({ b: { type: 'integer' }, a: { minLength: 1 } }),
      ],
    },
    [{ a: 'x', b: 1 }],
    [{ b: 1 }, { a: '' }],
  ),
  nasty(
    'oneOf with a discriminator',
    object({
      shape: {
        oneOf: [
          object({ kind: { const: 'circle' }, r: { type: 'number' } }, { required: ['kind', 'r'] }),
          object(
            { kind: { const: 'box' }, w: { type: 'number' }, h: { type: 'number' } },
            { required: ['kind', 'w', 'h'] },
          ),
        ],
        discriminator: { propertyName: 'kind' },
      },
    }),
    [{ shape: { kind: 'circle', r: 1 } }, { shape: { kind: 'box', w: 1, h: 2 } }],
    [{ shape: { kind: 'box', r: 1 } }],
  ),
  nasty(
    'anyOf at the top',
    {
      anyOf: [
        object({ id: { type: 'integer' } }, { required: ['id'], additionalProperties: false }),
        object(
          { name: { type: 'string' }, id: { type: 'string' } },
          { required: ['name'], additionalProperties: false },
        ),
      ],
    },
    [{ id: 1 }, { name: 'a', id: 'b' }],
    [{}, { id: 'x' }],
  ),
  nasty(
    'oneOf of what is required',
    object({ a: { type: 'string' }, b: { type: 'string' } }, { oneOf: [{ required: ['a'] }, { required: ['b'] }] }),
    [{ a: 'x' }, { b: 'y' }],
    [{}, { a: 'x', b: 'y' }],
  ),
  nasty(
    'types with null',
    object(
      { a: { type: ['string', 'null'] }, b: { type: ['integer', 'null', 'array'], items: { type: 'string' } } },
      { required: ['a'] },
    ),
    [
      { a: null, b: ['x'] },
      { a: 'x', b: 3 },
    ],
    [{}, { a: 1 }, { a: null, b: 'x' }],
  ),
  nasty(
    'const',
    object({ a: { const: 'x' }, b: { const: 3 }, c: { const: null }, d: { const: { e: [1] } }, f: { const: true } }),
    [{ a: 'x', b: 3, c: null, d: { e: [1] }, f: true }],
    [{ a: 'y' }, { f: false }],
  ),
  nasty(
    'enum of mixed types',
    object({
      a: { enum: ['x', 1, null, true, ''] },
      b: { type: 'integer', enum: [1, 2] },
      c: { type: ['string', 'null'], enum: ['y', null] },
    }),
    [{ a: null, b: 2, c: null }, { a: '', b: 1, c: 'y' }, { a: 1 }],
    [{ a: 'z' }, { b: 3 }],
  ),
  nasty(
    'exclusive bounds as numbers',
    object({
      a: { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 10 },
      b: { type: 'number', exclusiveMinimum: 0.5, multipleOf: 0.5 },
    }),
    [{ a: 1, b: 1 }, { a: 9 }],
    [{ a: 0 }, { a: 10 }, { b: 0.5 }],
  ),
  nasty(
    'exclusive bounds as flags',
    object({
      a: { type: 'integer', minimum: 0, exclusiveMinimum: true },
      b: { type: 'number', maximum: 5, exclusiveMaximum: true, exclusiveMinimum: false },
    }),
    [{ a: 1, b: 4.5 }],
    [{ a: 0 }, { b: 5 }],
  ),
  nasty(
    'prefixItems',
    object({
      pair: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false, minItems: 2 },
    }),
    [{ pair: ['a', 1] }],
    [{ pair: [1, 'a'] }, { pair: ['a', 1, 2] }],
  ),
  nasty(
    'a tuple of draft 7',
    object({ t: { type: 'array', items: [{ type: 'string' }, true], additionalItems: { type: 'boolean' } } }),
    [{ t: ['a', 1, true] }, { t: [] }],
    [{ t: [1] }],
  ),
  nasty(
    'additionalProperties with a schema',
    object({ a: { type: 'string' } }, { additionalProperties: { type: 'integer', $comment: 'others' } }),
    [{ a: 'x', extra: 1 }],
    [{ a: 'x', extra: 'y' }],
  ),
  nasty(
    'patternProperties',
    object({
      headers: {
        type: 'object',
        patternProperties: { '^x-': { type: 'string' }, '[': { type: 'string' } },
        additionalProperties: false,
      },
    }),
    [{ headers: { 'x-a': 'b' } }],
    [{ headers: { 'x-a': 1 } }],
  ),
  nasty(
    'not',
    object({
      a: { type: 'string', not: { enum: ['no'] } },
      b: { not: { type: 'array', items: [{ type: 'string' }, { type: 'integer' }] } },
    }),
    [{ a: 'yes', b: [1] }, { b: 'x' }],
    [{ a: 'no' }],
  ),
  nasty(
    'one of what grows when it is lowered',
    object(
      {
        a: {
          oneOf: [
            { type: 'array', items: [{ type: 'string' }, { type: 'integer' }] },
            { type: 'array', items: { type: 'integer' } },
          ],
        },
        b: { oneOf: [ref('tuple'), { type: 'array', items: { type: 'integer' } }] },
        c: { not: ref('tuple') },
      },
      { $defs: { tuple: { type: 'array', items: [{ type: 'string' }, { type: 'integer' }] } } },
    ),
    [{ a: [1], b: [1], c: [1] }, { a: ['x', 1] }],
    [{ a: [] }, { c: ['x'] }],
  ),
  ...moreSchemas,
];
