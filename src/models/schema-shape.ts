// What a JSON Schema admits, without references and combinations: alternatives of one type each. A shape admits at
// least what its schema admits, as far as the schema speaks of it: where only some branches of a schema name a property,
// the others are taken not to have it. What a shape cannot hold is told in notes.
import type { Json } from '../kernel/messages.ts';
import type { Refs, Schema } from './schema-refs.ts';
import { isSchema, resourceOf } from './schema-refs.ts';

export const kinds = ['string', 'number', 'integer', 'boolean', 'null', 'array', 'object'] as const;
export type Kind = (typeof kinds)[number];

/** All values of one type, less what its fields exclude. */
export interface Alternative {
  kind: Kind;
  values?: Json[];
  format?: string;
  min?: number;
  max?: number;
  /** Of an array; absent: anything. */
  items?: Shape;
  properties?: Map<string, Shape>;
  required?: string[];
  /** Of properties that are not named, where the schema speaks of them. */
  rest?: Shape;
  notes?: string[];
}

export interface Shape {
  description?: string;
  alternatives: Alternative[];
}

interface ShapeContext {
  refs: Refs;
  resource: Schema;
  /** Levels that may still be entered. */
  depth: number;
  /** Targets of references that are being followed. */
  open: readonly Json[];
  /** Schemas that may still be read: references can make small documents huge. */
  budget: { left: number };
}

/** Schemas that are read, a reference once for each time it is followed. */
export const MOST_SCHEMAS = 500;
/** A recursion is shown this often. */
const MOST_ROUNDS = 2;
/** Objects that are kept apart; more are joined to one. */
const MOST_OBJECTS = 8;
/** Pairs of objects that are compared one by one; more are joined before. */
const MOST_PAIRS = 16;

const broad = kinds.filter((kind) => kind !== 'integer');

export const anything = (): Shape => ({ alternatives: broad.map((kind) => ({ kind })) });

/** Whether nothing is known but the types. */
export const isBare = (each: Alternative): boolean =>
  Object.keys(each).every((key) => key === 'kind' || key === 'rest');

export function shapeOf(schema: Json | undefined, outer: ShapeContext): Shape {
  if (schema === false) return { alternatives: [] };
  if (!isSchema(schema)) return anything();
  if (outer.depth <= 0 || --outer.budget.left <= 0) return cut(schema, outer);
  const context = { ...outer, resource: resourceOf(schema, outer.resource) };
  let shape = ownShape(schema, context);
  if (typeof schema.$ref === 'string') shape = intersect(shape, targetShape(schema.$ref, context));
  for (const part of listOf(schema.allOf)) shape = intersect(shape, shapeOf(part, context));
  for (const branches of [listOf(schema.anyOf), listOf(schema.oneOf), conditions(schema)]) {
    if (!branches.length) continue;
    const { description, ...base } = shape;
    const united = union(branches.map((branch) => intersect(base, shapeOf(branch, context))));
    shape = description === undefined ? united : { ...united, description };
  }
  return shape;
}

const listOf = (value: Json | undefined): Json[] => (Array.isArray(value) ? value : []);

/** A value satisfies one of them. */
const conditions = ({ if: condition, then: yes = true, else: no = true }: Schema): Json[] =>
  condition === undefined || (yes === true && no === true) ? [] : [yes, no];

/** Only the types of what would lead too deep; its objects may have any properties. */
function cut(schema: Schema, { refs, resource }: ShapeContext): Shape {
  const isNamed = schema.type === undefined && typeof schema.$ref === 'string';
  const target = isNamed ? refs.resolve(schema.$ref as string, resource)?.schema : undefined;
  const names = kindsOf(isSchema(target) ? target : schema);
  return { alternatives: names.map((kind) => (kind === 'object' ? { kind, rest: anything() } : { kind })) };
}

function targetShape(ref: string, context: ShapeContext): Shape {
  const target = context.refs.resolve(ref, context.resource);
  if (!target) return withNotes(anything(), [`as in ${ref}`]);
  const { schema, resource } = target;
  const rounds = context.open.filter((each) => each === schema).length;
  if (rounds >= MOST_ROUNDS) return isSchema(schema) ? cut(schema, context) : anything();
  return shapeOf(schema, { ...context, resource, open: [...context.open, schema] });
}

function kindsOf({ type, nullable }: Schema): Kind[] {
  const named = (Array.isArray(type) ? type : [type]).filter((name): name is Kind => kinds.includes(name as Kind));
  if (!named.length) return broad;
  return nullable === true && !named.includes('null') ? [...named, 'null'] : named;
}

