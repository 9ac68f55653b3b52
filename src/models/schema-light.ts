// A JSON Schema for hosts that know JSON Schema, but not all of it: keywords and references stay as they are, save for
// those that hosts refuse. What is left admits at least what the schema admits.
import type { Json } from '../kernel/messages.ts';
import { isRecord } from './json.ts';
import type { Place, Refs, Schema } from './schema-refs.ts';
import { createRefs, isSchema, resourceOf } from './schema-refs.ts';
import { legalKey, toDescription } from './schema-render.ts';
import { isPattern, kinds, MOST_SCHEMAS } from './schema-shape.ts';

interface LightConfig {
  /** The host knows tuples (`prefixItems`), else `items` for all places. */
  hasTuples: boolean;
  /** Refuses properties whose names have other characters than `legalKey`. */
  hasPlainKeys: boolean;
}

interface Context extends LightConfig {
  refs: Refs;
  root: Schema;
  resource: Schema;
  /** `#` is still what it was. */
  isTopKept: boolean;
  /** What references lead to changes, too. */
  isShaken: boolean;
  /** Targets that get a name of their own in `$defs`. */
  named: Map<Json, { name: string; place: Place }>;
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));
const dropped = words(
  '$schema $id id $anchor $dynamicAnchor $recursiveAnchor $dynamicRef $recursiveRef $comment $vocabulary ' +
    'unevaluatedProperties unevaluatedItems additionalItems prefixItems',
);
const maps = words('properties patternProperties $defs definitions dependentSchemas');
const lists = words('anyOf allOf oneOf');
const inner = words('items additionalProperties contains propertyNames not if then else');
const numbers = words('minimum maximum exclusiveMinimum exclusiveMaximum multipleOf');
const counts = words('minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains');

export function lightSchema(schema: Schema, config: LightConfig): Schema {
  const refs = createRefs(schema);
  const light = lowered(schema, { ...config, refs, isShaken: false });
  const isShaken = ['$defs', 'definitions'].some((key) => JSON.stringify(light[key]) !== JSON.stringify(schema[key]));
  return isShaken ? lowered(schema, { ...config, refs, isShaken }) : light;
}

function lowered(schema: Schema, config: LightConfig & Pick<Context, 'refs' | 'isShaken'>): Schema {
  const named: Context['named'] = new Map();
  const context = { ...config, root: schema, resource: schema, named, isTopKept: false };
  const object = toObject(schema, context);
  context.isTopKept = object === schema;
  const root = walk(object, context) as Schema;
  const defs: [string, Json][] = Object.entries(isRecord(root.$defs) ? root.$defs : {});
  // Following one reference may lead to more; a Map hands over what is added meanwhile.
  for (const { name, place } of named.values()) {
    defs.push([name, walk(place.schema, { ...context, resource: place.resource })]);
  }
  return named.size ? { ...root, $defs: Object.fromEntries(defs) } : root;
}

const combinations = ['$ref', 'allOf', 'anyOf', 'oneOf', 'enum', 'const', 'not'];

/** Hosts want the arguments to be one object, without alternatives. */
function toObject(schema: Schema, context: Context): Schema {
  const { type, $defs, definitions } = schema;
  if (!combinations.some((name) => Object.hasOwn(schema, name))) {
    if (type === undefined) return { type: 'object', properties: {}, ...schema };
    return type === 'object' ? schema : { ...schema, type: 'object' };
  }
  const { properties, required, isClosed, description } = fieldsIn(schema, context);
  return {
    type: 'object',
    ...(description !== undefined && { description }),
    properties: Object.fromEntries(properties),
    ...(required.length && { required }),
    ...(isClosed && { additionalProperties: false }),
    ...($defs !== undefined && { $defs }),
    ...(definitions !== undefined && { definitions }),
  };
}

interface Fields {
  description?: string;
  properties: Map<string, Json>;
  required: string[];
  /** Nothing but the properties may stand in the object. */
  isClosed: boolean;
}

/** Branches that were not read may hold anything: then only what stands beside them is told. */
function fieldsIn(schema: Schema, context: Context): Fields {
  const budget = { left: MOST_SCHEMAS };
  const fields = fieldsOf(schema, { ...context, open: [schema], budget });
  if (budget.left >= 0) return fields;
  const own = Object.entries(schema).filter(([key]) => !combinations.includes(key));
  return fieldsOf(Object.fromEntries(own), { ...context, open: [], budget: { left: 1 } });
}

interface FieldsContext extends Pick<Context, 'refs' | 'resource'> {
  /** What is being read, from the root on. */
  open: readonly Json[];
  /** Schemas that may still be read, as for shapes; below nothing where some were not. */
  budget: { left: number };
}

