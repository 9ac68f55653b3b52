// The Journal port: the one durable record of conversations, runs and steps. The kernel decides what is written and
// when; a journal makes it atomic, fenced and ordered. `homard/testing` has its conformance suite.
import { defineErrors } from './errors.ts';
import type { Outcome } from './events.ts';
import type { AssistantBody, Json, NoticeBody, SummaryBody, ToolResultBody, Usage, UserBody } from './messages.ts';
import type { Answer } from './policy.ts';

export const journalError = defineErrors('journal', {
  version_conflict: { status: 409, hint: 'Read the conversation again and repeat with its current version.' },
  idempotency_key_reused: { status: 409, hint: 'Use a new Idempotency-Key for another message.' },
  run_not_found: { status: 404, hint: 'List the conversation to see its runs.' },
  state_unreadable: {
    status: 500,
    hint: 'The record was left as it is. It may come from a newer version of Homard, or is damaged: restore a backup.',
  },
  not_awaiting: { status: 409, hint: 'This approval is answered already, or its run has ended.' },
});

/** A conversation's name is its owner's own: two owners' `web` never meet. Any string is a legal part. */
export interface ConversationKey {
  tenant: string;
  owner: string;
  conversation: string;
}

export type RunStatus = 'queued' | 'running' | 'waiting' | 'done' | 'failed' | 'cancelled';

export type EntryBody =
  | { kind: 'user'; body: UserBody }
  | { kind: 'assistant'; body: AssistantBody }
  | { kind: 'tool_result'; body: ToolResultBody }
  | { kind: 'summary'; body: SummaryBody }
  | { kind: 'notice'; body: NoticeBody };

/**
 * A row of the journal. `seq` starts at 1 (in a fork: after the shared prefix) and has no gap. `bytesTo` counts the
 * stored bytes of all entries up to and with this one. `commit` and `epoch` are those of the commit that wrote it;
 * commit 0 is the submit. `at` is ISO-8601 UTC.
 */
export type Entry = EntryBody & {
  seq: number;
  run: string;
  commit: number;
  epoch: number;
  bytes: number;
  bytesTo: number;
  at: string;
};

/** `ready`: may run when the run goes on; `awaiting`: a person must decide; `started`: committed before it began. */
export type StepState = 'ready' | 'awaiting' | 'started' | 'done';

export interface Step {
  n: number;
  kind: 'model' | 'tool';
  /** The call's id; null for a model step. */
  call: string | null;
  state: StepState;
  /** Of the worker that wrote the state. */
  epoch: number;
  answer?: Answer;
  usage?: Usage;
  /** Of a model step: the model that answered. */
  model?: string;
  startedAt: string;
  endedAt: string | null;
}

export type StepChange = Pick<Step, 'n' | 'kind' | 'call' | 'state'> & Pick<Step, 'usage' | 'model'>;

/** What a run was asked to be; given back at every claim. Agent and model are names as people see them. */
export interface RunRequest {
  agent: string;
  model: string;
  [option: string]: Json | undefined;
}

export interface Submission extends ConversationKey {
  run: string;
  message: UserBody;
  request: RunRequest;
  worker: string;
  /** 0: the conversation must not exist; n: its version must be n; absent: no check. */
  expected?: number;
  /** With it, a second submit of the same text is the first one's run; `digest` tells whether it is the same. */
  idempotency?: { key: string; digest: string };
}

export type Submitted =
  | { outcome: 'claimed'; claim: Claim }
  | { outcome: 'queued'; version: number }
  | { outcome: 'duplicate'; run: string };

/** A run that this worker may advance until its lease runs out. The user's entry is in the journal (`messageSeq`). */
export interface Claim extends ConversationKey {
  run: string;
  /** The fencing token: every claim raises it. */
  epoch: number;
  /** Commits so far; the next commit must name it. */
  commits: number;
  request: RunRequest;
  /** Of the conversation, with the user's entry. */
  version: number;
  bytes: number;
  messageSeq: number;
  /** When the run was first claimed, ISO-8601 UTC. */
  startedAt: string;
  /** Milliseconds since then, without those that it waited for a person; by the journal's clock. */
  ageMs: number;
  /** How often a worker died with it since its last commit. */
  attempts: number;
  /** Somebody asked the run to end: it must do nothing else. */
  cancelled: boolean;
  /** The user's message, where the run begins with this claim; null at a take-over. */
  message: UserBody | null;
  /** Another one for a conversation of the same name that was made after this one was deleted. */
  incarnation: string;
}

export interface Commit extends ConversationKey {
  run: string;
  epoch: number;
  commits: number;
  worker: string;
  /** A terminal status needs `outcome`, and claims the conversation's oldest queued run in the same transaction. */
  status: Exclude<RunStatus, 'queued'>;
  outcome?: Outcome;
  entries: EntryBody[];
  steps: StepChange[];
}

/**
 * `lost`: another worker has the run, or it was ended; nothing was written. `repeated`: this very commit was applied
 * before (its answer got lost). After `waiting` the run may be claimable at once, if everything was answered meanwhile.
 */
export type Committed =
  | { outcome: 'done' | 'repeated'; version: number; bytes: number; next: Claim | null }
  | { outcome: 'lost' };

export interface RunRecord extends ConversationKey {
  run: string;
  status: RunStatus;
  epoch: number;
  commits: number;
  request: RunRequest;
  outcome: Outcome | null;
  cancelled: boolean;
  /** The user's text while it is not in the journal yet. */
  message: UserBody | null;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  steps: Step[];
  /** The run's own entries with `commit` > the asked one, in order. */
  entries: Entry[];
}

export interface Journal {
  /**
   * Records a message and its run. Claims it when the conversation is idle; else the message waits outside the journal
   * and enters it when its run is claimed, in order of submission. Throws `journal.version_conflict` (data: version),
   * `journal.idempotency_key_reused`.
   */
  submit(submission: Submission): Promise<Submitted>;
  /**
   * Takes over to `limit` runs that nobody advances: leases that ran out, answered approvals, forgotten queues. Not those
   * of this worker that are `held`: it lives, and only its renewals may be late.
   */
  claim(worker: string, wanted: { limit: number; held: readonly string[] }): Promise<Claim[]>;
  /** Writes one commit if epoch and counter match, and renews the lease. */
  commit(commit: Commit): Promise<Committed>;
  /**
   * Renews the leases of these runs of this worker. Those that are not in the answer are lost; `cancelled` ones must end.
   */
  renew(worker: string, runs: readonly string[]): Promise<{ run: string; epoch: number; cancelled: boolean }[]>;
  /** Gives up every lease of this worker, so that another one goes on at once. */
  release(worker: string): Promise<void>;
  /**
   * The entries after entry `seq` that end after byte `bytes`, of forks with the prefix they share, in order. Where this
   * cuts a turn, the message that opened it and the step before the cut come first. Throws `journal.state_unreadable`.
   */
  history(key: ConversationKey, after: { seq: number; bytes: number }): Promise<Entry[]>;
  /** A run with its steps and its entries after a commit (-1: all); undefined when it is not this owner's. */
  load(owner: { tenant: string; owner: string }, run: string, afterCommit: number): Promise<RunRecord | undefined>;
  /** Asks a run to end: a queued one ends now, any other as soon as its worker or the next claim sees it. */
  cancel(owner: { tenant: string; owner: string }, run: string): Promise<RunStatus | undefined>;
  /** Answers an awaiting step, once. The run becomes claimable when nothing awaits. Throws `journal.not_awaiting`. */
  answer(owner: { tenant: string; owner: string }, run: string, step: number, answer: Answer): Promise<void>;
}
