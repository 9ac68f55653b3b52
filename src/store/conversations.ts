// What people do with conversations beside talking: list, read, fork, delete; and the feed of what changed.
import type { Transaction } from 'kysely';
import { sql } from 'kysely';
import type { ConversationKey, Entry, Owner, RunStatus } from '../kernel/index.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { readEntries } from './read.ts';
import type { Schema } from './schema.ts';

export interface ConversationSummary {
  id: string;
  version: number;
  title: string;
  agent: string;
  /** The run that has the conversation now. */
  activeRun: string | null;
  queued: number;
  createdAt: string;
  updatedAt: string;
  fork?: { parent: string; seq: number };
}

export interface RunChange {
  run: string;
  conversation: string;
  status: RunStatus;
  /** ISO-8601 UTC. */
  changedAt: string;
}

export interface Conversations {
  /** Newest first, at most `limit`; `next` asks for what follows, and is null at the end. Throws `store.invalid_cursor`. */
  list(
    owner: Owner,
    page: { limit: number; before?: string },
  ): Promise<{ conversations: ConversationSummary[]; next: string | null }>;
  get(key: ConversationKey): Promise<ConversationSummary | undefined>;
  /** Entries with `seq` > `after`, at most `limit`; with `since`, those written at or after that instant. */
  entries(key: ConversationKey, page: { after: number; limit: number; since?: string }): Promise<Entry[]>;
  /**
   * Deletes entries, runs and steps and leaves a tombstone; what forks share with it stays theirs. False when there is no
   * such conversation. A run that is under way ends at its next commit.
   */
  remove(key: ConversationKey): Promise<boolean>;
  /** A new conversation that shares the entries up to `seq`. Throws `store.fork_exists`, `store.fork_out_of_range`. */
  fork(key: ConversationKey, fork: { id: string; seq: number }): Promise<ConversationSummary>;
  /** The run that was submitted with an Idempotency-Key. */
  runOf(key: ConversationKey, idempotencyKey: string): Promise<string | undefined>;
  /** Runs of the owner whose status changed after an instant, oldest first. */
  changes(owner: Owner, after: string, limit: number): Promise<RunChange[]>;
  /** Queued, running and waiting runs of a conversation in the order in which they run. */
  openRuns(key: ConversationKey): Promise<RunChange[]>;
}