/** Combinations within combinations that are read. */
const MOST_LEVELS = 32;

function fieldsOf(schema: Json, context: FieldsContext): Fields {
  if (context.open.length > MOST_LEVELS) context.budget.left = 0;
  if (--context.budget.left < 0 || !isSchema(schema)) return { properties: new Map(), required: [], isClosed: false };
  const { properties, required, description, additionalProperties, patternProperties } = schema;
  const of = (part: Json) => fieldsOf(part, { ...context, open: [...context.open, part] });
  let fields: Fields = {
    ...(typeof description === 'string' && { description }),
    properties: new Map(Object.entries(isSchema(properties) ? properties : {})),
    required: Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [],
    isClosed: additionalProperties === false && patternProperties === undefined,
  };
  const target = typeof schema.$ref === 'string' && context.refs.resolve(schema.$ref, context.resource);
  // What is open on this path says nothing new.
  if (target && !context.open.includes(target.schema)) fields = both(fields, of(target.schema));
  for (const part of Array.isArray(schema.allOf) ? schema.allOf : []) fields = both(fields, of(part));
  for (const branches of [schema.anyOf, schema.oneOf]) {
    const base = fields;
    if (Array.isArray(branches) && branches.length) {
      fields = branches.map((branch) => both(base, of(branch))).reduce(either);
    }
  }
  return fields;
}

function both(a: Fields, b: Fields): Fields {
  const required = [...new Set([...a.required, ...b.required])];
  const description = a.description ?? b.description;
  return {
    ...(description !== undefined && { description }),
    properties: joined(a, b, 'allOf'),
    required,
    isClosed: a.isClosed || b.isClosed,
  };
}

function either(a: Fields, b: Fields): Fields {
  const required = a.required.filter((name) => b.required.includes(name));
  const { description } = a.description === b.description ? a : { description: undefined };
  return {
    ...(description !== undefined && { description }),
    properties: joined(a, b, 'anyOf'),
    required,
    isClosed: a.isClosed && b.isClosed,
  };
}

function joined(a: Fields, b: Fields, how: 'allOf' | 'anyOf'): Map<string, Json> {
  const properties = new Map(a.properties);
  for (const [key, value] of b.properties) {
    const own = properties.get(key);
    properties.set(key, own === undefined ? value : combined(own, value, how));
  }
  return properties;
}

/** Flat and each part once, however many branches there are. */
function combined(own: Json, value: Json, how: 'allOf' | 'anyOf'): Json {
  const isList = isSchema(own) && Array.isArray(own[how]) && Object.keys(own).length === 1;
  const parts = isList ? (own[how] as Json[]) : [own];
  const text = JSON.stringify(value);
  return [own, ...parts].some((part) => JSON.stringify(part) === text) ? own : { [how]: [...parts, value] };
}

function walk(schema: Json, outer: Context): Json {
  if (schema === false) return { not: {} };
  if (!isSchema(schema)) return {};
  const context = { ...outer, resource: resourceOf(schema, outer.resource) };
  const entries: [string, Json][] = [];
  for (const [key, value] of Object.entries(schema)) {
    const lowered = keywordOf(key, value, context);
    if (lowered !== undefined) entries.push([key, lowered]);
  }
  // Object.fromEntries keeps a key named __proto__.
  const node: Schema = Object.fromEntries(entries);
  oldBounds(schema, node);
  arrays(schema, node, context);
  if (context.hasPlainKeys) plainKeys(node);
  return exact(schema, node, context);
}

/** Undefined drops the keyword. */
function keywordOf(key: string, value: Json, context: Context): Json | undefined {
  if (dropped.has(key)) return undefined;
  if (key === '$ref') return toRef(value, context);
  if (key === 'type') return toType(value);
  if (key === 'enum') return Array.isArray(value) && value.length ? value : undefined;
  if (key === 'required') return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : undefined;
  if (key === 'pattern') return isPattern(value) ? value : undefined;
  if (key === 'format' || key === 'description') return typeof value === 'string' ? value : undefined;
  if (numbers.has(key)) return typeof value === 'number' ? value : undefined;
  if (counts.has(key)) return Number.isInteger(value) && (value as number) >= 0 ? value : undefined;
  if (lists.has(key)) {
    return Array.isArray(value) && value.length ? value.map((part) => walk(part, context)) : undefined;
  }
  if (maps.has(key)) return isSchema(value) ? mapOf(key, value, context) : undefined;
  if (key === 'additionalProperties' && typeof value === 'boolean') return value;
  if (inner.has(key)) {
    return Array.isArray(value) ? undefined : walk(value, context);
  }
  return value;
}

