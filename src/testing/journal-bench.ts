// What the cases of the journal suite share: short words for submitting, committing and reading.
import assert from 'node:assert/strict';
import type {
  Claim,
  Commit,
  Committed,
  ConversationKey,
  Entry,
  EntryBody,
  Journal,
  Outcome,
  StepChange,
  Submission,
  Submitted,
  Usage,
} from '../kernel/index.ts';
import { noUsage } from '../kernel/index.ts';

export type Cases = Record<string, (bench: Bench) => Promise<void>>;

export interface Bench {
  journal: Journal;
  leaseMs: number;
  wait(ms: number): Promise<void>;
  /** Lets every lease run out. */
  lapse(): Promise<void>;
  /** A conversation that nobody else has. */
  key(more?: Partial<ConversationKey>): ConversationKey;
  submit(key: ConversationKey, text: string, more?: Partial<Submission>): Promise<Submitted & { run: string }>;
  /** A submit that must be claimed at once. */
  begin(key: ConversationKey, text: string, more?: Partial<Submission>): Promise<Claim>;
  /** A submit that must wait in the queue; its run. */
  queue(key: ConversationKey, text: string): Promise<string>;
  /** One commit of a claimed run; counts `claim.commits` on when it was written. */
  write(claim: Claim, change?: Partial<Commit>): Promise<Committed>;
  /** Ends a run with an answer. The conversation's next claim. */
  finish(claim: Claim, text?: string): Promise<Claim | null>;
  /** Claims what is free, and gives those of these runs, in the order in which they came. */
  take(worker: string, runs: readonly string[]): Promise<Claim[]>;
  entries(key: ConversationKey): Promise<Entry[]>;
  /** The history in short: `user: hi`, `assistant: ho`, `call: c1`, `result: c1`. */
  told(key: ConversationKey): Promise<string[]>;
}

export const usage: Usage = { inputTokens: 7, outputTokens: 5, reasoningTokens: 3, cachedTokens: 2 };
export const done: Extract<Outcome, { type: 'run_end' }> = { type: 'run_end', reason: 'done', usage, ms: 12 };

export function assistant(text: string, calls: readonly string[] = []): EntryBody {
  const toolCalls = calls.map((id) => ({ type: 'tool_call' as const, id, name: 'look', args: { id } }));
  return { kind: 'assistant', body: { parts: [{ type: 'text', text }, ...toolCalls], model: 'm', usage: noUsage } };
}

export function result(call: string, text = 'found'): EntryBody {
  return { kind: 'tool_result', body: { call, name: 'look', result: text, ms: 1 } };
}

export function step(n: number, state: StepChange['state'], call: string | null = `c${n}`): StepChange {
  return { n, kind: call === null ? 'model' : 'tool', call, state };
}

export function hasCode(code: string): (error: unknown) => boolean {
  return (error) => {
    assert.equal((error as { code?: unknown }).code, code);
    return true;
  };
}

export const newId = (): string => crypto.randomUUID();

function tell(entry: Entry): string[] {
  if (entry.kind === 'tool_result') return [`result: ${entry.body.call}`];
  if (entry.kind === 'notice') return [`notice: ${entry.body.code}`];
  if (entry.kind === 'summary') return [`summary: ${entry.body.text}`];
  return entry.body.parts.map((part) => {
    if (part.type === 'text') return `${entry.kind}: ${part.text}`;
    return part.type === 'tool_call' ? `call: ${part.id}` : part.type;
  });
}

export function createBench(subject: { journal: Journal; leaseMs?: number; wait(ms: number): Promise<void> }): Bench {
  const { journal, leaseMs = 5000, wait } = subject;
  const bench: Bench = {
    journal,
    leaseMs,
    wait,
    lapse: () => wait(leaseMs + 50),
    key: (more) => ({ tenant: newId(), owner: newId(), conversation: 'web', ...more }),
    async submit(key, text, more) {
      const run = newId();
      const message = { parts: [{ type: 'text' as const, text }] };
      const request = { agent: 'assistant', model: 'm' };
      return { run, ...(await journal.submit({ ...key, run, message, request, worker: 'w1', ...more })) };
    },
    async begin(key, text, more) {
      const submitted = await bench.submit(key, text, more);
      assert(submitted.outcome === 'claimed', `${submitted.outcome} instead of claimed`);
      return submitted.claim;
    },
    async queue(key, text) {
      const submitted = await bench.submit(key, text);
      assert.equal(submitted.outcome, 'queued');
      return submitted.run;
    },
    async write(claim, change) {
      const { tenant, owner, conversation, run, epoch, commits } = claim;
      const base = {
        tenant,
        owner,
        conversation,
        run,
        epoch,
        commits,
        worker: 'w1',
        status: 'running' as const,
        entries: [],
        steps: [],
      };
      const committed = await journal.commit({ ...base, ...change });
      if (committed.outcome === 'done') claim.commits++;
      return committed;
    },
    async finish(claim, text = 'ok') {
      const entries = [assistant(text)];
      const committed = await bench.write(claim, { status: 'done', outcome: done, entries });
      assert(committed.outcome === 'done', `${committed.outcome} instead of done`);
      return committed.next;
    },
    async take(worker, runs) {
      const own: Claim[] = [];
      for (;;) {
        const claims = await journal.claim(worker, { limit: 100, held: [] });
        own.push(...claims.filter((claim) => runs.includes(claim.run)));
        if (!claims.length) return own;
      }
    },
    entries: (key) => journal.history(key, { seq: 0, bytes: 0 }),
    told: async (key) => (await bench.entries(key)).flatMap(tell),
  };
  return bench;
}
