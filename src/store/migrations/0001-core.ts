import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { functions } from './0001-functions.ts';

// `collate "C"`: ids are compared byte for byte, whatever the database's language. A run's lease and counter are in no
// index, so that a commit changes its row in place (HOT); `position` gives queues the order of submission.
export const tables = [
  `create table conversation(
     tenant_id text collate "C" not null, owner text collate "C" not null, id text collate "C" not null,
     version int not null, bytes bigint not null, active_run text collate "C", agent text, title text,
     parent text collate "C", parent_seq int,
     created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
     primary key (tenant_id, owner, id)) with (fillfactor = 80)`,
  `create table tombstone(
     tenant_id text collate "C" not null, owner text collate "C" not null, conversation text collate "C" not null,
     version int not null, hash text not null, deleted_at timestamptz not null default now())`,
  `create index tombstone_conversation on tombstone(tenant_id, owner, conversation)`,
  `create table journal(
     tenant_id text collate "C" not null, owner text collate "C" not null, conversation text collate "C" not null,
     seq int not null, run text collate "C" not null, commit_n int not null, epoch int not null,
     kind text not null, body text not null, bytes_to bigint not null, at timestamptz not null default now(),
     primary key (tenant_id, owner, conversation, seq))`,
  `create table run(
     id text collate "C" primary key, position bigint generated always as identity,
     tenant_id text collate "C" not null, owner text collate "C" not null, conversation text collate "C" not null,
     status text not null, epoch int not null, n int not null default 0,
     lease_owner text, lease_until timestamptz, cancelled boolean not null default false,
     request text not null, message text, message_seq int, outcome text,
     attempts int not null default 0, active_ms bigint not null default 0,
     idempotency_key text collate "C", digest text,
     created_at timestamptz not null default now(), started_at timestamptz, active_since timestamptz,
     changed_at timestamptz not null default now(), ended_at timestamptz) with (fillfactor = 70)`,
  `create index run_running on run(position) where status = 'running'`,
  `create index run_queued on run(tenant_id, owner, conversation, position) where status = 'queued'`,
  `create unique index run_idempotency on run(tenant_id, owner, conversation, idempotency_key) where idempotency_key is not null`,
  `create index run_conversation on run(tenant_id, owner, conversation)`,
  `create index run_changed on run(changed_at)`,
  `create table step(
     run text collate "C" not null, n int not null, tenant_id text collate "C" not null, owner text collate "C" not null,
     kind text not null, call text, state text not null, epoch int not null, answer text, usage text, model text,
     started_at timestamptz not null default now(), ended_at timestamptz,
     primary key (run, n)) with (fillfactor = 80)`,
];

export const core: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of [...tables, ...functions]) await sql.raw(statement).execute(db);
  },
};
