// The Journal on SQL. Four statements carry a turn: submit, commit, history and, after a crash, claim; each is one call of
// a named statement. See migrations/0001-functions.ts for what they do in the database.
import type {
  Claim,
  Commit,
  Committed,
  ConversationKey,
  Journal,
  RunRecord,
  StepChange,
  Submission,
  Submitted,
} from '../kernel/index.ts';
import { AgentError, cancelledOutcome, journalError, noUsage, textOf } from '../kernel/index.ts';
import { toLine } from '../files/name.ts';
import { fromColumn, toColumn } from './column.ts';
import { createBatcher } from './committer.ts';
import type { Database } from './database.ts';
import { isTransient } from './errors.ts';
import { loadRun, readEntries } from './read.ts';
import { parseJson } from './rows.ts';

export interface JournalConfig {
  /** Seconds that a lease lasts without renewal. */
  leaseSeconds?: number;
  /** Milliseconds after which a commit that the database does not take is given up. */
  retryForMs?: number;
}

type SubmitAnswer =
  | { o: 'claimed'; version: number; bytes: number; startedAt: string; incarnation: string }
  | { o: 'queued' | 'conflict'; version: number }
  | { o: 'duplicate'; run: string; digest: string | null };

type CommitAnswer =
  | { o: 'done'; version: number; bytes: number; next: ClaimAnswer | null }
  | { o: 'repeated'; version: number; bytes: number }
  | { o: 'lost' };

type ClaimAnswer = Omit<Claim, 'request' | 'message'> & { request: string; message: string | null };