function ownShape(schema: Schema, context: ShapeContext): Shape {
  const inner = { ...context, depth: context.depth - 1 };
  const alternatives = kindsOf(schema).map((kind): Alternative => {
    if (kind === 'string') return { kind, ...stringLimits(schema) };
    if (kind === 'number' || kind === 'integer') return { kind, ...numberLimits(schema, kind) };
    if (kind === 'array') return { kind, ...arrayLimits(schema, inner) };
    return kind === 'object' ? { kind, ...objectLimits(schema, inner) } : { kind };
  });
  const values = Object.hasOwn(schema, 'const') ? [schema.const!] : schema.enum;
  const shape: Shape = { alternatives: listOf(values).length ? chosen(alternatives, listOf(values)) : alternatives };
  if (typeof schema.description === 'string' && schema.description) shape.description = schema.description;
  return schema.not === undefined ? shape : withNotes(shape, [`not ${JSON.stringify(schema.not)}`]);
}

function chosen(alternatives: Alternative[], values: Json[]): Alternative[] {
  return alternatives.flatMap((alternative) => {
    const own = values.filter((value) => isOfKind(value, alternative.kind));
    return own.length ? [alternative.kind === 'null' ? alternative : { ...alternative, values: own }] : [];
  });
}

function isOfKind(value: Json, kind: Kind): boolean {
  if (kind === 'null') return value === null;
  if (kind === 'array') return Array.isArray(value);
  if (kind === 'integer') return Number.isInteger(value);
  return kind === 'object' ? isSchema(value) : typeof value === kind;
}

const count = (value: Json | undefined): value is number => Number.isInteger(value) && (value as number) >= 0;

export function isPattern(value: Json | undefined): value is string {
  try {
    return typeof value === 'string' && Boolean(new RegExp(value, 'u'));
  } catch {
    return false;
  }
}

function stringLimits(schema: Schema): Partial<Alternative> {
  const { format, minLength, maxLength, pattern, contentMediaType, contentEncoding } = schema;
  const notes: string[] = [];
  if (count(minLength) && minLength) notes.push(`at least ${minLength} characters`);
  if (count(maxLength)) notes.push(`at most ${maxLength} characters`);
  if (isPattern(pattern)) notes.push(`matches ${pattern}`);
  for (const content of [contentMediaType, contentEncoding]) if (typeof content === 'string') notes.push(content);
  return { ...(typeof format === 'string' && { format }), ...noted(notes) };
}

const noted = (notes: string[]): { notes?: string[] } => (notes.length ? { notes } : {});

/** In draft 4 `exclusiveMinimum` is a flag of `minimum`. */
function numberLimits(schema: Schema, kind: 'number' | 'integer'): Partial<Alternative> {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, format } = schema;
  const notes: string[] = [];
  const bound = (limit: Json | undefined, exclusive: Json | undefined, side: 1 | -1): number | undefined => {
    const open = exclusive === true ? limit : exclusive;
    const closed = exclusive === true ? undefined : limit;
    if (typeof open === 'number') {
      const next = side > 0 ? Math.floor(open) + 1 : Math.ceil(open) - 1;
      const own = kind === 'integer' ? next : open;
      if (typeof closed === 'number' && (closed - own) * side > 0) return closed;
      if (kind === 'number') notes.push(`${side > 0 ? 'greater' : 'less'} than ${open}`);
      return own;
    }
    return typeof closed === 'number' ? closed : undefined;
  };
  const min = bound(minimum, exclusiveMinimum, 1);
  const max = bound(maximum, exclusiveMaximum, -1);
  if (typeof multipleOf === 'number') notes.push(`multiple of ${multipleOf}`);
  return {
    ...(min !== undefined && { min }),
    ...(max !== undefined && { max }),
    ...(typeof format === 'string' && { format }),
    ...noted(notes),
  };
}

/** Of a tuple the places are joined: any of them may stand anywhere. */
function arrayLimits(schema: Schema, context: ShapeContext): Partial<Alternative> {
  const { minItems, maxItems, uniqueItems, contains } = schema;
  const isOld = Array.isArray(schema.items);
  const places = isOld ? (schema.items as Json[]) : listOf(schema.prefixItems);
  const rest = isOld ? schema.additionalItems : schema.items;
  const notes: string[] = [];
  if (places.length) notes.push(`in this order: ${places.map(nameOf).join(', ')}`);
  if (uniqueItems === true) notes.push('each once');
  if (contains !== undefined) notes.push(`contains ${nameOf(contains)}`);
  const isClosed = rest === false;
  const all = isSchema(rest) ? [...places, rest] : places;
  const most = isClosed ? Math.min(places.length, count(maxItems) ? maxItems : Infinity) : maxItems;
  return {
    ...(all.length && { items: union(all.map((place) => shapeOf(place, context))) }),
    ...(count(minItems) && minItems && { min: minItems }),
    ...(count(most) && { max: most }),
    ...noted(notes),
  };
}