function mapOf(key: string, map: Schema, context: Context): Schema {
  const entries = Object.entries(map).filter(([name]) => key !== 'patternProperties' || isPattern(name));
  return Object.fromEntries(entries.map(([name, part]) => [name, walk(part, context)]));
}

function toType(type: Json): Json | undefined {
  if (!Array.isArray(type)) return kinds.some((kind) => kind === type) ? type : undefined;
  const known = [...new Set(type)].filter((name) => kinds.some((kind) => kind === name));
  return known.length === type.length && known.length ? known : undefined;
}

/** Definitions at the root keep their names; what else is referred to becomes one; what is not there is left out. */
function toRef(ref: Json, { refs, root, resource, named, isTopKept }: Context): string | undefined {
  const target = typeof ref === 'string' ? refs.resolve(ref, resource) : undefined;
  if (!target) return undefined;
  if (isTopKept && target.schema === root) return '#';
  const [, map = '', name = ''] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(ref as string) ?? [];
  const isKept = resource === root && name && isRecord(root[map]);
  if (isKept) return ref as string;
  const known = named.get(target.schema);
  if (known) return `#/$defs/${known.name}`;
  const wish = target.schema === root ? 'root' : (ref as string).replace(/.*[/#]/, '').replace(/\W/g, '') || 'part';
  let free = wish;
  const taken = new Set(Object.keys(isRecord(root.$defs) ? root.$defs : {}));
  for (const { name: used } of named.values()) taken.add(used);
  for (let n = 2; taken.has(free); n++) free = `${wish}${n}`;
  named.set(target.schema, { name: free, place: target });
  return `#/$defs/${free}`;
}

/** In draft 4 `exclusiveMinimum` is a flag of `minimum`. */
function oldBounds(schema: Schema, node: Schema): void {
  for (const [limit, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    if (schema[exclusive] !== true || typeof node[limit] !== 'number') continue;
    node[exclusive] = node[limit];
    delete node[limit];
  }
}

function arrays(schema: Schema, node: Schema, context: Context): void {
  const isOld = Array.isArray(schema.items);
  const places = (isOld ? schema.items : schema.prefixItems) as Json[] | undefined;
  const rest = isOld ? schema.additionalItems : schema.items;
  if (Array.isArray(places) && places.length) {
    const parts = places.map((place) => walk(place, context));
    const others = isSchema(rest) ? [walk(rest, context)] : [];
    if (context.hasTuples) {
      node.prefixItems = parts;
      if (isOld) node.items = others[0] ?? (rest === false ? false : {});
      else if (rest === false) node.items = false;
    } else {
      const all = [...parts, ...others];
      node.items = all.length > 1 ? { anyOf: all } : all[0]!;
      if (rest === false) node.maxItems = Math.min(places.length, (node.maxItems as number | undefined) ?? Infinity);
      const order = `one item each, in this order: ${parts.map((part) => JSON.stringify(part)).join(', ')}`;
      Object.assign(node, toDescription(node.description as string | undefined, [order]));
    }
  } else if (schema.items === false) {
    node.items = {};
    node.maxItems = 0;
  } else if (isOld || (node.items === undefined && [node.type].flat().includes('array'))) node.items = {};
}

function plainKeys(node: Schema): void {
  if (!isSchema(node.properties)) return;
  const other = Object.entries(node.properties).filter(([key]) => !legalKey.test(key));
  if (!other.length) return;
  node.properties = Object.fromEntries(Object.entries(node.properties).filter(([key]) => legalKey.test(key)));
  const notes = other.map(([key, value]) => `also ${key}: ${JSON.stringify(value)}`);
  Object.assign(node, toDescription(node.description as string | undefined, notes));
  // They are allowed all the same.
  delete node.additionalProperties;
}

/** Where admitting more inside would admit less outside. */
function exact(schema: Schema, node: Schema, { isShaken }: Context): Schema {
  const isChanged = (key: string) => {
    const text = JSON.stringify(node[key]);
    return text !== JSON.stringify(schema[key]) || (isShaken && text.includes('"$ref"'));
  };
  if (node.not !== undefined && isChanged('not')) delete node.not;
  if (node.if !== undefined && isChanged('if')) for (const key of ['if', 'then', 'else']) delete node[key];
  if (node.contains !== undefined && isChanged('contains')) delete node.maxContains;
  if (node.oneOf === undefined || !isChanged('oneOf')) return node;
  return Object.fromEntries(
    Object.entries(node).flatMap(([key, value]): [string, Json][] => {
      if (key !== 'oneOf') return [[key, value]];
      return node.anyOf === undefined ? [['anyOf', value]] : [];
    }),
  );
}
