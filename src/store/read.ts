// Reading runs and forks: not hot, so by Kysely.
import { sql } from 'kysely';
import type { ConversationKey, Entry, RunRecord, RunStatus, Step } from '../kernel/index.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';
import { entryColumns, parseJson, toEntry } from './rows.ts';

export interface EntryRange {
  /** Entries with a higher `seq`, up to `until` with it ... */
  seq: number;
  until?: number;
  /** ... that end after this byte ... */
  bytes: number;
  /** ... and were written at or after this instant (ISO-8601). */
  since?: string;
  limit?: number;
  /** Where the range cuts a turn: also the message that opened it, and the step before the cut. */
  withTurn?: boolean;
}

const MOST = 2_147_483_647;

/** A conversation's entries in order; of a fork with the prefix that it shares. */
export async function readEntries(database: Database, key: ConversationKey, range: EntryRange): Promise<Entry[]> {
  const { seq, until = MOST, bytes, since = '-infinity', limit = MOST } = range;
  const rows = await database.exec(
    'homard_history_1',
    `select ${entryColumns} from journal where tenant_id = $1 and owner = $2 and conversation = $3 and seq > $4
     and bytes_to > $5 and at >= $6::timestamptz and seq <= $8 order by seq limit $7`,
    [toColumn(key.tenant), toColumn(key.owner), toColumn(key.conversation), seq, bytes, since, limit, until],
  );
  const entries = rows.map((row) => toEntry(row, key.conversation));
  const first = entries[0];
  if (range.withTurn && first && first.kind !== 'user' && first.kind !== 'summary') {
    entries.unshift(...(await turnBefore(database, key, first.seq)));
  }
  if (first && (first.seq <= seq + 1 || first.bytesTo - first.bytes <= bytes)) return entries;
  const fork = await findFork(database, key);
  if (!fork || fork.seq <= seq) return entries;
  const prefix = { ...range, until: Math.min(until, fork.seq) };
  const shared = await readEntries(database, { ...key, conversation: fork.parent }, prefix);
  return [...shared, ...entries];
}

/** Of a turn that is cut before `seq`: the message that opened it, and the step before the cut. */
async function turnBefore(database: Database, key: ConversationKey, seq: number): Promise<Entry[]> {
  const own = 'tenant_id = $1 and owner = $2 and conversation = $3 and seq < $4';
  const rows = await database.exec(
    'homard_turn_1',
    `select ${entryColumns} from journal where ${own} and (
       seq >= (select max(seq) from journal where ${own} and kind in ('user', 'summary', 'assistant'))
       or seq = (select max(seq) from journal where ${own} and kind in ('user', 'summary'))) order by seq`,
    [toColumn(key.tenant), toColumn(key.owner), toColumn(key.conversation), seq],
  );
  return rows.map((row) => toEntry(row, key.conversation));
}

/** The conversation that a fork shares its first entries with, and the last one shared. */
async function findFork(
  { kysely }: Database,
  key: ConversationKey,
): Promise<{ parent: string; seq: number } | undefined> {
  const row = await kysely
    .selectFrom('conversation')
    .select(['parent', 'parent_seq'])
    .where('tenant_id', '=', toColumn(key.tenant))
    .where('owner', '=', toColumn(key.owner))
    .where('id', '=', toColumn(key.conversation))
    .executeTakeFirst();
  if (!row?.parent) return undefined;
  return { parent: fromColumn(row.parent), seq: row.parent_seq ?? 0 };
}

export async function loadRun(
  database: Database,
  { tenant, owner }: { tenant: string; owner: string },
  { run, afterCommit }: { run: string; afterCommit: number },
): Promise<RunRecord | undefined> {
  const { kysely } = database;
  const row = await kysely
    .selectFrom('run')
    .selectAll()
    .where('id', '=', toColumn(run))
    .where(sql<boolean>`(tenant_id, owner) is not distinct from (${toColumn(tenant)}, ${toColumn(owner)})`)
    .executeTakeFirst();
  if (!row) return undefined;
  // A run's entries follow its message without anybody else's between them. Those of a commit after `n` come with its outcome,
  // at the next look.
  const entries = await database.exec(
    'homard_run_entries_1',
    `select ${entryColumns} from journal where tenant_id = $1 and owner = $2 and conversation = $3 and seq >= $4
     and run = $5 and commit_n > $6 and commit_n <= $7 order by seq`,
    [row.tenant_id, row.owner, row.conversation, row.message_seq ?? 2_147_483_647, row.id, afterCommit, row.n],
  );
  const steps = await kysely
    .selectFrom('step')
    .selectAll()
    .where('run', '=', row.id)
    .where('tenant_id', '=', row.tenant_id)
    .where('owner', '=', row.owner)
    .orderBy('n')
    .execute();
  return {
    tenant,
    owner,
    run,
    conversation: fromColumn(row.conversation),
    status: row.status as RunStatus,
    epoch: row.epoch,
    commits: row.n,
    cancelled: row.cancelled,
    request: parseJson(row.request, `request of run ${run}`),
    outcome: row.outcome === null ? null : parseJson(row.outcome, `outcome of run ${run}`),
    message: row.message === null ? null : parseJson(row.message, `message of run ${run}`),
    createdAt: row.created_at.toISOString(),
    startedAt: toIso(row.started_at),
    endedAt: toIso(row.ended_at),
    entries: entries.map((entry) => toEntry(entry, fromColumn(row.conversation))),
    steps: steps.map((step) => ({
      n: step.n,
      kind: step.kind as Step['kind'],
      call: step.call,
      state: step.state as Step['state'],
      epoch: step.epoch,
      ...(step.answer !== null && { answer: parseJson<Step['answer']>(step.answer, `answer of ${run}:${step.n}`)! }),
      ...(step.usage !== null && { usage: parseJson<Step['usage']>(step.usage, `usage of ${run}:${step.n}`)! }),
      ...(step.model !== null && { model: fromColumn(step.model) }),
      startedAt: step.started_at.toISOString(),
      endedAt: toIso(step.ended_at),
    })),
  };
}

function toIso(date: Date | null): string | null {
  return date ? date.toISOString() : null;
}
