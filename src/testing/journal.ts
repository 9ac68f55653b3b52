// The conformance suite of the Journal port: a plain array, free of any test runner. Every case uses ids of its own and
// tolerates what other cases and other processes left in the store.
import { answerCases } from './journal-answers.ts';
import type { Bench } from './journal-bench.ts';
import { createBench } from './journal-bench.ts';
import { leaseCases } from './journal-leases.ts';
import { queueCases } from './journal-queue.ts';
import { recordCases } from './journal-record.ts';
import { submitCases } from './journal-submit.ts';
import type { Journal } from '../kernel/index.ts';

export interface JournalUnderTest {
  journal: Journal;
  /** Lets so many milliseconds pass on the journal's clock: a real sleep or a moved clock. */
  wait(ms: number): Promise<void>;
  close(): Promise<void>;
  /** Milliseconds that a lease lasts in this journal; 5000 when absent. Under 500 the suite gets flaky on real clocks. */
  leaseMs?: number;
}

export interface JournalCase {
  name: string;
  /** Rejects with an assertion error. Calls `create` once and closes what it got. */
  run(create: () => Promise<JournalUnderTest>): Promise<void>;
}

function toCase([name, body]: [string, (bench: Bench) => Promise<void>]): JournalCase {
  return {
    name,
    async run(create) {
      const subject = await create();
      try {
        await body(createBench(subject));
      } finally {
        await subject.close();
      }
    },
  };
}

export const journalSuite: JournalCase[] = Object.entries({
  ...submitCases,
  ...queueCases,
  ...leaseCases,
  ...answerCases,
  ...recordCases,
}).map(toCase);
