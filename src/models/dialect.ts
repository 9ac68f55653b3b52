// What providers need of a history, however it came about. The kernel's projection holds most of it already; a caller
// of the model port may hand over anything. What is legal is handed on as the same objects, and what is made of the
// rest is kept, so that adapters may cache by object, and only appends: a prompt's beginning stays equal.
import type { Json, Message, ToolCallPart } from '../kernel/messages.ts';
import { callsOf } from '../kernel/messages.ts';

type User = Extract<Message, { role: 'user' }>;
type Assistant = Extract<Message, { role: 'assistant' }>;
type Result = Extract<Message, { role: 'tool' }>;

export interface HistoryRules {
  /** Ids of calls that are taken as they are. */
  id: RegExp;
  /** Where a call's id may not come again. */
  isUniqueIn: 'message' | 'request';
}

/** OpenAI takes ids of at most 40 characters. */
export const chatRules: HistoryRules = { id: /^[\x21-\x7e]{1,40}$/, isUniqueIn: 'message' };

/** Anthropic takes fewer characters, and no id twice; the kernel's are unique in their run only. */
export const messagesRules: HistoryRules = { id: /^[A-Za-z0-9_-]{1,64}$/, isUniqueIn: 'request' };

const EMPTY = '(empty)';
const say = (text: string): User => ({ role: 'user', parts: [{ type: 'text', text }] });
const beginning = say('(The conversation begins with your message.)');
const goOn = say('(Continue.)');
const nothing = [say(EMPTY)];

/**
 * A history that begins and ends as every provider takes it: user and assistant in turn, a result for each call right
 * behind it and in call order, nothing empty. Results without a call are left out, as is an answer that says nothing.
 */
export function toLegalHistory(messages: readonly Message[], rules: HistoryRules): readonly Message[] {
  return isLegal(messages, rules) ? messages : repaired(messages, rules);
}

/** The common case, for each step of each turn: allocates next to nothing. */
function isLegal(messages: readonly Message[], { id: shape, isUniqueIn }: HistoryRules): boolean {
  if (messages[0]?.role !== 'user' || messages.at(-1)!.role === 'assistant') return false;
  const taken = new Set<string>();
  let before: Message['role'] = 'tool';
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]!;
    const { isEmpty, calls } = sight(message);
    if (isEmpty || message.role === 'tool' || message.role === before) return false;
    before = calls.length ? 'tool' : message.role;
    if (isUniqueIn === 'message' && taken.size) taken.clear();
    for (const { id } of calls) {
      const result = messages[++i];
      if (!result || !isResultOf(result, id) || sight(result).isEmpty || !shape.test(id) || taken.has(id)) return false;
      taken.add(id);
    }
  }
  return true;
}

function repaired(messages: readonly Message[], rules: HistoryRules): readonly Message[] {
  const legal: Message[] = [];
  const taken = new Set<string>();
  let group: Message[] = [];
  const close = () => {
    if (group.length) legal.push(group.length > 1 ? merged(group) : group[0]!);
    group = [];
  };
  for (const [i, message] of messages.entries()) {
    if (message.role === 'tool') continue;
    const { isEmpty, calls } = sight(message);
    if (message.role === 'assistant' && isEmpty) continue;
    if (group.length && group[0]!.role !== message.role) close();
    if (message.role === 'user') {
      group.push(isEmpty ? emptied(message) : message);
      continue;
    }
    if (!legal.length && !group.length) legal.push(beginning);
    if (rules.isUniqueIn === 'message') taken.clear();
    const ids = calls.length ? toIds(calls, taken, rules.id) : [];
    group.push(ids.every((id, k) => id === calls[k]!.id) ? message : renamed(message, ids));
    if (!calls.length) continue;
    close();
    legal.push(...resultsOf(calls, ids, { messages, at: i }));
  }
  close();
  if (legal.at(-1)?.role === 'assistant') legal.push(goOn);
  return legal.length ? legal : nothing;
}

interface Sight {
  isEmpty: boolean;
  calls: readonly ToolCallPart[];
}

const sights = new WeakMap<Message, Sight>();

const noCalls: readonly ToolCallPart[] = [];

/** Thoughts alone are nothing that a provider takes, and some refuse an empty result. */
function sight(message: Message): Sight {
  let seen = sights.get(message);
  if (!seen) {
    seen = message.role === 'tool' ? { isEmpty: isBlank(message.result), calls: noCalls } : sightOf(message.parts);
    sights.set(message, seen);
  }
  return seen;
}

function sightOf(parts: readonly (User | Assistant)['parts'][number][]): Sight {
  const isEmpty = parts.every((part) => part.type === 'reasoning' || (part.type === 'text' && isBlank(part.text)));
  return { isEmpty, calls: callsOf(parts) };
}

const isBlank = (value: Json): boolean => typeof value === 'string' && value.trim() === '';

const merges = new WeakMap<Message, { from: readonly Message[]; to: Message }>();

/** Messages of one role as one. */
function merged(group: readonly Message[]): Message {
  const known = merges.get(group[0]!);
  if (known?.from.length === group.length && known.from.every((message, i) => message === group[i])) return known.to;
  const to = group.reduce(join);
  merges.set(group[0]!, { from: [...group], to });
  return to;
}

