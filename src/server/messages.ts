import type { Entry, Mask } from '../kernel/index.ts';
import { callsOf, textOf, toShown } from '../kernel/index.ts';
import { serverError } from './errors.ts';

interface Spoken {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
}

interface Turn {
  said: string[];
  answers: string[];
}

/**
 * Of a list of messages in the style of chat completions only the user messages at its end are new. What comes before
 * must be what the conversation already holds; a system message and tool messages are not compared. `history` answers
 * null where nothing is to be compared.
 */
export async function newMessages(
  messages: readonly Spoken[],
  history: () => Promise<Entry[] | null>,
): Promise<string[]> {
  const spoken = messages.filter(({ role, content }) => role === 'user' || (role === 'assistant' && content !== ''));
  const before = spoken.findLastIndex(({ role }) => role !== 'user') + 1;
  const texts = spoken.slice(before).map(({ content }) => content);
  if (!texts.length) throw serverError('invalid_request', 'messages: the last message must be from the user');
  const entries = before === 0 ? null : await history();
  if (!entries) return texts;
  const earlier = toTurns(spoken.slice(0, before));
  const known = toTurns(entries.flatMap(toSpoken));
  if (earlier.length !== known.length || !earlier.every((turn, i) => isSame(turn, known[i]!))) {
    throw serverError('history_differs', 'The earlier messages are not those of this conversation.');
  }
  return texts;
}

function toSpoken(entry: Entry): Spoken[] {
  if (entry.kind === 'user') {
    const texts = entry.body.parts.filter((part) => part.type === 'text').map((part) => part.text);
    // A message of files alone is one all the same: it parts the answers around it.
    return (texts.length ? texts : ['']).map((content) => ({ role: 'user', content }));
  }
  const content = entry.kind === 'assistant' ? textOf(entry.body.parts) : '';
  return content ? [{ role: 'assistant', content }] : [];
}

function toTurns(spoken: readonly Spoken[]): Turn[] {
  const turns: Turn[] = [];
  for (const [i, { role, content }] of spoken.entries()) {
    const isNew = role === 'user' && spoken[i - 1]?.role !== 'user';
    if (isNew || !turns.length) turns.push({ said: [], answers: [] });
    const turn = turns.at(-1)!;
    (role === 'user' ? turn.said : turn.answers).push(content);
  }
  return turns;
}

/** A client may hold all that was said between tool calls, or only the last answer, as `POST /chat` gives it. */
function isSame(sent: Turn, known: Turn): boolean {
  const answer = sent.answers.join('');
  const isAnswer = answer === known.answers.join('') || answer === (known.answers.at(-1) ?? '');
  const [said, before] = [sent, known].map((turn) => JSON.stringify(turn.said.filter((text) => text !== '')));
  return isAnswer && said === before;
}

/** Entries as people read them: results of parallel calls in the order of the calls. */
export function toMessageViews(entries: readonly Entry[], mask: Mask): object[] {
  const views: object[] = [];
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]!;
    views.push(toView(entry, mask));
    if (entry.kind !== 'assistant') continue;
    const order = new Map(callsOf(entry.body.parts).map((call, index) => [call.id, index]));
    const results: Extract<Entry, { kind: 'tool_result' }>[] = [];
    for (let next = entries[i + 1]; next?.kind === 'tool_result'; next = entries[i + 1]) {
      results.push(next);
      i++;
    }
    results.sort((a, b) => (order.get(a.body.call) ?? 0) - (order.get(b.body.call) ?? 0));
    views.push(...results.map((result) => toView(result, mask)));
  }
  return views;
}

function toView(entry: Entry, mask: Mask): object {
  const { seq, run, at, epoch, kind } = entry;
  return { id: seq, kind, run, at, epoch, ...toBody(entry, mask) };
}

function toBody({ kind, body }: Entry, mask: Mask): object {
  if (kind === 'tool_result') {
    const args = body.args === undefined ? undefined : { args: mask(body.args) };
    return { ...body, ...toShown(body.result, mask), ...args };
  }
  if (kind !== 'assistant') return body;
  const parts = body.parts.map((part) => {
    if (part.type !== 'tool_call') return part;
    return { ...part, args: mask(part.args), ...(part.raw !== undefined && { raw: mask(part.raw) }) };
  });
  return { ...body, parts };
}
