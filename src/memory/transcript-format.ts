// A conversation as text that people read, and back. Pure: the same entries always give the same text, so that whoever
// writes an entry's place writes the same bytes there. What is not in it: ids and times of messages, usage, reasoning.
import { parseAllDocuments } from 'yaml';
import type { Entry, EntryBody, FilePart, Json, ToolCallPart } from '../kernel/index.ts';
import { callsOf, messageOf, noUsage, textOf } from '../kernel/index.ts';
import { transcriptError } from './errors.ts';
import { isPlain, toFlow, toQuoted, toScalar } from './yaml-text.ts';

export interface FrontMatter {
  /** ISO-8601 UTC; the file has whole seconds. */
  createdAt: string;
  updatedAt: string;
  /** Where the name of the file cannot tell it. */
  id?: string;
}

export interface Transcript {
  front: Partial<FrontMatter>;
  entries: EntryBody[];
}

/** Where `updatedAt` stands in bytes, to be written in place. */
export const UPDATED_AT = { start: 47, bytes: 20 };

export const toInstant = (iso: string): string => `${iso.slice(0, 19)}Z`;

export function formatFront({ createdAt, updatedAt, id }: FrontMatter): string {
  const more = id === undefined ? '' : `id: ${toQuoted(id)}\n`;
  return `---\ncreatedAt: ${toInstant(createdAt)}\nupdatedAt: ${toInstant(updatedAt)}\n${more}---\n`;
}

/** The items of an entry; empty for one that only thought. */
export function formatEntry(entry: EntryBody | Entry): string {
  switch (entry.kind) {
    case 'user': {
      const { parts } = entry.body;
      const files = parts.filter((part) => part.type === 'file').map(formatFile);
      return textItem('user', textOf(parts)) + files.join('');
    }
    case 'assistant': {
      const { parts, interrupted } = entry.body;
      const text = textOf(parts);
      const calls = callsOf(parts).map(formatCall).join('');
      const shown = (text && textItem('assistant', text)) + calls;
      return shown && interrupted ? `${shown}- interrupted: true\n` : shown;
    }
    case 'tool_result':
      return formatResult(entry.body);
    case 'notice': {
      const { code, message, hint } = entry.body;
      return mapItem('notice', [['code', code], ['message', message], ...pair('hint', hint)]);
    }
    case 'summary':
      return textItem('summary', entry.body.text);
  }
}

const textItem = (key: string, text: string): string => `- ${key}: ${toScalar(text, '    ')}\n`;

function formatFile({ id, name, mime, bytes }: FilePart): string {
  return mapItem('file', [
    ['name', name],
    ['id', id],
    ['mime', mime],
    ['bytes', bytes],
  ]);
}

function formatCall({ id, name, args, raw }: ToolCallPart): string {
  return mapItem('tool_call', [['id', id], ['name', name], ['args', args], ...pair('raw', raw)]);
}

function formatResult({ call, result, isError, args }: Extract<EntryBody, { kind: 'tool_result' }>['body']): string {
  const more: Pair[] = [...pair('isError', isError), ...pair('args', args)];
  if (typeof result !== 'string' || !result.includes('\n') || !isPlain(result)) {
    return mapItem('tool_result', [['id', call], ['result', result], ...more]);
  }
  const lines = [['id', call] as Pair, ...more].map((line) => `    ${toPair(line)}\n`);
  return `- tool_result:\n${lines.join('')}    result: ${toScalar(result, '      ')}\n`;
}

type Pair = readonly [key: string, value: Json];

const pair = (key: string, value: Json | undefined): Pair[] => (value === undefined ? [] : [[key, value]]);

const mapItem = (key: string, pairs: readonly Pair[]): string => `- ${key}: {${pairs.map(toPair).join(', ')}}\n`;

/** What YAML cannot hold as a map is its JSON, as a string. */
function toPair([key, value]: Pair): string {
  const flow = toFlow(value);
  return flow === undefined ? `${key}${JSON_KEY}: ${toQuoted(JSON.stringify(value))}` : `${key}: ${flow}`;
}