export function createSqlJournal(database: Database, config: JournalConfig = {}): Journal {
  const { leaseSeconds: lease = 5, retryForMs = 15_000 } = config;
  const { lanes } = database;

  async function call<T>(name: string, items: object[]): Promise<T[]> {
    const batch = JSON.stringify(items.map((item, i) => ({ i, ...item })));
    const rows = await database.exec(name, `select i, r from ${name}($1::json)`, [batch]);
    const answers: T[] = [];
    for (const [i, answer] of rows) answers[Number(i)] = JSON.parse(answer!) as T;
    return answers;
  }

  const submitOne = createBatcher<Submission & { again?: true }, SubmitAnswer>({
    lanes,
    isTransient,
    retryForMs,
    orderBy: nameOf,
    toRetry: (submission) => ({ ...submission, again: true }),
    send: (submissions) =>
      call(
        'homard_submit_1',
        submissions.map((submission) => ({
          ...keyColumns(submission),
          run: submission.run,
          worker: submission.worker,
          lease,
          again: submission.again ?? false,
          message: JSON.stringify(submission.message),
          request: JSON.stringify(submission.request),
          agent: toColumn(submission.request.agent),
          title: toColumn(titleOf(submission)),
          expected: submission.expected ?? null,
          digest: submission.idempotency?.digest ?? null,
          key: submission.idempotency ? toColumn(submission.idempotency.key) : null,
        })),
      ),
  });

  const commitOne = createBatcher<Commit, CommitAnswer>({
    lanes,
    isTransient,
    retryForMs,
    orderBy: nameOf,
    toRetry: (commit) => commit,
    send: (commits) =>
      call(
        'homard_commit_1',
        commits.map(({ entries, steps, outcome, commits: n, ...commit }) => ({
          tenant: toColumn(commit.tenant),
          owner: toColumn(commit.owner),
          run: commit.run,
          epoch: commit.epoch,
          n,
          status: commit.status,
          worker: commit.worker,
          lease,
          outcome: outcome ? JSON.stringify(outcome) : null,
          j: entries.length ? entries.map(({ kind, body }) => ({ kind, body: JSON.stringify(body) })) : null,
          s: steps.length ? steps.map(toStepRow) : null,
        })),
      ),
  });

  const toClaim = ({ tenant, owner, conversation, request, message, ...claim }: ClaimAnswer): Claim => ({
    ...claim,
    tenant: fromColumn(tenant),
    owner: fromColumn(owner),
    conversation: fromColumn(conversation),
    request: parseJson(request, `request of run ${claim.run}`),
    message: message === null ? null : parseJson(message, `message of run ${claim.run}`),
  });

  /** A run whose own row cannot be read ends with that error, so that it holds up nobody; then the one behind it. */
  async function readable(answer: ClaimAnswer, worker: string): Promise<Claim | null> {
    try {
      return toClaim(answer);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      const { code, message, hint } = error;
      const { tenant, owner, conversation, run, epoch, commits } = answer;
      const key = { tenant: fromColumn(tenant), owner: fromColumn(owner), conversation: fromColumn(conversation) };
      const outcome = { type: 'error' as const, code, message, hint, usage: noUsage, ms: 0 };
      const end = { ...key, run, epoch, commits, worker, status: 'failed' as const, outcome, entries: [], steps: [] };
      const ended = await commitOne(end);
      return ended.o === 'done' && ended.next ? await readable(ended.next, worker) : null;
    }
  }

  return {
    history: (key, after) => readEntries(database, key, { ...after, withTurn: true }),
    async submit(submission): Promise<Submitted> {
      const answer = await submitOne(submission);
      switch (answer.o) {
        case 'claimed': {
          const { tenant, owner, conversation, run, request, message } = submission;
          const { version, bytes, startedAt, incarnation } = answer;
          const key = { tenant, owner, conversation, run };
          const begun = {
            epoch: 1,
            commits: 0,
            messageSeq: version,
            ageMs: 0,
            attempts: 0,
            cancelled: false,
            message,
            incarnation,
          };
          return { outcome: 'claimed', claim: { ...key, request, version, bytes, startedAt, ...begun } };
        }
        case 'queued':
          return { outcome: 'queued', version: answer.version };
        case 'conflict':
          throw journalError(
            'version_conflict',
            `The conversation is at version ${answer.version}, not ${submission.expected}.`,
            { data: { version: answer.version } },
          );
        case 'duplicate':
          if (submission.idempotency && answer.digest !== submission.idempotency.digest) {
            throw journalError('idempotency_key_reused', 'This Idempotency-Key was used for another message.');
          }
          return { outcome: 'duplicate', run: answer.run };
      }
    },
    async commit(commit): Promise<Committed> {
      const answer = await commitOne(commit);
      if (answer.o === 'lost') return { outcome: 'lost' };
      const next = answer.o === 'done' && answer.next ? await readable(answer.next, commit.worker) : null;
      return { outcome: answer.o, version: answer.version, bytes: answer.bytes, next };
    },
    async claim(worker, { limit, held }) {
      const text = 'select * from homard_claim_2($1, $2, $3, $4::json)';
      const rows = await database.exec('homard_claim_2', text, [worker, limit, lease, JSON.stringify(held)]);
      const claims = rows.map(([claim]) => readable(JSON.parse(claim!) as ClaimAnswer, worker));
      return (await Promise.all(claims)).filter((claim) => claim !== null);
    },
    async renew(worker, runs) {
      const text = 'select id, epoch, cancelled from homard_renew_1($1, $2::json, $3)';
      const rows = await database.exec('homard_renew_1', text, [worker, JSON.stringify(runs), lease]);
      return rows.map(([run, epoch, cancelled]) => ({ run: run!, epoch: Number(epoch), cancelled: cancelled === 't' }));
    },
    async release(worker) {
      await database.exec(
        'homard_release_1',
        `update run set lease_until = now() - interval '1 s', lease_owner = null
         where lease_owner = $1 and status = 'running'`,
        [worker],
      );
    },
    load: (owner, run, afterCommit): Promise<RunRecord | undefined> => loadRun(database, owner, { run, afterCommit }),
    async cancel({ tenant, owner }, run) {
      const text = 'select homard_cancel_1($1, $2, $3, $4)';
      const values = [toColumn(tenant), toColumn(owner), toColumn(run), JSON.stringify(cancelledOutcome)];
      const [row] = await database.exec('homard_cancel_1', text, values);
      return (row?.[0] as RunRecord['status'] | null) ?? undefined;
    },
    async answer({ tenant, owner }, run, step, answer) {
      const text = 'select homard_answer_1($1, $2, $3, $4, $5)';
      const values = [toColumn(tenant), toColumn(owner), toColumn(run), step, JSON.stringify(answer)];
      const [row] = await database.exec('homard_answer_1', text, values);
      if (row?.[0] !== 't') throw journalError('not_awaiting', `Nothing waits for an answer at ${run}:${step}.`);
    },
  };
}

function toStepRow({ usage, model, ...step }: StepChange): object {
  return {
    ...step,
    ...(usage && { usage: JSON.stringify(usage) }),
    ...(model !== undefined && { model: toColumn(model) }),
  };
}

function keyColumns({ tenant, owner, conversation }: ConversationKey): ConversationKey {
  return { tenant: toColumn(tenant), owner: toColumn(owner), conversation: toColumn(conversation) };
}

function nameOf({ tenant, owner, conversation }: ConversationKey): string {
  return `${tenant}\u0001${owner}\u0001${conversation}`;
}

/** The first line of the first message that holds something to read, else the name of its first file; at most 80 characters. */
export function titleOf({ message: { parts } }: Pick<Submission, 'message'>): string {
  // A message may be megabytes long.
  const lines = textOf(parts)
    .trimStart()
    .slice(0, 4000)
    .split(/[\r\n]/);
  const line = lines.map(toLine).find((text) => text !== '') ?? '';
  const title = line || (parts.find((part) => part.type === 'file')?.name ?? '');
  const isInsidePair = /[\uDC00-\uDFFF]/.test(title[80] ?? '');
  return title.slice(0, isInsidePair ? 79 : 80).trim();
}
