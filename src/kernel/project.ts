// The journal as a prompt. Pure: the same entries give the same messages. What always holds of them: they start with a
// user message, every call has exactly one result and every result its call, results stand in call order right behind
// their calls, and order and duplicates of what people said are kept.
import type { Entry } from './journal.ts';
import type { Message, ToolCallPart } from './messages.ts';
import { callsOf } from './messages.ts';

/**
 * How much of a conversation a model sees. When `messages` entries or `tokens` are exceeded the prompt starts about half
 * a window later and stays there until the other half is full: its prefix is equal from turn to turn, so the provider's
 * prompt cache works. A turn that is cut keeps the message that opened it and its newest steps.
 */
export interface Window {
  messages: number;
  tokens: number;
  /** Longer tool results are shown by head and tail. In characters. */
  resultChars: number;
}

export const defaultWindow: Window = { messages: 50, tokens: 100_000, resultChars: 50_000 };

/** Stored bytes a token, low on purpose: JSON has overhead, and a Chinese character is 3 bytes and about one token. */
export const BYTES_PER_TOKEN = 3;

/**
 * The place before which nothing is shown: computed from totals alone, so it needs no state and moves in half windows. One
 * entry and a quarter of the bytes are left for the message that opened a turn which is cut in its middle.
 */
export function windowStart(total: { seq: number; bytes: number }, window: Window): { seq: number; bytes: number } {
  const cut = (size: number, max: number) => {
    const half = Math.max(1, max >> 1);
    return size <= max ? 0 : half * Math.ceil((size - max) / half);
  };
  return {
    seq: cut(total.seq, Math.max(1, window.messages - 1)),
    bytes: cut(total.bytes, bytesOf(window) - openerBytes(window)),
  };
}

const bytesOf = (window: Window): number => window.tokens * BYTES_PER_TOKEN;
const openerBytes = (window: Window): number => bytesOf(window) >> 2;

/** Of all entries those that `Journal.history` gives for a start: see there. */
export function sliceHistory(entries: readonly Entry[], after: { seq: number; bytes: number }): Entry[] {
  const first = entries.findIndex((entry) => entry.seq > after.seq && entry.bytesTo > after.bytes);
  if (first < 0) return [];
  if (opens(entries[first]!)) return entries.slice(first);
  const before = entries.slice(0, first);
  const step = before.findLastIndex(({ kind }) => kind !== 'tool_result' && kind !== 'notice');
  const opener = before.findLastIndex(opens);
  return [...(opener >= 0 && opener < step ? [before[opener]!] : []), ...entries.slice(Math.max(0, step))];
}

export function project(entries: readonly Entry[], window: Window): Message[] {
  const messages: Message[] = [];
  for (let i = 0, shown = inWindow(entries, window); i < shown.length; i++) {
    const entry = shown[i]!;
    if (entry.kind === 'assistant') {
      const message = toMessage(entry);
      if (!message) continue;
      messages.push(message);
      for (const call of callsOf(entry.body.parts)) messages.push(resultOf(call, shown, i + 1, window));
    } else if (entry.kind === 'user' || entry.kind === 'summary') {
      messages.push(toMessage(entry)!);
    }
  }
  return messages;
}

