// What a JSON Schema means, of any draft and of OpenAPI 3.0, written for tests: slow, and independent of how it is lowered.
import * as fc from 'fast-check';
import type { Json } from '../../src/kernel/messages.ts';

export type Schema = { [key: string]: Json };

export const isObject = (value: Json | undefined): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const equal = (a: Json, b: Json): boolean => JSON.stringify(a) === JSON.stringify(b);

function scan(value: Json | undefined, fits: (schema: Schema) => boolean): Schema | undefined {
  if (Array.isArray(value)) return value.map((each) => scan(each, fits)).find(Boolean);
  if (!isObject(value)) return undefined;
  return fits(value)
    ? value
    : Object.values(value)
        .map((each) => scan(each, fits))
        .find(Boolean);
}

/** Undefined: it leads out of the document. */
export function target(ref: string, root: Json): Json | undefined {
  const [id, fragment = ''] = ref.split('#') as [string, string?];
  const start = id ? scan(root, ({ $id }) => typeof $id === 'string' && ($id === id || $id.endsWith(`/${id}`))) : root;
  if (start === undefined || !fragment) return start;
  if (!fragment.startsWith('/')) {
    return scan(
      start,
      ({ $anchor, $dynamicAnchor, $id }) => [$anchor, $dynamicAnchor].includes(fragment) || $id === `#${fragment}`,
    );
  }
  let at: Json | undefined = start;
  for (const step of fragment.slice(1).split('/')) {
    const key = step.replaceAll('%20', ' ').replaceAll('~1', '/').replaceAll('~0', '~');
    at = isObject(at) || Array.isArray(at) ? (Object.getOwnPropertyDescriptor(at, key)?.value as Json) : undefined;
  }
  return at;
}

const types = ['string', 'number', 'integer', 'boolean', 'null', 'array', 'object'];

function isType(value: Json, type: Json): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  return type === 'integer' ? Number.isInteger(value) : typeof value === type;
}

const list = (value: Json | undefined): Json[] => (Array.isArray(value) ? value : []);
const map = (value: Json | undefined): [string, Json][] => (isObject(value) ? Object.entries(value) : []);
const own = (value: Schema, key: string): boolean => Object.hasOwn(value, key);

export function accepts(schema: Json | undefined, value: Json, outer: Json = schema!, hops = 0): boolean {
  if (schema === false) return false;
  if (!isObject(schema)) return true;
  const root = typeof schema.$id === 'string' && !schema.$id.startsWith('#') ? schema : outer;
  if (schema.nullable === true && value === null) return true;
  const check = (part: Json | undefined, of = value) => accepts(part, of, root);
  const { $ref, type, not, if: condition } = schema;
  if (typeof $ref === 'string') {
    const found = target($ref, root);
    if (found !== undefined && hops < 9 && !accepts(found, value, root, hops + 1)) return false;
  }
  const known = [type].flat().filter((name) => types.includes(name as string));
  if (known.length && !known.some((name) => isType(value, name!))) return false;
  if (own(schema, 'const') && !equal(schema.const!, value)) return false;
  if (Array.isArray(schema.enum) && schema.enum.length && !schema.enum.some((each) => equal(each, value))) return false;
  if (!list(schema.allOf).every((part) => check(part))) return false;
  if (Array.isArray(schema.anyOf) && !schema.anyOf.some((part) => check(part))) return false;
  if (Array.isArray(schema.oneOf) && schema.oneOf.filter((part) => check(part)).length !== 1) return false;
  if (not !== undefined && check(not)) return false;
  if (condition !== undefined && !check(check(condition) ? schema.then : schema.else)) return false;
  if (typeof value === 'string') return acceptsText(schema, value);
  if (typeof value === 'number') return acceptsNumber(schema, value);
  if (Array.isArray(value)) return acceptsList(schema, value, root);
  return value === null || typeof value === 'boolean' || acceptsObject(schema, value, root);
}

const atLeast = (limit: Json | undefined, size: number): boolean => typeof limit !== 'number' || size >= limit;
const atMost = (limit: Json | undefined, size: number): boolean => typeof limit !== 'number' || size <= limit;

function acceptsText({ minLength, maxLength, pattern }: Schema, text: string): boolean {
  const size = text.match(/./gsu)?.length ?? 0;
  return atLeast(minLength, size) && atMost(maxLength, size) && (typeof pattern !== 'string' || matches(pattern, text));
}

function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(text);
  } catch {
    return true;
  }
}

function acceptsNumber(schema: Schema, value: number): boolean {
  const { minimum: min, maximum: max, exclusiveMinimum: low, exclusiveMaximum: high, multipleOf } = schema;
  const above = low === true ? min : low;
  const below = high === true ? max : high;
  if (typeof above === 'number' && value <= above) return false;
  if (typeof below === 'number' && value >= below) return false;
  return atLeast(min, value) && atMost(max, value) && (typeof multipleOf !== 'number' || value % multipleOf === 0);
}

