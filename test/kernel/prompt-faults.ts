// An independent reader of prompts, as strict as the strictest provider: what is wrong with them, in words.
import { isDeepStrictEqual } from 'node:util';
import type { Entry, Message, Window } from '../../src/kernel/index.ts';
import { callsOf, clip, project, textOf, windowStart } from '../../src/kernel/index.ts';
import { BYTES_PER_TOKEN } from '../../src/kernel/project.ts';

interface Subject {
  entries: readonly Entry[];
  window: Window;
}

const SUMMARY = 'Summary of the conversation so far:\n';
const INTERRUPTED = '\n[This answer was interrupted here.]';
const UNKNOWN = /^No result was recorded/;

export const opens = (entry: Entry): boolean => entry.kind === 'user' || entry.kind === 'summary';
const hasCalls = (parts: Entry['body']): boolean => 'parts' in parts && callsOf(parts.parts).length > 0;

/** Orphans, calls without a result, results out of order, a wrong start: whatever makes a provider refuse. */
export function shapeFaults(messages: readonly Message[]): string[] {
  const faults: string[] = [];
  if (messages[0]?.role !== 'user') faults.push(`starts with ${messages[0]?.role}`);
  let due: string[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      const call = due.shift();
      if (call !== message.call) faults.push(`result of ${message.call} where ${call ?? 'none'} is due`);
      continue;
    }
    if (due.length) faults.push(`no result of ${due.join()}`);
    due = message.role === 'assistant' ? callsOf(message.parts).map(({ id }) => id) : [];
    if (new Set(due).size < due.length) faults.push('a call twice');
    if (message.role === 'assistant' && message.parts.every(({ type }) => type === 'reasoning')) {
      faults.push('an answer with nothing in it');
    }
  }
  if (due.length) faults.push(`no result of ${due.join()}`);
  return faults;
}

/** What people said: all of it from the first that is shown, in order, with its duplicates. */
function userFaults(messages: readonly Message[], entries: readonly Entry[]): string[] {
  const said = messages.flatMap((message) => (message.role === 'user' ? [textOf(message.parts)] : []));
  const all = entries.filter(opens).map((entry) => {
    return entry.kind === 'summary'
      ? `${SUMMARY}${entry.body.text}`
      : 'parts' in entry.body
        ? textOf(entry.body.parts)
        : '';
  });
  if (!said.length) return ['nothing of what people said'];
  return JSON.stringify(said) === JSON.stringify(all.slice(-said.length)) ? [] : [`people said ${said.join('|')}`];
}

/** Results are the recorded ones, found by their place; a call without one is said to be unknown. */
function resultFaults(messages: readonly Message[], { entries, window }: Subject): string[] {
  const faults: string[] = [];
  const steps = entries.flatMap((entry, at) => (entry.kind === 'assistant' && hasCalls(entry.body) ? [at] : []));
  const shown = messages.flatMap((message, at) =>
    message.role === 'assistant' && callsOf(message.parts).length ? [at] : [],
  );
  // From the newest one backwards, steps stand in the same order in journal and prompt.
  for (const [back, at] of shown.toReversed().entries()) {
    const from = (steps.at(-1 - back) ?? 0) + 1;
    const length = entries.slice(from).findIndex((entry) => entry.kind === 'assistant' || opens(entry));
    const own = entries.slice(from, length < 0 ? undefined : from + length);
    for (const message of messages.slice(at + 1)) {
      if (message.role !== 'tool') break;
      const recorded = own.find((entry) => entry.kind === 'tool_result' && entry.body.call === message.call);
      const isRight =
        recorded?.kind === 'tool_result'
          ? message.result === clip(recorded.body.result as string, window.resultChars) &&
            message.isError === Boolean(recorded.body.isError)
          : UNKNOWN.test(message.result as string) && message.isError;
      if (!isRight) faults.push(`result of ${message.call} is ${message.result as string}`);
    }
  }
  return faults;
}

/** The newest turn alone is longer than the window. */
export function isLongTurn({ entries, window }: Subject): boolean {
  const start = startOf({ entries, window });
  return !entries.some((entry) => opens(entry) && entry.seq > start.seq && entry.bytesTo - entry.bytes >= start.bytes);
}

function startOf({ entries, window }: Subject): { seq: number; bytes: number } {
  const last = entries.at(-1)!;
  return windowStart({ seq: last.seq, bytes: last.bytesTo }, window);
}

/** Too many or too long messages. What the projection adds by itself does not count. */
function sizeFaults(messages: readonly Message[], subject: Subject): string[] {
  if (isLongTurn(subject)) return [];
  const { window } = subject;
  const own = messages.filter((message) => message.role !== 'tool' || !UNKNOWN.test(message.result as string));
  let bytes = 0;
  for (const message of own) {
    const content = message.role === 'tool' ? message.result : message.parts;
    bytes += Buffer.byteLength(JSON.stringify(content));
    if (message.role === 'user' && textOf(message.parts).startsWith(SUMMARY)) bytes -= SUMMARY.length + 30;
    if (message.role === 'assistant' && textOf(message.parts).endsWith(INTERRUPTED)) bytes -= INTERRUPTED.length + 30;
  }
  const faults: string[] = [];
  if (own.length > window.messages) faults.push(`${own.length} messages`);
  if (bytes > window.tokens * BYTES_PER_TOKEN) faults.push(`${bytes} bytes`);
  return faults;
}

export function promptFaults(subject: Subject): string[] {
  const messages = project(subject.entries, subject.window);
  return [
    ...shapeFaults(messages),
    ...userFaults(messages, subject.entries),
    ...resultFaults(messages, subject),
    ...sizeFaults(messages, subject),
  ];
}

/**
 * From model call to model call (each a number of entries) a prompt only grows at its end, until the window moves or a
 * turn that was longer than the window is over.
 */
export function prefixFaults({ entries, window }: Subject, calls: readonly number[]): string[] {
  const faults: string[] = [];
  let before: { messages: readonly Message[]; start: string; isLong: boolean } | undefined;
  for (const count of calls) {
    const subject = { entries: entries.slice(0, count), window };
    const start = JSON.stringify(startOf(subject));
    const now = { messages: project(subject.entries, window), start, isLong: isLongTurn(subject) };
    const grows = before?.messages.every((message, i) => isSame(message, now.messages[i]));
    if (before && !grows && !before.isLong && before.start === start) faults.push(`another prefix at ${count}`);
    before = now;
  }
  return faults;
}

function isSame(a: Message, b: Message | undefined): boolean {
  return a === b || isDeepStrictEqual(a, b);
}
