// Shapes as schemas of the two small dialects: Gemini's subset of OpenAPI 3.0, and the little that any host takes.
import type { Json } from '../kernel/messages.ts';
import type { Schema } from './schema-refs.ts';
import type { Alternative, Kind, Shape } from './schema-shape.ts';
import { anything, isBare, joinAll } from './schema-shape.ts';

const NOTE_CHARS = 120;
const NOTES_CHARS = 400;
const MOST_VALUES = 200;

/** How often an array of anything may hold arrays of anything: this dialect wants each type named. */
const ANY_LEVELS = 1;

/** What all hosts take as a property's name. */
export const legalKey = /^[A-Za-z0-9_.-]{1,64}$/;

/** A description with what the schema's own keywords cannot tell, each note short. */
export function toDescription(description: string | undefined, notes: readonly string[]): { description?: string } {
  let all = '';
  for (const note of new Set(notes)) {
    const short = note.length > NOTE_CHARS ? `${note.slice(0, NOTE_CHARS).toWellFormed()}...` : note;
    if (all.length + short.length < NOTES_CHARS) all += all ? `; ${short}` : short;
  }
  if (!all) return description ? { description } : {};
  return { description: description ? `${description} (${all})` : all[0]!.toUpperCase() + all.slice(1) };
}

const oneOf = (values: readonly Json[]): string => {
  const first = values.slice(0, 20).map((value) => JSON.stringify(value));
  return `one of ${first.join(', ')}${values.length > 20 ? ', ...' : ''}`;
};

/** Types without `null`; where only one of all types has more to it, that one is meant. */
function meant({ alternatives }: Shape): { own: Alternative[]; isNullable: boolean } {
  const own = alternatives.filter(({ kind }) => kind !== 'null');
  const isNullable = own.length < alternatives.length;
  const rich = own.filter((each) => !isBare(each));
  const isAny = new Set(alternatives.map(({ kind }) => kind)).size >= 6;
  return isAny && rich.length > 0 && new Set(rich.map(({ kind }) => kind)).size === 1
    ? { own: rich, isNullable: false }
    : { own, isNullable };
}

/** The one object that a tool's arguments are. */
function rootOf({ description, alternatives }: Shape): Shape {
  const [object = { kind: 'object' as const }] = joinAll(alternatives.filter(({ kind }) => kind === 'object'));
  return { ...(description !== undefined && { description }), alternatives: [object] };
}