/** The entries that the window shows, starting with a user entry or a summary; empty when there is none. */
function inWindow(entries: readonly Entry[], window: Window): readonly Entry[] {
  const last = entries.at(-1);
  if (!last) return [];
  const start = windowStart({ seq: last.seq, bytes: last.bytesTo }, window);
  const isInside = (entry: Entry) => entry.seq > start.seq && entry.bytesTo - entry.bytes >= start.bytes;
  const first = entries.findIndex(isInside);
  const inside = first < 0 ? entries.length : first;
  if (inside < entries.length && opens(entries[inside]!)) return entries.slice(inside);
  // The window starts within a turn: it shows the message that opened it, then its whole steps from there on.
  const opener = entries.slice(0, inside).findLastIndex(opens);
  const next = entries.findIndex((entry, index) => index >= inside && opens(entry));
  const end = next < 0 ? entries.length : next;
  const isNewest = next < 0;
  if (opener < 0 || (!isNewest && entries[opener]!.bytes > openerBytes(window)))
    return isNewest ? [] : entries.slice(next);
  const isStep = (entry: Entry, index: number) => entry.kind === 'assistant' && index > opener && index < end;
  let from = entries.findIndex((entry, index) => index >= inside && isStep(entry, index));
  if (from < 0 && !isNewest) return entries.slice(next);
  if (from < 0) from = entries.findLastIndex(isStep);
  return from < 0 ? [entries[opener]!] : [entries[opener]!, ...entries.slice(from)];
}

const opens = (entry: Entry): boolean => entry.kind === 'user' || entry.kind === 'summary';

const shownAs = new WeakMap<Entry, Message | null>();

/** Null for what a model is not shown. The same object for the same entry, so that adapters may cache its wire form. */
function toMessage(entry: Entry): Message | null {
  let message = shownAs.get(entry);
  if (message === undefined) {
    message = makeMessage(entry);
    shownAs.set(entry, message);
  }
  return message;
}

function makeMessage(entry: Entry): Message | null {
  switch (entry.kind) {
    case 'user':
      return { role: 'user', parts: entry.body.parts };
    case 'summary':
      return {
        role: 'user',
        parts: [{ type: 'text', text: `Summary of the conversation so far:\n${entry.body.text}` }],
      };
    case 'assistant': {
      const { parts, model, interrupted } = entry.body;
      if (!parts.some((part) => part.type !== 'reasoning')) return null;
      const mark = interrupted ? [{ type: 'text' as const, text: '\n[This answer was interrupted here.]' }] : [];
      return { role: 'assistant', parts: [...parts, ...mark], model };
    }
    case 'tool_result': {
      const { call, name, result, isError = false, args } = entry.body;
      if (args === undefined) return { role: 'tool', call, name, result, isError };
      const told = typeof result === 'string' ? result : JSON.stringify(result);
      const edited = `[A person changed the arguments to ${JSON.stringify(args)}.]\n${told}`;
      return { role: 'tool', call, name, result: edited, isError };
    }
    case 'notice':
      return null;
  }
}

/** The result of a call: looked for until the next message; one that was never recorded is said to be unknown. */
function resultOf(call: ToolCallPart, entries: readonly Entry[], from: number, window: Window): Message {
  for (let i = from; i < entries.length; i++) {
    const entry = entries[i]!;
    if (entry.kind === 'assistant' || opens(entry)) break;
    if (entry.kind !== 'tool_result' || entry.body.call !== call.id) continue;
    return entry.bytes > window.resultChars ? clipResult(entry, window.resultChars) : toMessage(entry)!;
  }
  const result = 'No result was recorded for this call: it may or may not have taken effect.';
  return { role: 'tool', call: call.id, name: call.name, result, isError: true };
}

function clipResult(entry: Extract<Entry, { kind: 'tool_result' }>, limit: number): Message {
  const message = toMessage(entry) as Extract<Message, { role: 'tool' }>;
  const text = typeof message.result === 'string' ? message.result : JSON.stringify(message.result);
  return text.length > limit ? { ...message, result: clip(text, limit) } : message;
}

/** Head and tail of a long text with a note of what is missing; never cuts inside a character. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const isInside = (at: number) => /[\uDC00-\uDFFF]/.test(text[at] ?? '') && /[\uD800-\uDBFF]/.test(text[at - 1] ?? '');
  let head = Math.ceil(limit / 2);
  let tail = text.length - Math.floor(limit / 2);
  if (isInside(head)) head--;
  if (isInside(tail)) tail++;
  return `${text.slice(0, head)}\n[... ${tail - head} characters left out ...]\n${text.slice(tail)}`;
}