function join(a: Message, b: Message): Message {
  if (a.role === 'user' && b.role === 'user') return { role: 'user', parts: [...a.parts, ...b.parts] };
  if (a.role !== 'assistant' || b.role !== 'assistant') return a;
  // Thoughts come first: a provider that signs them takes them in no other place.
  const thoughts = [...a.parts, ...b.parts].filter(({ type }) => type === 'reasoning');
  const [first, second] = [a, b].map(({ parts }) => parts.filter(({ type }) => type !== 'reasoning'));
  return { ...b, parts: [...thoughts, ...first!, { type: 'text', text: '\n\n' }, ...second!] };
}

/** Legal ids, each once. */
function toIds(calls: readonly ToolCallPart[], taken: Set<string>, shape: RegExp): string[] {
  return calls.map(({ id }) => {
    let unique = id;
    if (!shape.test(id)) unique = id.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 32) || 'call';
    const base = unique.slice(0, 32);
    for (let n = 2; taken.has(unique); n++) unique = `${base}_${n}`;
    taken.add(unique);
    return unique;
  });
}

const variants = new WeakMap<Message, Message[]>();

/** What was made of a message before and still fits, or else is made now. */
function variantOf<M extends Message>(message: M, fits: (variant: M) => boolean, make: () => M): M {
  const known = (variants.get(message) ?? []) as M[];
  const found = known.find(fits);
  if (found) return found;
  const made = make();
  // A window that moves gives other ids: the older variants are of no use any more.
  variants.set(message, [...known.slice(-3), made]);
  return made;
}

const emptied = (message: User): User => variantOf(message, Boolean, () => say(EMPTY));

function renamed(message: Assistant, ids: readonly string[]): Assistant {
  const fits = ({ parts }: Assistant) => callsOf(parts).every(({ id }, k) => id === ids[k]);
  return variantOf(message, fits, () => {
    let k = 0;
    const parts = message.parts.map((part) => (part.type === 'tool_call' ? { ...part, id: ids[k++]! } : part));
    return { ...message, parts };
  });
}

interface Place {
  messages: readonly Message[];
  /** Of the message with the calls. */
  at: number;
}

/** One result a call. It is looked for until the next answer; two calls of one id get theirs in order. */
function resultsOf(calls: readonly ToolCallPart[], ids: readonly string[], { messages, at }: Place): Result[] {
  const direct = messages.slice(at + 1, at + 1 + calls.length);
  const isDirect = calls.every(({ id }, k) => isResultOf(direct[k], id));
  const found = isDirect ? (direct as Result[]) : resultsFrom(messages, at);
  return calls.map((call, k) => {
    const at = isDirect ? k : found.findIndex((result) => isResultOf(result, call.id));
    const [result] = isDirect ? [found[k]] : at < 0 ? [undefined] : found.splice(at, 1);
    return result ? toResult(result, ids[k]!) : unknownResult(call, ids[k]!);
  });
}

function resultsFrom(messages: readonly Message[], at: number): Result[] {
  const next = messages.findIndex(({ role }, i) => i > at && role === 'assistant');
  const until = messages.slice(at + 1, next < 0 ? messages.length : next);
  return until.filter((message): message is Result => message.role === 'tool');
}

const isResultOf = (message: Message | undefined, id: string): boolean =>
  message?.role === 'tool' && message.call === id;

function toResult(message: Result, id: string): Result {
  const { isEmpty } = sight(message);
  if (message.call === id && !isEmpty) return message;
  const fits = (variant: Result) => variant.call === id;
  return variantOf(message, fits, () => ({ ...message, call: id, ...(isEmpty && { result: EMPTY }) }));
}

const unknown = new WeakMap<ToolCallPart, Result>();

function unknownResult(call: ToolCallPart, id: string): Result {
  let made = unknown.get(call);
  if (made?.call !== id) {
    const result = 'No result of this call is known: it may or may not have taken effect.';
    made = { role: 'tool', call: id, name: call.name, result, isError: true };
    unknown.set(call, made);
  }
  return made;
}

/** A model may have called what no tool is named; hosts refuse a history with such a name for ever. */
export const toLegalName = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64) || 'unknown';

/** Hosts that read arguments expect an object; what the model wrote instead is told by the call's result. */
export function toArguments(args: Json): { [key: string]: Json } {
  return typeof args === 'object' && args !== null && !Array.isArray(args) ? toWellFormed(args) : {};
}

/** JSON text in which no half of a character is left: strict readers refuse the whole request for one. */
export function toJsonText(value: unknown): string {
  const text = JSON.stringify(value);
  if (!/\\ud[89a-f]/.test(text)) return text;
  // JSON.stringify escapes halves only; an escaped backslash before "ud83e" is none.
  return text.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (found) => (/^\\ud[89a-f]/.test(found) ? '\ufffd' : found));
}

/** The same value where it is well formed. */
export function toWellFormed<T>(value: T): T {
  const text = JSON.stringify(value);
  return text !== undefined && /\\ud[89a-f]/.test(text) ? (JSON.parse(toJsonText(value)) as T) : value;
}