const JSON_KEY = 'Json';

/** Throws `transcript.invalid` for what is not YAML, or not a conversation. */
export function parseTranscript(text: string): Transcript {
  const { head, items } = parseParts(text);
  const gathered = gather();
  readItems(items, gathered);
  return { front: readFront(head), entries: gathered.entries };
}

/** Characters that are parsed without a pause, and the most that one item may have: parsers take a hundred times as much. */
const PIECE = 256_000;
const MAX_ITEM = 20_000_000;

/**
 * The same, piece by piece and with `pause` in between: every item begins with `- ` on its line, and no line within one
 * does. Throws also for an item that is too large.
 */
export async function parseLongTranscript(text: string, pause: () => Promise<unknown>): Promise<Transcript> {
  const first = nextItem(text, 0);
  const { head, items } = text.startsWith('- ') ? { head: {}, items: [] } : parseParts(text.slice(0, first));
  if (items.length) throw invalid('Its list does not have an item on each line that begins with "- ".');
  const gathered = gather();
  for (let at = first; at < text.length;) {
    let end = nextItem(text, at + 1);
    while (end < text.length && end - at < PIECE) {
      const next = nextItem(text, end + 1);
      if (next - at > PIECE) break;
      end = next;
    }
    if (end - at > MAX_ITEM) throw invalid(`Item ${gathered.items + 1} of its list is too large.`);
    await pause();
    const piece = parseParts(text.slice(at, end));
    readItems(piece.items, gathered);
    at = end;
  }
  return { front: readFront(head), entries: gathered.entries };
}

/** Where the next item begins; the end where there is none. */
function nextItem(text: string, from: number): number {
  if (from === 0 && text.startsWith('- ')) return 0;
  const found = text.indexOf('\n- ', Math.max(0, from - 1));
  return found < 0 ? text.length : found + 1;
}

function parseParts(text: string): { head: Record<string, unknown>; items: unknown[] } {
  const documents = parseAllDocuments(text, { logLevel: 'silent' });
  if (!Array.isArray(documents)) throw invalid('It is empty.');
  const [first, second, ...more] = documents.map((document) => {
    const problem = document.errors[0];
    if (problem) throw invalid(problem.message.split('\n', 1)[0]!, problem);
    try {
      return document.toJS() as unknown;
    } catch (error) {
      throw invalid(messageOf(error), error);
    }
  });
  if (more.length) throw invalid('It has more parts than a head and a list.');
  const [head, items] = second === undefined && Array.isArray(first) ? [{}, first] : [first, second ?? []];
  if (!isObject(head)) throw invalid('Its head is not "createdAt: ..." and "updatedAt: ...".');
  if (!Array.isArray(items))
    throw invalid('What follows its head is not a list of "- user: ..." and "- assistant: ...".');
  return { head, items };
}

function readFront({ createdAt, updatedAt, id }: Record<string, unknown>): Partial<FrontMatter> {
  return {
    ...(isInstant(createdAt) && { createdAt: new Date(createdAt).toISOString() }),
    ...(isInstant(updatedAt) && { updatedAt: new Date(updatedAt).toISOString() }),
    ...(typeof id === 'string' && { id }),
  };
}

const isInstant = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\d(T|$)/.test(value) && !Number.isNaN(Date.parse(value));

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

interface Gathered {
  entries: EntryBody[];
  /** How many were read. */
  items: number;
  /** Of tools, by call. */
  names: Map<string, string>;
}

const gather = (): Gathered => ({ entries: [], items: 0, names: new Map() });

/** Lists are as long as conversations: entries are changed in place while they are gathered. */
function readItems(items: readonly unknown[], gathered: Gathered): void {
  for (const item of items) {
    gathered.items++;
    const pairs = isObject(item) ? Object.entries(item) : [];
    const [key, value] = pairs[0] ?? ['', null];
    const take = pairs.length === 1 && Object.hasOwn(takers, key) ? takers[key] : undefined;
    if (!take?.(value, gathered)) {
      throw invalid(`Item ${gathered.items} of its list is not one of ${Object.keys(takers).join(', ')}.`);
    }
  }
}

