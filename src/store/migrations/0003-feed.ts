import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';

// What the feed tells beside runs: when a conversation got its title other than from its first message, and when one was
// deleted. The index holds only such rows, so a commit still changes its conversation in place.
export const feedColumns = [
  `alter table conversation add column named_at timestamptz`,
  `create index conversation_named on conversation(named_at) where named_at is not null`,
  `create index tombstone_deleted on tombstone(deleted_at)`,
];

export const feed: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of feedColumns) await sql.raw(statement).execute(db);
  },
};