function acceptsList(schema: Schema, value: Json[], root: Json): boolean {
  const { minItems, maxItems, uniqueItems, contains, minContains = 1, maxContains } = schema;
  const isOld = Array.isArray(schema.items);
  const places = isOld ? list(schema.items) : list(schema.prefixItems);
  const rest = isOld ? schema.additionalItems : schema.items;
  if (!value.every((each, i) => accepts(i < places.length ? places[i] : rest, each, root))) return false;
  if (contains !== undefined) {
    const count = value.filter((each) => accepts(contains, each, root)).length;
    if (!atLeast(minContains, count) || !atMost(maxContains, count)) return false;
  }
  if (uniqueItems === true && new Set(value.map((each) => JSON.stringify(each))).size < value.length) return false;
  return atLeast(minItems, value.length) && atMost(maxItems, value.length);
}

function acceptsObject(schema: Schema, value: Schema, root: Json): boolean {
  const keys = Object.keys(value);
  if (!list(schema.required).every((key) => typeof key !== 'string' || own(value, key))) return false;
  if (!atLeast(schema.minProperties, keys.length) || !atMost(schema.maxProperties, keys.length)) return false;
  if (!keys.every((key) => accepts(schema.propertyNames, key, root))) return false;
  for (const [key, needs] of [...map(schema.dependentRequired), ...map(schema.dependencies)]) {
    if (own(value, key) && Array.isArray(needs) && !needs.every((need) => own(value, String(need)))) return false;
  }
  return keys.every((key) => {
    const declared = isObject(schema.properties) && own(schema.properties, key) ? [schema.properties[key]] : [];
    const patterns = map(schema.patternProperties).filter(([pattern]) => matches(pattern, key));
    const parts = [...declared, ...patterns.map(([, part]) => part)];
    return (parts.length ? parts : [schema.additionalProperties]).every((part) => accepts(part, value[key]!, root));
  });
}

const atoms = fc.constantFrom<Json>(null, true, 'x', '', 1, 0, 2.5, {}, [], ['x'], { y: [1] });

/** Values that a schema speaks of; not all of them are valid. */
export function valuesOf(schema: Json | undefined, root: Json, depth = 4): fc.Arbitrary<Json> {
  if (!isObject(schema) || depth <= 0) return atoms;
  if (own(schema, 'const')) return fc.constant(schema.const!);
  if (Array.isArray(schema.enum) && schema.enum.length) return fc.constantFrom(...schema.enum);
  const of = (part: Json | undefined) => valuesOf(part, root, depth - 1);
  const branches = [schema.anyOf, schema.oneOf].map(list).filter(({ length }) => length);
  const parts = [
    ...(typeof schema.$ref === 'string' ? [of(target(schema.$ref, root))] : []),
    ...list(schema.allOf).map(of),
    ...branches.map((each) => fc.oneof(...each.map(of))),
    ...(schema.if === undefined ? [] : [fc.oneof(of(schema.then ?? {}), of(schema.else ?? {}))]),
  ];
  const bare = ownValues(schema, of);
  if (!parts.length) return bare ?? atoms;
  return fc.tuple(...(bare ? [bare] : []), ...parts).map((values) => {
    if (!values.every(isObject)) return values.findLast((value) => !isObject(value)) ?? null;
    return Object.fromEntries(values.flatMap((value) => Object.entries(value)));
  });
}

function ownValues(schema: Schema, of: (part: Json | undefined) => fc.Arbitrary<Json>): fc.Arbitrary<Json> | undefined {
  const hints = { properties: 'object', items: 'array', prefixItems: 'array', minLength: 'string', minimum: 'number' };
  const implied = Object.entries(hints).flatMap(([key, type]) => (own(schema, key) ? [type] : []));
  const named = schema.type === undefined ? implied : [schema.type].flat();
  const made = named.map((type): fc.Arbitrary<Json> => {
    if (type === 'string') return fc.constantFrom('', 'a', 'abc', 'x1', '2026-01-02', 'aGk=', 'https://a.b');
    if (type === 'number' || type === 'integer') return fc.constantFrom(-1, 0, 1, 2, 3, 5, 6, 10, 2.5, 99);
    if (type === 'boolean') return fc.boolean();
    if (type === 'array') return listsOf(schema, of);
    return type === 'object' ? objectsOf(schema, of) : fc.constant(null);
  });
  const all = schema.nullable === true ? [...made, fc.constant(null)] : made;
  return all.length ? fc.oneof(...all) : undefined;
}

function listsOf(schema: Schema, of: (part: Json | undefined) => fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  const isOld = Array.isArray(schema.items);
  const places = isOld ? list(schema.items) : list(schema.prefixItems);
  const rest = isOld ? schema.additionalItems : schema.items;
  const more = isObject(rest) || !places.length ? fc.array(of(rest), { maxLength: 3 }) : fc.constant([]);
  return fc.tuple(fc.tuple(...places.map(of)), more).map(([first, others]) => [...first, ...others]);
}

function objectsOf(schema: Schema, of: (part: Json | undefined) => fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  const fields = map(schema.properties).map(([key, part]) => {
    const isNeeded = list(schema.required).includes(key);
    return fc.tuple(fc.constant(key), isNeeded ? of(part) : fc.option(of(part), { nil: undefined }));
  });
  const extra = isObject(schema.additionalProperties)
    ? [fc.tuple(fc.constant('extra'), of(schema.additionalProperties))]
    : [];
  return fc.tuple(...fields, ...extra).map((entries) => {
    const given = entries.filter((entry): entry is [string, Json] => entry[1] !== undefined);
    return Object.fromEntries(given);
  });
}
