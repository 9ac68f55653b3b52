// Random journals for the projection's property tests, with what an independent reader expects of them.
import * as fc from 'fast-check';
import type { Entry, EntryBody } from '../../src/kernel/index.ts';
import { noUsage } from '../../src/kernel/index.ts';

interface Step {
  /** A call each: in which place its result came; negative: never. */
  order: readonly number[];
  size: number;
  orphan: boolean;
}

interface Turn {
  text: string;
  isSummary: boolean;
  steps: readonly Step[];
  end: 'answer' | 'interrupted' | 'reasoning' | 'notice';
  size: number;
}

export interface History {
  entries: Entry[];
  /** How many entries there were at each model call. */
  calls: number[];
}

const size = fc.oneof({ weight: 6, arbitrary: fc.nat(60) }, { weight: 1, arbitrary: fc.nat(600) });
const step: fc.Arbitrary<Step> = fc.record({
  order: fc.array(fc.integer({ min: -1, max: 3 }), { minLength: 1, maxLength: 4 }),
  size,
  orphan: fc.boolean(),
});
const turn: fc.Arbitrary<Turn> = fc.record({
  text: fc.constantFrom('yes', 'yes', 'no', '中文😀', ''),
  isSummary: fc.nat(20).map((n) => n === 0),
  steps: fc.oneof(
    { weight: 3, arbitrary: fc.array(step, { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.array(step, { minLength: 4, maxLength: 8 }) },
  ),
  end: fc.constantFrom('answer', 'answer', 'answer', 'interrupted', 'reasoning', 'notice'),
  size,
});

export const anyHistory: fc.Arbitrary<History> = fc.array(turn, { minLength: 1, maxLength: 7 }).map(toHistory);

export const anyWindow = fc.record({
  messages: fc.integer({ min: 1, max: 30 }),
  tokens: fc.integer({ min: 20, max: 1500 }),
  resultChars: fc.integer({ min: 1, max: 800 }),
});

export function toHistory(turns: readonly Turn[]): History {
  const entries: Entry[] = [];
  const calls: number[] = [];
  for (const [index, each] of turns.entries()) {
    const add = (entry: EntryBody) => void entries.push(toEntry(entry, { run: `r${index}`, before: entries.at(-1) }));
    addTurn(each, { add, modelCall: () => void calls.push(entries.length) });
  }
  return { entries, calls };
}

function addTurn(turn: Turn, { add, modelCall }: { add: (entry: EntryBody) => void; modelCall: () => void }): void {
  const { text, isSummary, steps, end } = turn;
  add(isSummary ? { kind: 'summary', body: { text } } : { kind: 'user', body: { parts: [{ type: 'text', text }] } });
  const answer = (part: 'text' | 'reasoning', more: object = {}) =>
    add({
      kind: 'assistant',
      body: { parts: [{ type: part, text: 'x'.repeat(turn.size + 1) }], model: 'm', usage: noUsage, ...more },
    });
  let count = 0;
  for (const { order, size, orphan } of steps) {
    modelCall();
    // Ids are unique in their run only.
    const ids = order.map(() => `c${count++}`);
    const parts = ids.map((id) => ({ type: 'tool_call' as const, id, name: 't', args: {} }));
    add({
      kind: 'assistant',
      body: { parts: [{ type: 'reasoning', text: 'r' }, ...parts], model: 'm', usage: noUsage },
    });
    const came = ids.map((id, i) => ({ id, at: order[i]! })).filter(({ at }) => at >= 0);
    for (const { id } of came.sort((a, b) => a.at - b.at)) {
      add({
        kind: 'tool_result',
        body: {
          call: id,
          name: 't',
          result: `${id} ${'中'.repeat(size)}`,
          ms: 1,
          ...(size % 3 === 0 && { isError: true }),
        },
      });
    }
    if (orphan) add({ kind: 'tool_result', body: { call: 'nobody', name: 't', result: 'orphan', ms: 1 } });
  }
  modelCall();
  if (end === 'answer') answer('text');
  else if (end === 'interrupted') answer('text', { interrupted: true });
  else if (end === 'reasoning') answer('reasoning');
  else add({ kind: 'notice', body: { code: 'models.failed', message: 'It failed.' } });
}

function toEntry(entry: EntryBody, { run, before }: { run: string; before: Entry | undefined }): Entry {
  const bytes = Buffer.byteLength(JSON.stringify(entry.body));
  const { seq, bytesTo } = before ?? { seq: 0, bytesTo: 0 };
  return { ...entry, run, seq: seq + 1, commit: 0, epoch: 1, bytes, bytesTo: bytesTo + bytes, at: '' };
}
