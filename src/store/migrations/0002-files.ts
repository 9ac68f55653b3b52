import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';

// Which owner has which file. The content is in the data directory, under the same id.
export const fileTables = [
  `create table file(
     tenant_id text collate "C" not null, owner text collate "C" not null, id text collate "C" not null,
     name text not null, mime text not null, bytes bigint not null, at timestamptz not null default now(),
     primary key (tenant_id, owner, id))`,
];

export const files: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of fileTables) await sql.raw(statement).execute(db);
  },
};