type Assistant = Extract<EntryBody, { kind: 'assistant' }>;

/** What an item adds; false where it is not of its form. */
const takers: Record<string, (value: unknown, gathered: Gathered) => boolean> = {
  user(value, { entries }) {
    const text = toText(value);
    if (text === undefined) return false;
    entries.push({ kind: 'user', body: { parts: [{ type: 'text', text }] } });
    return true;
  },
  file(value, { entries }) {
    const last = entries.at(-1);
    if (last?.kind !== 'user' || !isObject(value)) return false;
    const { id, name, mime, bytes } = value;
    if (typeof id !== 'string' || typeof name !== 'string' || typeof mime !== 'string' || typeof bytes !== 'number') {
      return false;
    }
    const { parts } = last.body;
    const first = parts[0];
    if (parts.length === 1 && first?.type === 'text' && first.text === '') parts.pop();
    parts.push({ type: 'file', id, name, mime, bytes });
    return true;
  },
  assistant(value, { entries }) {
    const text = toText(value);
    if (text === undefined) return false;
    entries.push(toAssistant([{ type: 'text', text }]));
    return true;
  },
  tool_call(value, { entries, names }) {
    if (!isObject(value)) return false;
    const { id, name, raw } = value;
    const args = jsonOf(value, 'args');
    if (typeof id !== 'string' || typeof name !== 'string' || args === undefined) return false;
    const call: ToolCallPart = { type: 'tool_call', id, name, args, ...(typeof raw === 'string' && { raw }) };
    const last = entries.at(-1);
    if (last?.kind === 'assistant') last.body.parts.push(call);
    else entries.push(toAssistant([call]));
    names.set(id, name);
    return true;
  },
  tool_result(value, { entries, names }) {
    if (!isObject(value)) return false;
    const { id, isError } = value;
    const [result, args] = [jsonOf(value, 'result'), jsonOf(value, 'args')];
    if (typeof id !== 'string' || result === undefined) return false;
    const told = { ...(isError === true && { isError: true as const }), ...(args !== undefined && { args }) };
    entries.push({ kind: 'tool_result', body: { call: id, name: names.get(id) ?? '', result, ms: 0, ...told } });
    return true;
  },
  interrupted(value, { entries }) {
    const last = entries.at(-1);
    if (last?.kind !== 'assistant' || value !== true) return false;
    last.body.interrupted = true;
    return true;
  },
  notice(value, { entries }) {
    if (!isObject(value)) return false;
    const { code, message, hint } = value;
    if (typeof code !== 'string' || typeof message !== 'string') return false;
    entries.push({ kind: 'notice', body: { code, message, ...(typeof hint === 'string' && { hint }) } });
    return true;
  },
  summary(value, { entries }) {
    const text = toText(value);
    if (text === undefined) return false;
    entries.push({ kind: 'summary', body: { text } });
    return true;
  },
};

const toAssistant = (parts: Assistant['body']['parts']): Assistant => ({
  kind: 'assistant',
  body: { parts, model: '', usage: noUsage },
});

/** What a person wrote without quotes may have been read as a number. */
function toText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}

/** Through JSON, because YAML knows numbers that it does not. Undefined: there is none. */
function jsonOf(value: Record<string, unknown>, key: string): Json | undefined {
  if (Object.hasOwn(value, key)) return JSON.parse(JSON.stringify(value[key] ?? null)) as Json;
  const text = value[key + JSON_KEY];
  if (typeof text !== 'string') return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw invalid(`${key}${JSON_KEY} is not JSON: ${messageOf(error)}`, error);
  }
}

function invalid(message: string, cause?: unknown): Error {
  return transcriptError('invalid', message, { cause });
}
