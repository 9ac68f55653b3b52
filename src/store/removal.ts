// Deleting conversations: entries, runs and steps go, a tombstone stays, and what forks share with them stays theirs.
import type { Transaction } from 'kysely';
import { sql } from 'kysely';
import type { ConversationKey, Owner } from '../kernel/index.ts';
import { alone } from './alone.ts';
import { toColumn } from './column.ts';
import type { Database } from './database.ts';
import type { Schema } from './schema.ts';

/** Conversations of one owner, as the columns have them. */
interface Doomed {
  tenant: string;
  owner: string;
  ids: readonly string[];
}

/** Deleted in one transaction; more would keep commits waiting. */
const AT_ONCE = 100;

/** False when there is no such conversation, or it was touched at or after `untouchedSince`, or has runs that are not over. */
export async function removeOne(
  database: Database,
  key: ConversationKey,
  { untouchedSince }: { untouchedSince?: Date } = {},
): Promise<boolean> {
  const doomed = { tenant: toColumn(key.tenant), owner: toColumn(key.owner), ids: [toColumn(key.conversation)] };
  return await alone(database, async (transaction) => {
    if (!(await lock(transaction, doomed)).length) return false;
    if (untouchedSince && (await isInUse(transaction, doomed, untouchedSince))) return false;
    await releaseForks(transaction, doomed);
    await erase(transaction, doomed);
    return true;
  });
}

/** All that the owner has when it begins; answers how many there were. Forks go before what they share. */
export async function removeAll(database: Database, { tenant, owner }: Owner): Promise<number> {
  const own = { tenant: toColumn(tenant), owner: toColumn(owner) };
  const rows = await database.kysely
    .selectFrom('conversation')
    .select('id')
    .where('tenant_id', '=', own.tenant)
    .where('owner', '=', own.owner)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute();
  let removed = 0;
  for (let at = 0; at < rows.length; at += AT_ONCE) {
    const ids = rows.slice(at, at + AT_ONCE).map(({ id }) => id);
    removed += await alone(database, async (transaction) => {
      const found = await lock(transaction, { ...own, ids });
      // Made meanwhile, or in the same instant as what it shares.
      const isShared = (await forksOf(transaction, { ...own, ids: found })).some((fork) => !found.includes(fork));
      for (const batch of isShared ? found.map((id) => [id]) : [found]) {
        if (isShared) await releaseForks(transaction, { ...own, ids: batch });
        await erase(transaction, { ...own, ids: batch });
      }
      return found.length;
    });
  }
  return removed;
}

const isOne = ({ tenant, owner, ids }: Doomed, id: string) =>
  ids.length
    ? sql<boolean>`tenant_id = ${tenant} and owner = ${owner} and ${sql.ref(id)} in (${sql.join(ids)})`
    : sql<boolean>`false`;

/** Those that are there. The same order of locks as a commit's: active run, conversation, the rest. */
async function lock(transaction: Transaction<Schema>, doomed: Doomed): Promise<string[]> {
  await sql`select from run where ${isOne(doomed, 'conversation')} and status in ('running', 'waiting')
    order by conversation for update`.execute(transaction);
  const found = await sql<{ id: string }>`select id from conversation where ${isOne(doomed, 'id')}
    order by id for update`.execute(transaction);
  return found.rows.map(({ id }) => id);
}

/** Under the lock, so nobody touches it any more. */
async function isInUse(transaction: Transaction<Schema>, doomed: Doomed, since: Date): Promise<boolean> {
  const { rows } = await sql`select 1 from conversation where ${isOne(doomed, 'id')} and (updated_at >= ${since}
    or exists (select from run where ${isOne(doomed, 'conversation')} and status in ('queued', 'running', 'waiting')))`.execute(
    transaction,
  );
  return rows.length > 0;
}

async function forksOf(transaction: Transaction<Schema>, doomed: Doomed): Promise<string[]> {
  // Locked, so that none is deleted meanwhile.
  const forks = await sql<{ id: string }>`select id from conversation where ${isOne(doomed, 'parent')}
    order by id for update`.execute(transaction);
  return forks.rows.map(({ id }) => id);
}

/** Forks of a conversation get their own copy of what they shared with it. */
async function releaseForks(transaction: Transaction<Schema>, doomed: Doomed): Promise<void> {
  if (!(await forksOf(transaction, doomed)).length) return;
  const { tenant, owner, ids } = doomed;
  const those = sql`f.tenant_id = ${tenant} and f.owner = ${owner} and f.parent in (${sql.join(ids)})`;
  await sql`insert into journal(tenant_id, owner, conversation, seq, run, commit_n, epoch, kind, body, bytes_to, at)
    select j.tenant_id, j.owner, f.id, seq, run, commit_n, epoch, kind, body, bytes_to, at
    from conversation f join journal j on j.tenant_id = f.tenant_id and j.owner = f.owner and j.conversation = f.parent
      and j.seq <= f.parent_seq
    where ${those}`.execute(transaction);
  await sql`update conversation f set parent = p.parent, parent_seq = least(f.parent_seq, p.parent_seq)
    from conversation p where ${those} and p.tenant_id = f.tenant_id and p.owner = f.owner and p.id = f.parent`.execute(
    transaction,
  );
}

async function erase(transaction: Transaction<Schema>, doomed: Doomed): Promise<void> {
  await sql`insert into tombstone(tenant_id, owner, conversation, version, created_at, hash)
    select tenant_id, owner, id, version, created_at, encode(sha256(convert_to(coalesce((
        select string_agg(body, E'\n' order by seq) from journal j
        where j.tenant_id = c.tenant_id and j.owner = c.owner and j.conversation = c.id), ''), 'UTF8')), 'hex')
    from conversation c where ${isOne(doomed, 'id')}`.execute(transaction);
  await sql`delete from step where run in (select id from run where ${isOne(doomed, 'conversation')})`.execute(
    transaction,
  );
  await sql`delete from run where ${isOne(doomed, 'conversation')}`.execute(transaction);
  await sql`delete from journal where ${isOne(doomed, 'conversation')}`.execute(transaction);
  await sql`delete from conversation where ${isOne(doomed, 'id')}`.execute(transaction);
}
