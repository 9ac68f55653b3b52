// What the feed tells: rows that changed after an instant, of runs, titles and deletions, by one statement.
import type { Owner, RunStatus } from '../kernel/index.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';

export interface RunChange {
  run: string;
  conversation: string;
  status: RunStatus;
  /** ISO-8601 UTC. */
  changedAt: string;
}

/** A conversation got its title by hand or by a fork, or was deleted. */
export type ConversationChange = { id: string; changedAt: string } & ({ title: string } | { deleted: true });

export type Change = { event: 'run'; data: RunChange } | { event: 'conversation'; data: ConversationChange };

const mine = 'tenant_id = $1 and owner = $2';

/** Each part has an index on its instant, so that a look costs as little as what is new. */
const CHANGES = `select kind, run, conversation, what, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') from (
    select 'run' as kind, id as run, conversation, status as what, changed_at as at from run
      where ${mine} and changed_at > $3::timestamptz
    union all
    select 'title', '', id, coalesce(title, ''), named_at from conversation where ${mine} and named_at > $3::timestamptz
    union all
    select 'deleted', '', conversation, '', deleted_at from tombstone where ${mine} and deleted_at > $3::timestamptz
  ) as change order by at limit $4::int`;

/** By the clock that the rows have their instants from. */
export async function readNow({ exec }: Database): Promise<Date> {
  const [row] = await exec('homard_now_1', `select extract(epoch from now()) * 1000`, []);
  return new Date(Math.floor(Number(row![0])));
}

/** Of one owner, oldest first. */
export async function readChanges(
  { exec }: Database,
  { tenant, owner }: Owner,
  { after, limit }: { after: string; limit: number },
): Promise<Change[]> {
  const rows = await exec('homard_changes_1', CHANGES, [toColumn(tenant), toColumn(owner), after, limit]);
  return rows.map(([kind, run, conversation, what, at]) => {
    const [id, changedAt] = [fromColumn(conversation!), at!];
    if (kind === 'run') {
      return { event: kind, data: { run: run!, conversation: id, status: what as RunStatus, changedAt } };
    }
    const state = kind === 'deleted' ? { deleted: true as const } : { title: fromColumn(what!) };
    return { event: 'conversation', data: { id, ...state, changedAt } };
  });
}