/** A schema in few words. */
function nameOf(schema: Json): string {
  if (!isSchema(schema)) return 'anything';
  const { type, enum: values, title, $ref } = schema;
  if (Object.hasOwn(schema, 'const')) return JSON.stringify(schema.const);
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join('|');
  for (const name of [title, type]) if (typeof name === 'string') return name;
  if (Array.isArray(type)) return type.join('|');
  return typeof $ref === 'string' ? $ref.replace(/.*[/#]/, '') : 'anything';
}

function objectLimits(schema: Schema, context: ShapeContext): Partial<Alternative> {
  const { properties, required, additionalProperties: others, patternProperties: patterns } = schema;
  const notes: string[] = [];
  const extra = [
    ...(isSchema(others) ? [others] : []),
    ...(isSchema(patterns) ? Object.values(patterns) : []),
    ...(isSchema(patterns) && others !== false ? [others ?? true] : []),
  ];
  if (isSchema(others) && Object.keys(others).length) notes.push(`other keys: ${nameOf(others)}`);
  if (isSchema(patterns)) {
    for (const [pattern, value] of Object.entries(patterns)) notes.push(`keys like ${pattern}: ${nameOf(value)}`);
  }
  if (isSchema(schema.propertyNames)) notes.push(`keys: ${JSON.stringify(schema.propertyNames)}`);
  if (count(schema.minProperties)) notes.push(`at least ${schema.minProperties} keys`);
  if (count(schema.maxProperties)) notes.push(`at most ${schema.maxProperties} keys`);
  for (const name of ['dependentRequired', 'dependencies']) {
    for (const [key, needs] of Object.entries(isSchema(schema[name]) ? schema[name] : {})) {
      if (Array.isArray(needs)) notes.push(`${key} needs ${needs.join(', ')}`);
    }
  }
  const named = Object.entries(isSchema(properties) ? properties : {}).filter(([, value]) => value !== false);
  const shapes = named.map(([key, value]) => [key, shapeOf(value, context)] as const);
  const names = listOf(required).filter((name) => typeof name === 'string');
  return {
    ...(shapes.length && { properties: new Map(shapes) }),
    ...(names.length && { required: [...new Set(names)] }),
    ...(extra.length && { rest: union(extra.map((each) => shapeOf(each, context))) }),
    ...noted(notes),
  };
}

function withNotes(shape: Shape, notes: string[]): Shape {
  const add = (each: Alternative) => ({ ...each, notes: [...new Set([...(each.notes ?? []), ...notes])] });
  return { ...shape, alternatives: shape.alternatives.map(add) };
}

/** What both admit, or more. */
export function intersect(a: Shape, b: Shape): Shape {
  const description = a.description ?? b.description;
  const isMany = objectsIn(a) * objectsIn(b) > MOST_PAIRS;
  const [left, right] = [a, b].map((shape) => (isMany ? joinAll(shape.alternatives) : shape.alternatives));
  const alternatives = left!.flatMap((x) =>
    right!.flatMap((y) => {
      const both = isSame(x.kind, y.kind) && narrow(x, y);
      return both ? [both] : [];
    }),
  );
  return { ...(description !== undefined && { description }), alternatives: few(alternatives) };
}

const objectsIn = ({ alternatives }: Shape): number => alternatives.filter(({ kind }) => kind === 'object').length;

/** One alternative a type, but for objects: those stay apart while they are few. */
function few(alternatives: Alternative[]): Alternative[] {
  const objects = distinct(alternatives.filter(({ kind }) => kind === 'object'));
  const others = joinAll(alternatives.filter(({ kind }) => kind !== 'object'));
  return [...others, ...(objects.length > MOST_OBJECTS ? joinAll(objects) : objects)];
}

const isNumber = (kind: Kind): boolean => kind === 'number' || kind === 'integer';
const isSame = (a: Kind, b: Kind): boolean => a === b || (isNumber(a) && isNumber(b));

function narrow(a: Alternative, b: Alternative): Alternative | undefined {
  const kind = a.kind === 'integer' ? a.kind : b.kind;
  const values = a.values && b.values ? a.values.filter((value) => has(b.values!, value)) : (a.values ?? b.values);
  if (values && !values.some((value) => isOfKind(value, kind))) return undefined;
  const min = Math.max(a.min ?? -Infinity, b.min ?? -Infinity);
  const max = Math.min(a.max ?? Infinity, b.max ?? Infinity);
  const items = a.items && b.items ? intersect(a.items, b.items) : (a.items ?? b.items);
  const properties = new Map(a.properties);
  for (const [key, shape] of b.properties ?? []) {
    const own = properties.get(key);
    properties.set(key, own ? intersect(own, shape) : shape);
  }
  const required = [...new Set([...(a.required ?? []), ...(b.required ?? [])])];
  const rest = a.rest && b.rest ? union([a.rest, b.rest]) : (a.rest ?? b.rest);
  const format = a.format ?? b.format;
  return {
    kind,
    ...(values && { values: values.filter((value) => isOfKind(value, kind)) }),
    ...(format !== undefined && (a.format ?? format) === (b.format ?? format) && { format }),
    ...(min > -Infinity && { min }),
    ...(max < Infinity && { max }),
    ...(items && { items }),
    ...(properties.size && { properties }),
    ...(required.length && { required }),
    ...(rest && { rest }),
    ...noted([...new Set([...(a.notes ?? []), ...(b.notes ?? [])])]),
  };
}

function has(values: Json[], value: Json): boolean {
  if (typeof value !== 'object' || value === null) return values.includes(value);
  const text = JSON.stringify(value);
  return values.some((each) => typeof each === 'object' && JSON.stringify(each) === text);
}

/** What any of them admits, or more. Objects stay apart while they are few. */
export function union(shapes: readonly Shape[]): Shape {
  const said = shapes.filter(({ alternatives }) => alternatives.some(({ kind }) => kind !== 'null'));
  const common = said.every(({ description }) => description === said[0]!.description);
  const description = common ? said[0]?.description : undefined;
  const all = shapes.flatMap((shape) =>
    shape.description === undefined || common
      ? shape.alternatives
      : shape.alternatives.map((each) => described(each, shape.description!)),
  );
  return { ...(description !== undefined && { description }), alternatives: few(all) };
}

const described = (each: Alternative, description: string): Alternative => ({
  ...each,
  notes: [...new Set([description, ...(each.notes ?? [])])],
});

function distinct(alternatives: Alternative[]): Alternative[] {
  if (alternatives.length < 2) return alternatives;
  const texts = new Map<string, Alternative>();
  const plain = (_: string, value: unknown) => (value instanceof Map ? [...value] : value);
  for (const each of alternatives) {
    const text = JSON.stringify(each, plain);
    if (!texts.has(text)) texts.set(text, each);
  }
  return [...texts.values()];
}

/** One alternative a type. */
export function joinAll(alternatives: readonly Alternative[]): Alternative[] {
  const joined: Alternative[] = [];
  for (const each of alternatives) {
    const at = joined.findIndex(({ kind }) => isSame(kind, each.kind));
    if (at < 0) joined.push(each);
    else joined[at] = widen(joined[at]!, each);
  }
  return joined;
}

function widen(a: Alternative, b: Alternative): Alternative {
  const kind = a.kind === b.kind ? a.kind : 'number';
  const values = a.values && b.values && [...a.values, ...b.values.filter((value) => !has(a.values!, value))];
  const items = a.items && b.items && union([a.items, b.items]);
  const required = (a.required ?? []).filter((name) => b.required?.includes(name));
  const rest = a.rest || b.rest ? union([a.rest, b.rest].filter((each) => each !== undefined)) : undefined;
  const properties = new Map<string, Shape>();
  for (const key of new Set([...(a.properties?.keys() ?? []), ...(b.properties?.keys() ?? [])])) {
    const both = [a, b].map((each) => each.properties?.get(key) ?? each.rest).filter((each) => each !== undefined);
    properties.set(key, both.length > 1 ? union(both) : both[0]!);
  }
  const sets = [a, b].map((each) => (each.required ?? []).filter((name) => !required.includes(name)).join(', '));
  const either = sets.every(Boolean) ? [`either ${sets.join(' or ')}`] : [];
  const common = (a.notes ?? []).filter((note) => b.notes?.includes(note));
  return {
    kind,
    ...(values && { values }),
    ...(a.format !== undefined && a.format === b.format && { format: a.format }),
    ...(a.min !== undefined && b.min !== undefined && { min: Math.min(a.min, b.min) }),
    ...(a.max !== undefined && b.max !== undefined && { max: Math.max(a.max, b.max) }),
    ...(items && { items }),
    ...(properties.size && { properties }),
    ...(required.length && { required }),
    ...(rest && { rest }),
    ...noted([...common, ...either]),
  };
}
