// What strict hosts take as the parameters of a tool, written from what they refuse and not from how we lower schemas.
import type { SchemaDialect } from '../models/schema-dialect.ts';

type Json = unknown;
type Check = (schema: Json, path: string) => string | undefined;

const isRecord = (value: Json): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const types = ['string', 'number', 'integer', 'boolean', 'array', 'object'];

/** Why the host refuses these parameters; undefined when it takes them. Only Gemini takes a tool without any. */
export function parametersProblem(schema: Json, dialect: SchemaDialect): string | undefined {
  if (schema === undefined) return dialect === 'gemini' ? undefined : 'parameters: missing';
  if (!isRecord(schema)) return 'parameters: not an object';
  if (schema.type !== 'object') return `parameters: schema must have type "object", not ${JSON.stringify(schema.type)}`;
  const top = ['anyOf', 'oneOf', 'allOf', 'enum', 'not', 'const', '$ref'].find((key) => key in schema);
  if (top) return `parameters: input_schema does not support ${top} at the top level`;
  if (dialect === 'gemini') return geminiProblem(schema, 'parameters');
  if (dialect === 'plain') return plainProblem(schema, 'parameters');
  return lightProblem(schema, 'parameters', { root: schema, dialect });
}

const first = (problems: Iterable<string | undefined>): string | undefined => {
  for (const problem of problems) if (problem) return problem;
  return undefined;
};

const foreign = (schema: Record<string, Json>, allowed: string[], path: string): string | undefined => {
  const name = Object.keys(schema).find((key) => !allowed.includes(key));
  return name && `Invalid JSON payload received. Unknown name "${name}" at '${path}': Cannot find field.`;
};

const each = (map: Json, path: string, check: Check): (string | undefined)[] =>
  isRecord(map)
    ? Object.entries(map).map(([key, value]) => check(value, `${path}.${key}`))
    : [`${path}: not an object`];

const texts = (value: Json): value is string[] =>
  Array.isArray(value) && value.every((text) => typeof text === 'string' && text !== '');

const geminiWords =
  'type format description nullable enum items minItems maxItems properties required minimum maximum anyOf'.split(' ');