const geminiFormats: Partial<Record<Kind, string[]>> = {
  string: ['date-time', 'enum'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
};

/** Each type is named, `anyOf` stands alone, arrays have items, values are texts. */
export function renderGemini(shape: Shape): Schema {
  return geminiShape(rootOf(shape), 0);
}

function geminiShape(shape: Shape, anyLevel: number): Schema {
  const { own, isNullable } = meant(shape);
  const nullable = isNullable && { nullable: true };
  if (!own.length) return { type: 'string', ...toDescription(shape.description, ['null']), nullable: true };
  if (own.length === 1) return { ...geminiNode(own[0]!, shape.description, anyLevel), ...nullable };
  const common = (note: string) => own.every(({ notes }) => notes?.includes(note));
  const told = own.map(({ notes = [], ...each }, i) => ({
    ...each,
    notes: i ? notes.filter((note) => !common(note)) : notes,
  }));
  const nodes = told.map((each, i) => ({
    ...geminiNode(each, i ? undefined : shape.description, anyLevel),
    ...nullable,
  }));
  return { anyOf: nodes };
}

function geminiNode(each: Alternative, description: string | undefined, anyLevel: number): Schema {
  const { kind, values, format, min, max, properties } = each;
  const notes = [...(each.notes ?? [])];
  const hasEnum = kind === 'string' && values && values.length <= MOST_VALUES && !values.includes('');
  if (values && !hasEnum) notes.push(oneOf(values));
  const isFormat = format !== undefined && geminiFormats[kind]?.includes(format);
  if (format !== undefined && !isFormat) notes.push(`format ${format}`);
  const required = (each.required ?? []).filter((name) => properties?.has(name));
  const other = (each.required ?? []).filter((name) => !properties?.has(name));
  if (other.length) notes.push(`also required: ${other.join(', ')}`);
  return {
    type: kind,
    ...toDescription(description, notes),
    ...(isFormat && { format }),
    ...(hasEnum && { enum: [...new Set(values)] }),
    ...geminiLimits(kind, min, max),
    ...(kind === 'array' && { items: geminiItems(each.items, anyLevel) }),
    ...(properties && {
      properties: Object.fromEntries([...properties].map(([key, value]) => [key, geminiShape(value, 0)])),
    }),
    ...(required.length && { required }),
  };
}

/** Numbers that only say "what a number can hold" are left out. */
function geminiLimits(kind: Kind, min: number | undefined, max: number | undefined): Schema {
  const name = kind === 'array' ? 'Items' : 'imum';
  const isSaid = (limit: number | undefined) => limit !== undefined && Math.abs(limit) < Number.MAX_SAFE_INTEGER;
  return { ...(isSaid(min) && { [`min${name}`]: min! }), ...(isSaid(max) && { [`max${name}`]: max! }) };
}

function geminiItems(items: Shape | undefined, anyLevel: number): Schema {
  const isAny = !items || (items.alternatives.every(isBare) && items.alternatives.some(({ kind }) => kind === 'array'));
  if (!isAny) return geminiShape(items, 0);
  if (anyLevel < ANY_LEVELS) return geminiShape(items ?? anything(), anyLevel + 1);
  const { alternatives } = items ?? anything();
  const flat = alternatives.filter(({ kind }) => kind !== 'array');
  return geminiShape({ alternatives: flat.length ? flat : [{ kind: 'string' }] }, 0);
}

/** Types, descriptions, texts to choose from, items and properties. Where several types are meant none is named. */
export function renderPlain(shape: Shape): Schema {
  return { type: 'object', properties: {}, ...plainShape(rootOf(shape)) };
}

function plainShape({ description, alternatives }: Shape): Schema {
  const own = joinAll(alternatives);
  if (!own.length) return toDescription(description, []);
  const isAny = own.length >= 6;
  const [first] = own;
  if (own.length === 1 && first!.kind !== 'null') {
    return { type: first!.kind, ...plainNode(first!, description) };
  }
  const nodes = own.map((each) => plainNode({ ...each, notes: [] }, undefined));
  const values = own.every((each) => each.values ?? each.kind === 'null')
    ? own.flatMap((each) => each.values ?? [null])
    : undefined;
  const types = isAny || values ? [] : [own.map(({ kind }) => kind).join(' or ')];
  const notes = [...types, ...(values ? [oneOf(values)] : []), ...own.flatMap((each) => each.notes ?? [])];
  const fields = nodes.map(({ items, properties, required }) => ({
    ...(items && Object.keys(items).length && { items }),
    ...(properties && { properties }),
    ...(required && { required }),
  }));
  return { ...toDescription(description, notes), ...Object.assign({}, ...fields) };
}

function plainNode(each: Alternative, description: string | undefined): Schema {
  const { kind, values, format, min, max } = each;
  const notes = [...(each.notes ?? [])];
  const hasEnum = kind === 'string' && values && values.length <= MOST_VALUES && !values.includes('');
  if (values && !hasEnum) notes.push(oneOf(values));
  if (format !== undefined) notes.push(`format ${format}`);
  const unit = kind === 'array' ? ' items' : '';
  for (const [word, limit] of [
    ['at least', min],
    ['at most', max],
  ] as const) {
    if (limit !== undefined && Math.abs(limit) < Number.MAX_SAFE_INTEGER) notes.push(`${word} ${limit}${unit}`);
  }
  const all = [...(each.properties ?? [])].map(([key, value]) => [key, plainShape(value)] as const);
  const legal = all.filter(([key]) => legalKey.test(key));
  for (const [key, value] of all) if (!legalKey.test(key)) notes.push(`also ${key}: ${JSON.stringify(value)}`);
  const required = (each.required ?? []).filter((name) => legal.some(([key]) => key === name));
  const other = (each.required ?? []).filter((name) => !required.includes(name));
  if (other.length) notes.push(`also required: ${other.join(', ')}`);
  return {
    ...toDescription(description, notes),
    ...(hasEnum && { enum: [...new Set(values)] }),
    ...(kind === 'array' && { items: each.items ? plainShape(each.items) : {} }),
    ...(legal.length && { properties: Object.fromEntries(legal) }),
    ...(required.length && { required }),
  };
}
