// A journal in memory, for embedding without durability and for tests. It passes the same conformance suite as the
// databases; each method is synchronous inside, so it is atomic.
import type {
  Claim,
  Commit,
  Committed,
  ConversationKey,
  Entry,
  EntryBody,
  Journal,
  RunRecord,
  RunStatus,
  Step,
  Submission,
} from './journal.ts';
import { journalError } from './journal.ts';
import type { UserBody } from './messages.ts';
import { sliceHistory } from './project.ts';

interface Conversation {
  key: ConversationKey;
  version: number;
  bytes: number;
  incarnation: string;
  active: Run | null;
  entries: Entry[];
  queue: Run[];
}

interface Run extends Omit<RunRecord, 'steps' | 'entries'> {
  home: Conversation;
  worker: string | null;
  leaseUntil: number;
  activeSince: number;
  activeMs: number;
  attempts: number;
  messageSeq: number;
  steps: Map<number, Step>;
  idempotency?: { key: string; digest: string };
}

export interface MemoryJournalConfig {
  /** Milliseconds a lease lasts; 5000 as in the databases. */
  leaseMs?: number;
  /** Milliseconds since 1970. */
  now?: () => number;
}

export function createMemoryJournal({ leaseMs = 5000, now = Date.now }: MemoryJournalConfig = {}): Journal {
  const conversations = new Map<string, Conversation>();
  const runs = new Map<string, Run>();
  const at = () => new Date(now()).toISOString();
  const nameOf = ({ tenant, owner, conversation }: ConversationKey) => JSON.stringify([tenant, owner, conversation]);
  const clone = <T>(value: T): T => structuredClone(value);

  function append(run: Run, entry: EntryBody): void {
    const { home, commits: commit, epoch } = run;
    const bytes = new TextEncoder().encode(JSON.stringify(entry.body)).length;
    home.version++;
    home.bytes += bytes;
    home.entries.push({
      ...clone(entry),
      seq: home.version,
      run: run.run,
      commit,
      epoch,
      bytes,
      bytesTo: home.bytes,
      at: at(),
    });
  }

  function lease(run: Run, worker: string, message: UserBody | null = null): Claim {
    const wasWaiting = run.status === 'queued';
    if (!wasWaiting && run.worker !== null) run.attempts++;
    run.status = 'running';
    run.epoch++;
    run.worker = worker;
    run.leaseUntil = now() + leaseMs;
    run.startedAt ??= at();
    if (wasWaiting) run.activeSince = now();
    const { tenant, owner, conversation, epoch, commits, request, startedAt, messageSeq, cancelled, home } = run;
    return clone({
      tenant,
      owner,
      conversation,
      run: run.run,
      epoch,
      commits,
      request,
      messageSeq,
      startedAt,
      cancelled,
      message,
      incarnation: home.incarnation,
      version: home.version,
      bytes: home.bytes,
      ageMs: run.activeMs + now() - run.activeSince,
      attempts: run.attempts,
    });
  }

  /** Claims the oldest queued message of an idle conversation; its text enters the journal now. */
  function claimNext(home: Conversation, worker: string): Claim | null {
    const run = home.queue.shift();
    if (!run) return null;
    const message = run.message!;
    home.active = run;
    enter(run, message);
    return lease(run, worker, message);
  }

  function enter(run: Run, message: UserBody): void {
    run.epoch = 1;
    append(run, { kind: 'user', body: message });
    run.epoch = 0;
    run.messageSeq = run.home.version;
    run.message = null;
  }

  function open(submission: Submission): Conversation {
    const name = nameOf(submission);
    let home = conversations.get(name);
    const { expected } = submission;
    if (expected !== undefined && expected !== (home?.version ?? 0)) {
      const version = home?.version ?? 0;
      const message = `The conversation is at version ${version}, not ${expected}.`;
      throw journalError('version_conflict', message, { data: { version } });
    }
    if (!home) {
      const { tenant, owner, conversation } = submission;
      home = {
        key: { tenant, owner, conversation },
        version: 0,
        bytes: 0,
        incarnation: crypto.randomUUID(),
        active: null,
        entries: [],
        queue: [],
      };
      conversations.set(name, home);
    }
    return home;
  }

  function repeated({ run, idempotency, ...key }: Submission): Run | undefined {
    if (runs.has(run)) return runs.get(run);
    if (!idempotency) return undefined;
    const name = nameOf(key);
    const earlier = [...runs.values()].find((r) => r.idempotency?.key === idempotency.key && nameOf(r) === name);
    if (earlier && earlier.idempotency?.digest !== idempotency.digest) {
      throw journalError('idempotency_key_reused', 'This Idempotency-Key was used for another message.');
    }
    return earlier;
  }

  function ownRun({ tenant, owner }: { tenant: string; owner: string }, name: string): Run | undefined {
    const run = runs.get(name);
    return run?.tenant === tenant && run.owner === owner ? run : undefined;
  }

  function isFinal(status: RunStatus): boolean {
    return status === 'done' || status === 'failed' || status === 'cancelled';
  }

  function applyCommit(run: Run, commit: Commit): Committed {
    const { home } = run;
    run.commits++;
    run.attempts = 0;
    if (commit.status === 'waiting') run.activeMs += now() - run.activeSince;
    for (const entry of commit.entries) append(run, entry);
    for (const change of commit.steps) {
      const before = run.steps.get(change.n) ?? { startedAt: at(), endedAt: null };
      const endedAt = change.state === 'done' ? at() : null;
      run.steps.set(change.n, { ...before, ...clone(change), epoch: run.epoch, endedAt });
    }
    run.status = commit.status;
    run.leaseUntil = now() + leaseMs;
    if (commit.status !== 'running') run.worker = null;
    if (commit.status === 'waiting' && (run.cancelled || !awaits(run))) run.status = 'queued';
    const { version, bytes } = home;
    let next: Claim | null = null;
    if (isFinal(commit.status)) {
      run.outcome = commit.outcome ? clone(commit.outcome) : null;
      run.endedAt = at();
      home.active = null;
      next = claimNext(home, commit.worker);
    }
    return { outcome: 'done', version, bytes, next };
  }

  const awaits = (run: Run) => [...run.steps.values()].some((step) => step.state === 'awaiting');

  return {
    async submit(submission) {
      const earlier = repeated(submission);
      if (earlier) return { outcome: 'duplicate', run: earlier.run };
      const home = open(submission);
      const { tenant, owner, conversation } = home.key;
      const run: Run = {
        tenant,
        owner,
        conversation,
        run: submission.run,
        status: 'queued',
        epoch: 0,
        commits: 0,
        request: clone(submission.request),
        outcome: null,
        cancelled: false,
        message: clone(submission.message),
        createdAt: at(),
        startedAt: null,
        endedAt: null,
        home,
        worker: null,
        leaseUntil: 0,
        activeSince: now(),
        activeMs: 0,
        attempts: 0,
        messageSeq: 0,
        steps: new Map(),
        ...(submission.idempotency && { idempotency: submission.idempotency }),
      };
      runs.set(run.run, run);
      home.queue.push(run);
      if (home.active) return { outcome: 'queued', version: home.version };
      return { outcome: 'claimed', claim: claimNext(home, submission.worker)! };
    },
    async claim(worker, { limit, held }) {
      const free = (run: Run) =>
        (run.status === 'running' && run.leaseUntil < now() && !(run.worker === worker && held.includes(run.run))) ||
        (run.status === 'queued' && run.home.active === run);
      return [...runs.values()]
        .filter(free)
        .slice(0, limit)
        .map((run) => lease(run, worker));
    },
    async commit(commit) {
      const run = runs.get(commit.run);
      if (!run || run.epoch !== commit.epoch || nameOf(run) !== nameOf(commit)) return { outcome: 'lost' };
      if (run.commits === commit.commits + 1) {
        return { outcome: 'repeated', version: run.home.version, bytes: run.home.bytes, next: null };
      }
      if (run.status !== 'running' || run.commits !== commit.commits) return { outcome: 'lost' };
      return applyCommit(run, commit);
    },
    async renew(worker, names) {
      const own = names
        .flatMap((name) => runs.get(name) ?? [])
        .filter((run) => run.worker === worker && run.status === 'running');
      for (const run of own) run.leaseUntil = now() + leaseMs;
      return own.map(({ run, epoch, cancelled }) => ({ run, epoch, cancelled }));
    },
    async release(worker) {
      for (const run of runs.values()) {
        if (run.worker === worker && run.status === 'running') Object.assign(run, { worker: null, leaseUntil: 0 });
      }
    },
    async history(key, after) {
      const entries = conversations.get(nameOf(key))?.entries ?? [];
      return clone(sliceHistory(entries, after));
    },
    async load(owner, name, afterCommit) {
      const run = ownRun(owner, name);
      if (!run) return undefined;
      const {
        home,
        worker: _,
        leaseUntil: __,
        activeSince: ___,
        activeMs: ____,
        attempts: _____,
        messageSeq: ______,
        idempotency: _______,
        ...record
      } = run;
      const entries = home.entries.filter((entry) => entry.run === name && entry.commit > afterCommit);
      const steps = [...run.steps.values()].sort((a, b) => a.n - b.n);
      return clone({ ...record, steps, entries });
    },
    async cancel(owner, name) {
      const run = ownRun(owner, name);
      if (!run || isFinal(run.status)) return run?.status;
      run.cancelled = true;
      if (run.status === 'waiting') run.status = 'queued';
      else if (run.status === 'queued' && run.home.active !== run) {
        run.home.queue.splice(run.home.queue.indexOf(run), 1);
        run.status = 'cancelled';
        run.endedAt = at();
        run.outcome = cancelledOutcome;
      }
      return run.status;
    },
    async answer(owner, name, n, answer) {
      const run = ownRun(owner, name);
      const step = run?.steps.get(n);
      const isOpen = run?.status === 'running' || run?.status === 'waiting';
      if (!isOpen || step?.state !== 'awaiting') {
        throw journalError('not_awaiting', `Nothing waits for an answer at ${name}:${n}.`);
      }
      run.steps.set(n, { ...step, state: 'ready', answer: clone(answer) });
      if (run.status === 'waiting' && !awaits(run)) run.status = 'queued';
    },
  };
}

/** The outcome of a run that was cancelled before it began. */
export const cancelledOutcome = {
  type: 'run_end' as const,
  reason: 'cancelled' as const,
  usage: { inputTokens: 0, outputTokens: 0, reasoningTokens: 0, cachedTokens: 0 },
  ms: 0,
};
