import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';

// Which workspace the file is in that the marks are about: replicas with folders of their own share a record. And what the
// feed looks for is found by its owner, so that a look costs what is new there and not what is new for everybody.
export const workspaceColumns = [
  `alter table conversation add column transcript_at text`,
  `drop index run_changed`,
  `create index run_changed on run(tenant_id, owner, changed_at)`,
  `drop index conversation_named`,
  `create index conversation_named on conversation(tenant_id, owner, named_at) where named_at is not null`,
  `drop index tombstone_deleted`,
  `create index tombstone_deleted on tombstone(tenant_id, owner, deleted_at)`,
];

export const transcriptWorkspace: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of workspaceColumns) await sql.raw(statement).execute(db);
  },
};
