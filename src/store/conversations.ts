// What people do with conversations beside talking: list, search, read, rename, fork, delete; and the feed of what changed.
import { sql } from 'kysely';
import type { ConversationKey, Entry, Owner, RunStatus } from '../kernel/index.ts';
import { alone } from './alone.ts';
import type { Change, RunChange } from './changes.ts';
import { readChanges, readNow } from './changes.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { readEntries } from './read.ts';
import { removeAll, removeOne } from './removal.ts';

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

export interface Conversations {
  /**
   * Newest first, at most `limit`; `next` asks for what follows, and is null at the end. `search` is a part of the title,
   * in any case. Throws `store.invalid_cursor`.
   */
  list(
    owner: Owner,
    page: { limit: number; before?: string; search?: string },
  ): Promise<{ conversations: ConversationSummary[]; next: string | null }>;
  get(key: ConversationKey): Promise<ConversationSummary | undefined>;
  /** Entries with `seq` > `after`, at most `limit`; with `since`, those written at or after that instant. */
  entries(key: ConversationKey, page: { after: number; limit: number; since?: string }): Promise<Entry[]>;
  /**
   * Deletes entries, runs and steps and leaves a tombstone; what forks share with it stays theirs. False when there is no
   * such conversation. A run that is under way ends at its next commit.
   */
  remove(key: ConversationKey): Promise<boolean>;
  /** The same for all that the owner has; answers how many there were. */
  removeAll(owner: Owner): Promise<number>;
  /** Another title; no new version, and the same place in the list. Undefined: there is no such conversation. */
  rename(key: ConversationKey, title: string): Promise<ConversationSummary | undefined>;
  /** A new conversation that shares the entries up to `seq`. Throws `store.fork_exists`, `store.fork_out_of_range`. */
  fork(key: ConversationKey, fork: { id: string; seq: number }): Promise<ConversationSummary>;
  /** The run that was submitted with an Idempotency-Key. */
  runOf(key: ConversationKey, idempotencyKey: string): Promise<string | undefined>;
  /** The instant that a change would get now. */
  now(): Promise<Date>;
  /** What changed for the owner after an instant, oldest first. */
  changes(owner: Owner, page: { after: string; limit: number }): Promise<Change[]>;
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

  /**
   * Compared here: what is the same letter must not depend on the database's language. Read in the order of the key, which
   * needs no sorting there: 50,000 titles take a tenth of a second.
   */
  async function searchTitles(owner: Owner, page: { limit: number; place: Place | undefined; search: string }) {
    const { limit, place, search } = page;
    const wanted = fold(search);
    const found: Place[] = [];
    for (let after: string | null = ''; after !== null;) {
      const values = [toColumn(owner.tenant), toColumn(owner.owner), after, SCANNED_AT_ONCE];
      const rows: (string | null)[][] = await database.exec('homard_titles_1', TITLES, values);
      for (const [id, at, title] of rows) {
        const each = { id: id!, at: at! };
        const isBehind = place === undefined || compare(each, place) > 0;
        if (isBehind && fold(fromColumn(title!)).includes(wanted)) found.push(each);
      }
      after = rows.length < SCANNED_AT_ONCE ? null : rows.at(-1)![0]!;
    }
    const shown = found.toSorted(compare).slice(0, limit);
    const ids = shown.map(({ id }) => id);
    const rows = ids.length ? await select(owner).where('id', 'in', ids).execute() : [];
    const byId = new Map(rows.map((row) => [row.id, toSummary(row)]));
    const conversations = ids.flatMap((id) => byId.get(id) ?? []); // one may be deleted meanwhile
    return { conversations, next: found.length > limit ? toCursor(shown.at(-1)!) : null };
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
    async list(owner, { limit, before, search }) {
      const place = before === undefined ? undefined : fromCursor(before);
      if (search !== undefined) return await searchTitles(owner, { limit, place, search });
      let query = select(owner)
        .select(sql<string>`${sql.raw(PLACE)}`.as('place'))
        .orderBy('updated_at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit);
      if (place) query = query.where(sql<boolean>`(updated_at, id) < (${place.at}::timestamptz, ${place.id})`);
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
    async rename(key, title) {
      await kysely
        .updateTable('conversation')
        .set({ title: toColumn(title), named_at: sql<Date>`now()` })
        .where('tenant_id', '=', toColumn(key.tenant))
        .where('owner', '=', toColumn(key.owner))
        .where('id', '=', toColumn(key.conversation))
        .execute();
      return await get(key);
    },
    remove: (key) => removeOne(database, key),
    removeAll: (owner) => removeAll(database, owner),
    async fork(key, { id, seq }) {
      const [last] = await readEntries(database, key, { seq: seq - 1, bytes: 0, limit: 1 });
      await alone(database, async (transaction) => {
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
            named_at: sql<Date>`now()`,
          })
          .onConflict((conflict) => conflict.doNothing())
          .executeTakeFirst();
        if (!made.numInsertedOrUpdatedRows) {
          throw storeError('fork_exists', `There is a conversation ${JSON.stringify(id)} already.`);
        }
      });
      return (await get({ ...key, conversation: id }))!;
    },
    now: () => readNow(database),
    changes: (owner, page) => readChanges(database, owner, page),
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

const SCANNED_AT_ONCE = 20_000;
const PLACE = `(updated_at at time zone 'UTC')::text || '+00'`;
const TITLES = `select id, ${PLACE}, coalesce(title, '') from conversation
  where tenant_id = $1 and owner = $2 and id > $3 order by id limit $4::int`;

/** The same for texts that differ in case or in the form of their characters only; "ß" is "SS". */
const fold = (text: string): string => text.normalize('NFKC').toUpperCase().normalize('NFKC');

interface Place {
  /** UTC to the microsecond, as PostgreSQL writes it. */
  at: string;
  id: string;
}

/** Newest first, as the list has them. The fraction of a second may be shorter, and "+" sorts before "." and digits. */
function compare(a: Place, b: Place): number {
  if (a.at !== b.at) return a.at < b.at ? 1 : -1;
  return Buffer.compare(Buffer.from(b.id), Buffer.from(a.id));
}

const toCursor = ({ at, id }: Place): string => Buffer.from(JSON.stringify({ at, id })).toString('base64url');

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
