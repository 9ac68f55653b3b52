// What a run has of the record: the entries its prompt is made of, and the one way to add to them. A commit names the one
// before it, so a run's commits come one after another, and nothing is shown before its commit is acknowledged.
import type { Outcome } from './events.ts';
import type { Claim, Commit, Entry, EntryBody, RunRecord, StepChange } from './journal.ts';
import type { RunEnvironment } from './assembly.ts';
import type { UserBody } from './messages.ts';
import type { Window } from './project.ts';
import { windowStart } from './project.ts';
import { eventsOf } from './replay.ts';

/** Another worker has the run: nothing of ours may be written or shown any more. */
export class LostRun extends Error {}

/** A run came to its end, or waits; the conversation's next run was claimed with it. */
export interface End {
  claim: Claim | null;
}

export interface Change {
  entries?: EntryBody[];
  steps?: StepChange[];
  outcome?: Outcome;
}

export interface Ledger {
  /** Of the window, in order; grows with each commit. */
  readonly entries: readonly Entry[];
  /** Reads the window; resolves to what the run did before it was taken over, or null when it has just begun. */
  read(window: Window): Promise<RunRecord | null>;
  /** Writes one commit and, once it is acknowledged, shows it. Throws LostRun. */
  commit(status: Commit['status'], change: Change): Promise<End>;
}

export function createLedger(claim: Claim, { journal, worker, live, cache, mask }: RunEnvironment): Ledger {
  const { tenant, owner, conversation, run, epoch } = claim;
  const total = { seq: claim.version, bytes: claim.bytes };
  let commits = claim.commits;
  let entries: Entry[] = [];
  let window: Window | undefined;

  /** The window before this run's message, if it need not be read. */
  function before(message: UserBody, start: { seq: number; bytes: number }): Entry[] | undefined {
    const earlier = claim.version === 1 ? [] : cache.take(claim, start);
    if (!earlier) return undefined;
    const bytes = utf8Length(JSON.stringify(message));
    const place = { seq: claim.version, bytesTo: claim.bytes, bytes, at: claim.startedAt };
    earlier.push({ kind: 'user', body: message, run, commit: 0, epoch, ...place });
    return earlier;
  }

  /** Sizes are those that the journal will count: UTF-8 of the JSON. */
  function keep(added: EntryBody[], version: number): void {
    const at = new Date().toISOString();
    for (const [index, entry] of added.entries()) {
      const bytes = utf8Length(JSON.stringify(entry.body));
      total.bytes += bytes;
      total.seq = version - added.length + index + 1;
      entries.push({ ...entry, seq: total.seq, run, commit: commits, epoch, bytes, bytesTo: total.bytes, at });
    }
  }

  return {
    get entries() {
      return entries;
    },
    async read(shown) {
      window = shown;
      const start = windowStart(total, window);
      entries = (claim.message && before(claim.message, start)) ?? (await journal.history(claim, start));
      if (commits === 0) return null;
      const record = await journal.load(claim, run, -1);
      if (!record) throw new LostRun();
      return record;
    },
    async commit(status, { entries: added = [], steps = [], outcome }) {
      const key = { tenant, owner, conversation, run, epoch, commits, worker };
      const done = await journal.commit({ ...key, status, entries: added, steps, ...(outcome && { outcome }) });
      if (done.outcome === 'lost') throw new LostRun();
      commits++;
      keep(added, done.version);
      if (window && status !== 'running' && status !== 'waiting' && done.outcome === 'done') {
        const { version, bytes } = done;
        const start = windowStart({ seq: version, bytes }, window);
        cache.put(claim, { incarnation: claim.incarnation, version, bytes, start, entries });
      }
      live.committed(commits, eventsOf(added, run, { outcome, mask }));
      return { claim: done.next };
    },
  };
}

function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
