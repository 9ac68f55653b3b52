import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';

// Up to which entry a conversation's readable file was written, and how the file was then: it is unchanged as long as its
// length and time are these. A tombstone knows when its conversation began, as a copy of the file does.
export const transcriptColumns = [
  `alter table conversation add column transcript_seq int not null default 0,
     add column transcript_bytes bigint not null default 0, add column transcript_mtime float8`,
  `alter table tombstone add column created_at timestamptz`,
];

export const transcripts: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of transcriptColumns) await sql.raw(statement).execute(db);
  },
};