const geminiFormats: Record<string, string[]> = {
  string: ['date-time', 'enum'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
};

function geminiProblem(schema: Json, path: string): string | undefined {
  if (!isRecord(schema)) return `${path}: a schema is an object`;
  const { type, format, enum: values, items, properties, required, anyOf, description, nullable } = schema;
  const unknown = foreign(schema, geminiWords, path);
  if (unknown) return unknown;
  if (path.split('.').length > 40) return `${path}: the schema is nested too deeply`;
  if (anyOf !== undefined) {
    if (Object.keys(schema).length > 1) return `${path}: when using any_of, it must be the only field set`;
    if (!Array.isArray(anyOf) || !anyOf.length) return `${path}.any_of: should be non-empty`;
    return first(anyOf.map((part, i) => geminiProblem(part, `${path}.any_of[${i}]`)));
  }
  if (typeof type !== 'string' || !types.includes(type)) return `${path}: schema didn't specify the schema type field`;
  if (description !== undefined && typeof description !== 'string') return `${path}.description: not a text`;
  if (nullable !== undefined && typeof nullable !== 'boolean') return `${path}.nullable: not a boolean`;
  if (format !== undefined && !geminiFormats[type]?.includes(format as string)) {
    return `${path}.format: only 'enum' and 'date-time' are supported for STRING type`;
  }
  if (values !== undefined && (type !== 'string' || !texts(values) || !values.length)) {
    return `${path}.enum: only allowed for STRING type, and not empty`;
  }
  if ((type === 'array') !== (items !== undefined)) return `${path}.items: missing field`;
  if (items !== undefined) return geminiProblem(items, `${path}.items`);
  if (type !== 'object') return undefined;
  if (properties === undefined) return path === 'parameters' ? `${path}.properties: should be non-empty` : undefined;
  if (!Object.keys(properties as object).length) return `${path}.properties: should be non-empty for OBJECT type`;
  const names =
    required === undefined || (texts(required) && required.every((name) => Object.hasOwn(properties as object, name)));
  return first([
    names ? undefined : `${path}.required: property is not defined`,
    ...each(properties, `${path}.properties`, geminiProblem),
  ]);
}

const plainWords = ['type', 'description', 'enum', 'items', 'properties', 'required'];

function plainProblem(schema: Json, path: string): string | undefined {
  if (!isRecord(schema)) return `${path}: a schema is an object`;
  const { type, enum: values, items, properties = {}, required = [] } = schema;
  return first([
    foreign(schema, plainWords, path),
    type === undefined || types.includes(type as string) ? undefined : `${path}.type: unknown`,
    values === undefined || (type === 'string' && texts(values)) ? undefined : `${path}.enum: only for texts`,
    type !== 'array' || items !== undefined ? undefined : `${path}.items: missing`,
    items === undefined ? undefined : plainProblem(items, `${path}.items`),
    texts(required) && required.every((name) => Object.hasOwn(properties as object, name))
      ? undefined
      : `${path}.required: names what is no property`,
    ...keysProblem(properties, path),
    ...each(properties, `${path}.properties`, plainProblem),
  ]);
}

const keysProblem = (properties: Json, path: string): string[] =>
  Object.keys(isRecord(properties) ? properties : {})
    .filter((key) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(key))
    .map((key) => `${path}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$': ${key}`);

const refused = ['$schema', '$id', '$anchor', '$dynamicAnchor', '$dynamicRef', '$recursiveRef', '$recursiveAnchor'];
const inner = ['items', 'additionalProperties', 'contains', 'propertyNames', 'not', 'if', 'then', 'else'];
const innerMaps = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'];
const innerLists = ['anyOf', 'oneOf', 'allOf', 'prefixItems'];

interface Light {
  root: Record<string, Json>;
  dialect: SchemaDialect;
}

/** JSON Schema 2020-12, less what OpenAI and Anthropic refuse. */
function lightProblem(schema: Json, path: string, host: Light): string | undefined {
  if (!isRecord(schema)) return `${path}: ${JSON.stringify(schema)} is not of type 'object'`;
  const check: Check = (value, at) => lightProblem(value, at, host);
  const { type, items, $ref, required, exclusiveMinimum: low, exclusiveMaximum: high, enum: values } = schema;
  const word = refused.find((key) => key in schema);
  const isTuple = 'prefixItems' in schema;
  const isArray = [type].flat().includes('array');
  return first([
    word && `${path}: ${word} is not supported`,
    ...[type]
      .flat()
      .map((name) => (name === undefined || [...types, 'null'].includes(name as string) ? '' : `${path}.type`)),
    Array.isArray(type) && !type.length ? `${path}.type: empty` : undefined,
    Array.isArray(items) ? `${path}.items: [...] is not of type 'object', 'boolean'` : undefined,
    isTuple && host.dialect === 'openai' ? `${path}: prefixItems is not supported` : undefined,
    isArray && items === undefined && !isTuple ? `${path}: array schema missing items` : undefined,
    required === undefined || Array.isArray(required) ? undefined : `${path}.required: not an array`,
    values === undefined || (Array.isArray(values) && values.length) ? undefined : `${path}.enum: empty`,
    typeof low === 'boolean' || typeof high === 'boolean' ? `${path}: exclusive limits are numbers` : undefined,
    $ref === undefined ? undefined : refProblem($ref, host.root, path),
    ...(host.dialect === 'anthropic' ? keysProblem(schema.properties, path) : []),
    ...inner
      .filter((key) => isRecord(schema[key]) || (key in schema && !['items', 'additionalProperties'].includes(key)))
      .map((key) => (Array.isArray(schema[key]) ? undefined : check(schema[key], `${path}.${key}`))),
    ...innerMaps.filter((key) => key in schema).flatMap((key) => each(schema[key], `${path}.${key}`, check)),
    ...innerLists
      .filter((key) => key in schema)
      .flatMap((key) => [schema[key]].flat().map((part, i) => check(part, `${path}.${key}[${i}]`))),
  ]);
}

function refProblem(ref: Json, root: Record<string, Json>, path: string): string | undefined {
  if (ref === '#') return undefined;
  const [, map = '', name = ''] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(String(ref)) ?? [];
  const found = isRecord(root[map]) && Object.hasOwn(root[map], name);
  return found ? undefined : `${path}: $ref ${JSON.stringify(ref)} cannot be resolved`;
}
