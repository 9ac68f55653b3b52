import type { Entry } from '../../kernel/index.ts';
import { callsOf, textOf } from '../../kernel/index.ts';
import { serverError } from '../errors.ts';

interface Spoken {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
}

/**
 * Of a list of messages in the style of chat completions only the user messages at its end are new. What comes before
 * must be what the conversation already holds; a system message and tool messages are not compared.
 */
export async function newMessages(messages: readonly Spoken[], history: () => Promise<Entry[]>): Promise<string[]> {
  const spoken = messages.filter(({ role }) => role === 'user' || role === 'assistant');
  const before = spoken.findLastIndex(({ role }) => role !== 'user') + 1;
  const texts = spoken.slice(before).map(({ content }) => content);
  if (!texts.length) throw serverError('invalid_request', 'messages: the last message must be from the user');
  if (before === 0) return texts;
  const known = (await history()).flatMap((entry): Spoken[] => {
    if (entry.kind === 'user')
      return entry.body.parts.map((part) => ({ role: 'user', content: part.type === 'text' ? part.text : '' }));
    const text = entry.kind === 'assistant' ? textOf(entry.body.parts) : '';
    return text ? [{ role: 'assistant', content: text }] : [];
  });
  const earlier = spoken.slice(0, before).filter(({ content }) => content !== '');
  const isEqual =
    earlier.length === known.length &&
    earlier.every(({ role, content }, i) => role === known[i]!.role && content === known[i]!.content);
  if (!isEqual) {
    throw serverError('history_differs', 'The earlier messages are not those of this conversation.');
  }
  return texts;
}

/** Entries as people read them: results of parallel calls in the order of the calls. */
export function toMessageViews(entries: readonly Entry[]): object[] {
  const views: object[] = [];
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]!;
    views.push(toView(entry));
    if (entry.kind !== 'assistant') continue;
    const order = new Map(callsOf(entry.body.parts).map((call, index) => [call.id, index]));
    const results: Extract<Entry, { kind: 'tool_result' }>[] = [];
    for (let next = entries[i + 1]; next?.kind === 'tool_result'; next = entries[i + 1]) {
      results.push(next);
      i++;
    }
    results.sort((a, b) => (order.get(a.body.call) ?? 0) - (order.get(b.body.call) ?? 0));
    views.push(...results.map(toView));
  }
  return views;
}

function toView({ seq, run, at, kind, body }: Entry): object {
  return { id: seq, kind, run, at, ...body };
}
