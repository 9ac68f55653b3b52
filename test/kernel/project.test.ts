import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Entry, Window } from '../../src/kernel/index.ts';
import { clip, defaultWindow, project, textOf, windowStart } from '../../src/kernel/index.ts';
import { sliceHistory } from '../../src/kernel/project.ts';
import { anyHistory, anyWindow, toHistory } from './history.ts';
import { prefixFaults, promptFaults } from './prompt-faults.ts';

/** The entries that a run reads when it is claimed, as `Journal.history` gives them. */
function loadedBy(entries: readonly Entry[], window: Window): Entry[] {
  const last = entries.at(-1)!;
  const start = windowStart({ seq: last.seq, bytes: last.bytesTo }, window);
  return sliceHistory(entries, start);
}

describe('project', () => {
  it('makes a prompt without fault of any history at any moment, with a stable prefix (C1, MEM-10)', () => {
    const property = fc.property(anyHistory, anyWindow, fc.nat(), ({ entries, calls }, window, random) => {
      const call = calls[random % calls.length]!;
      const moments = [call, 1 + (random % entries.length), entries.length];
      const faults = moments.flatMap((count) => promptFaults({ entries: entries.slice(0, count), window }));
      expect([...faults, ...prefixFaults({ entries, window }, calls)]).toEqual([]);
    });
    fc.assert(property, { numRuns: 10_000 });
  });

  it('needs no more of the journal than a run reads', () => {
    const property = fc.property(anyHistory, anyWindow, ({ entries, calls }, window) => {
      for (const [i, count] of calls.entries()) {
        const loaded = loadedBy(entries.slice(0, count), window);
        // The run that read goes on: it adds what it commits, and reads nothing again.
        const { run } = entries[count - 1]!;
        for (const later of calls.slice(i)) {
          if (entries[later - 1]!.run !== run) break;
          const now = [...loaded, ...entries.slice(count, later)];
          expect(isDeepStrictEqual(project(now, window), project(entries.slice(0, later), window))).toBe(true);
        }
      }
    });
    fc.assert(property, { numRuns: 1000 });
  });

  it('moves the window rarely: in half windows', () => {
    const property = fc.property(fc.integer({ min: 2, max: 60 }), (messages) => {
      const starts = Array.from(
        { length: 500 },
        (_, seq) => windowStart({ seq, bytes: 0 }, { ...defaultWindow, messages }).seq,
      );
      const moves = starts.filter((start, i) => i > 0 && start !== starts[i - 1]);
      // One entry is left for the message that opened the turn which is cut.
      const most = messages - 1;
      const half = Math.max(1, most >> 1);
      expect(moves).toEqual(moves.map((_, i) => half * (i + 1)));
      const sizes = starts.map((start, seq) => seq - start);
      expect(Math.max(...sizes)).toBe(most);
      expect(Math.min(...sizes.slice(most))).toBe(most - half + 1);
    });
    fc.assert(property);
  });

  it('shows an interrupted answer as interrupted, and no notice and no empty answer', () => {
    const ends = ['interrupted', 'reasoning', 'notice', 'answer'] as const;
    const turns = ends.map((end) => ({ text: end, isSummary: false, steps: [], end, size: 3 }));
    const told = project(toHistory(turns).entries, defaultWindow).map((message) =>
      message.role === 'tool' ? '' : `${message.role}: ${textOf(message.parts)}`,
    );
    expect(told).toEqual([
      'user: interrupted',
      'assistant: xxxx\n[This answer was interrupted here.]',
      'user: reasoning',
      'user: notice',
      'user: answer',
      'assistant: xxxx',
    ]);
  });

  it('keeps the first message and the newest part of a turn that is longer than the window', () => {
    const steps = Array.from({ length: 40 }, () => ({ order: [0], size: 1, orphan: false }));
    const before = { text: 'before', isSummary: false, steps: [], end: 'answer' as const, size: 1 };
    const { entries, calls } = toHistory([before, { ...before, text: 'long', steps }]);
    const messages = project(entries.slice(0, calls.at(-1)), { ...defaultWindow, messages: 10 });
    expect(messages[0]).toMatchObject({ role: 'user', parts: [{ text: 'long' }] });
    expect(messages.length).toBeGreaterThan(5);
    expect(messages.at(-1)).toMatchObject({ role: 'tool', call: 'c39' });
  });
  it('still shows the end of a long turn in the turn after it', () => {
    const steps = Array.from({ length: 20 }, () => ({ order: [0], size: 1, orphan: false }));
    const turn = { text: 'before', isSummary: false, steps: [], end: 'answer' as const, size: 1 };
    const { entries, calls } = toHistory([
      ...Array.from({ length: 10 }, () => turn),
      { ...turn, steps },
      { ...turn, text: 'yes, do it' },
    ]);
    const messages = project(entries.slice(0, calls.at(-1)), defaultWindow);
    expect(messages.filter(({ role }) => role === 'assistant').length).toBeGreaterThan(0);
  });
});

describe('clip', () => {
  const limits = fc.nat(40);

  it('keeps head and tail, counts what is missing and never cuts a character (I4)', () => {
    const note = /^([^]*)\n\[\.\.\. (\d+) characters left out \.\.\.\]\n([^]*)$/;
    const property = fc.property(fc.string({ unit: 'binary', maxLength: 60 }), limits, (text, limit) => {
      fc.pre(text.length > limit);
      const clipped = clip(text, limit);
      const [, head = '', count, tail = ''] = note.exec(clipped) ?? [];
      expect(text.startsWith(head) && text.endsWith(tail)).toBe(true);
      expect(head.length + Number(count) + tail.length).toBe(text.length);
      expect(head.length + tail.length).toBeLessThanOrEqual(limit);
      expect(clipped.isWellFormed()).toBe(true);
    });
    fc.assert(property, { numRuns: 1000 });
  });

  it('leaves alone what is short enough', () => {
    expect(clip('', 0)).toBe('');
    expect(clip('中😀', 3)).toBe('中😀');
  });

  it('cuts a Chinese text with emoji well at every place', () => {
    const text = '今天😀北京👩‍👩‍👧天气𠮷'.repeat(5);
    for (let limit = 0; limit <= text.length; limit++) expect(clip(text, limit).isWellFormed()).toBe(true);
  });
});
