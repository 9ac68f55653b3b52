import { describe, expect, it } from 'vitest';
import { createMemoryJournal } from '../../src/kernel/index.ts';
import { createClock } from '../../src/testing/clock.ts';
import { journalSuite } from '../../src/testing/journal.ts';

describe('the journal in memory', () => {
  const create = () => {
    const clock = createClock();
    const wait = (ms: number) => Promise.resolve(clock.advance(ms));
    return Promise.resolve({ journal: createMemoryJournal({ now: clock.now }), wait, close: () => Promise.resolve() });
  };
  it.each(journalSuite)('$name', async ({ run }) => {
    await expect(run(create)).resolves.toBeUndefined();
  });
});