export function createConversations(database: Database): Conversations {
  const { kysely } = database;
  const select = (owner: Owner) =>
    kysely
      .selectFrom('conversation')
      .select(['id', 'version', 'title', 'agent', 'active_run', 'created_at', 'updated_at', 'parent', 'parent_seq'])
      .select((on) =>
        on
          .selectFrom('run')
          .whereRef('run.tenant_id', '=', 'conversation.tenant_id')
          .whereRef('run.owner', '=', 'conversation.owner')
          .whereRef('run.conversation', '=', 'conversation.id')
          .where('status', '=', 'queued')
          .select((count) => count.fn.countAll<number>().as('n'))
          .as('queued'),
      )
      .where('tenant_id', '=', toColumn(owner.tenant))
      .where('owner', '=', toColumn(owner.owner));

  type Row = Awaited<ReturnType<ReturnType<typeof select>['execute']>>[number];

  const toSummary = (row: Row): ConversationSummary => ({
    id: fromColumn(row.id),
    version: row.version,
    title: fromColumn(row.title ?? ''),
    agent: fromColumn(row.agent ?? ''),
    activeRun: row.active_run,
    queued: row.queued ?? 0,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
    ...(row.parent !== null && { fork: { parent: fromColumn(row.parent), seq: row.parent_seq ?? 0 } }),
  });

  const runs = (owner: Owner) =>
    kysely
      .selectFrom('run')
      .select(['id', 'conversation', 'status', 'changed_at'])
      .where('tenant_id', '=', toColumn(owner.tenant))
      .where('owner', '=', toColumn(owner.owner));

  const toChange = (row: { id: string; conversation: string; status: string; changed_at: Date }): RunChange => ({
    run: row.id,
    conversation: fromColumn(row.conversation),
    status: row.status as RunStatus,
    changedAt: row.changed_at.toISOString(),
  });

  const get = async (key: ConversationKey) => {
    const row = await select(key).where('id', '=', toColumn(key.conversation)).executeTakeFirst();
    return row && toSummary(row);
  };

  /** A transaction that is tried again when a commit under way was in its way. */
  async function alone<T>(work: (transaction: Transaction<Schema>) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await kysely.transaction().execute(work);
      } catch (error) {
        const { code } = error as { code?: string };
        if (attempt === 5 || (code !== '40P01' && code !== '40001')) throw error;
      }
    }
  }

  return {
    get,
    async runOf(key, idempotencyKey) {
      const row = await runs(key)
        .where('conversation', '=', toColumn(key.conversation))
        .where('idempotency_key', '=', toColumn(idempotencyKey))
        .executeTakeFirst();
      return row?.id;
    },
    async list(owner, { limit, before }) {
      let query = select(owner)
        .select(sql<string>`updated_at::text`.as('place'))
        .orderBy('updated_at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit);
      if (before !== undefined) {
        const { at, id } = fromCursor(before);
        query = query.where(sql<boolean>`(updated_at, id) < (${at}::timestamptz, ${id})`);
      }
      const rows = await query.execute();
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return { conversations: rows.map(toSummary), next: last ? toCursor({ at: last.place, id: last.id }) : null };
    },
    async entries(key, { after, limit, since }) {
      const entries = await readEntries(database, key, {
        seq: after,
        bytes: 0,
        limit,
        ...(since !== undefined && { since }),
      });
      return entries.slice(0, limit);
    },
    async remove(key) {
      return await alone(async (transaction) => {
        const { tenant_id, owner, id } = {
          tenant_id: toColumn(key.tenant),
          owner: toColumn(key.owner),
          id: toColumn(key.conversation),
        };
        // The same order of locks as a commit's: active run, conversation, the rest.
        await sql`select from run where tenant_id = ${tenant_id} and owner = ${owner} and conversation = ${id}
          and status in ('running', 'waiting') for update`.execute(transaction);
        const found = await sql<{ version: number }>`select version from conversation where tenant_id = ${tenant_id}
          and owner = ${owner} and id = ${id} for update`.execute(transaction);
        const version = found.rows[0]?.version;
        if (version === undefined) return false;
        // Forks get their own copy of what they shared with it; locked first, so that none is deleted meanwhile.
        await sql`select from conversation where tenant_id = ${tenant_id} and owner = ${owner} and parent = ${id}
          order by id for update`.execute(transaction);
        await sql`insert into journal(tenant_id, owner, conversation, seq, run, commit_n, epoch, kind, body, bytes_to, at)
          select j.tenant_id, j.owner, f.id, seq, run, commit_n, epoch, kind, body, bytes_to, at
          from conversation f join journal j on j.tenant_id = f.tenant_id and j.owner = f.owner and j.conversation = f.parent
            and j.seq <= f.parent_seq
          where f.tenant_id = ${tenant_id} and f.owner = ${owner} and f.parent = ${id}`.execute(transaction);
        await sql`update conversation f set parent = p.parent, parent_seq = least(f.parent_seq, p.parent_seq)
          from conversation p where p.tenant_id = ${tenant_id} and p.owner = ${owner} and p.id = ${id}
            and f.tenant_id = p.tenant_id and f.owner = p.owner and f.parent = p.id`.execute(transaction);
        await sql`insert into tombstone(tenant_id, owner, conversation, version, hash)
          select ${tenant_id}, ${owner}, ${id}, ${version},
            encode(sha256(convert_to(coalesce(string_agg(body, E'\n' order by seq), ''), 'UTF8')), 'hex')
          from journal where tenant_id = ${tenant_id} and owner = ${owner} and conversation = ${id}`.execute(
          transaction,
        );
        await sql`delete from step using run where step.run = run.id and run.tenant_id = ${tenant_id}
          and run.owner = ${owner} and run.conversation = ${id}`.execute(transaction);
        await sql`delete from run where tenant_id = ${tenant_id} and owner = ${owner} and conversation = ${id}`.execute(
          transaction,
        );
        await sql`delete from journal where tenant_id = ${tenant_id} and owner = ${owner} and conversation = ${id}`.execute(
          transaction,
        );
        await sql`delete from conversation where tenant_id = ${tenant_id} and owner = ${owner} and id = ${id}`.execute(
          transaction,
        );
        return true;
      });
    },
    async fork(key, { id, seq }) {
      const [last] = await readEntries(database, key, { seq: seq - 1, bytes: 0, limit: 1 });
      await alone(async (transaction) => {
        // The lock keeps the parent from being deleted before the fork is known to it.
        const parent = await transaction
          .selectFrom('conversation')
          .select(['id', 'agent', 'title', 'version'])
          .where('tenant_id', '=', toColumn(key.tenant))
          .where('owner', '=', toColumn(key.owner))
          .where('id', '=', toColumn(key.conversation))
          .forShare()
          .executeTakeFirst();
        if (!parent || last?.seq !== seq || parent.version < seq) {
          throw storeError(
            'fork_out_of_range',
            `Conversation ${JSON.stringify(key.conversation)} has no entry ${seq}.`,
          );
        }
        const { agent, title } = parent;
        const made = await transaction
          .insertInto('conversation')
          .values({
            tenant_id: toColumn(key.tenant),
            owner: toColumn(key.owner),
            id: toColumn(id),
            version: seq,
            bytes: last.bytesTo,
            active_run: null,
            agent,
            title,
            parent: parent.id,
            parent_seq: seq,
          })
          .onConflict((conflict) => conflict.doNothing())
          .executeTakeFirst();
        if (!made.numInsertedOrUpdatedRows) {
          throw storeError('fork_exists', `There is a conversation ${JSON.stringify(id)} already.`);
        }
      });
      return (await get({ ...key, conversation: id }))!;
    },
    async changes(owner, after, limit) {
      const rows = await runs(owner)
        .where('changed_at', '>', new Date(after))
        .orderBy('changed_at')
        .limit(limit)
        .execute();
      return rows.map(toChange);
    },
    async openRuns(key) {
      const rows = await runs(key)
        .where('conversation', '=', toColumn(key.conversation))
        .where('status', 'in', ['queued', 'running', 'waiting'])
        .orderBy('position')
        .execute();
      return rows.map(toChange);
    },
  };
}

interface Place {
  /** To the microsecond, as PostgreSQL writes it. */
  at: string;
  id: string;
}

const toCursor = (place: Place): string => Buffer.from(JSON.stringify(place)).toString('base64url');

function fromCursor(cursor: string): Place {
  const place = /^[\w-]{1,4000}$/.test(cursor) ? parsed(Buffer.from(cursor, 'base64url').toString()) : undefined;
  const { at, id } = (place ?? {}) as Partial<Place>;
  if (typeof at === 'string' && typeof id === 'string' && !Number.isNaN(Date.parse(at))) return { at, id };
  throw storeError('invalid_cursor', '"before" is not a "next" of an earlier page.');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
