import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { claim as first } from './0001-functions.ts';

// A worker does not take over what it is advancing itself: where one long statement kept its renewals waiting, its leases are
// over, but nobody died. `p_held` are its runs, as a JSON list.
export const claimFunction = first
  .replace(
    'homard_claim_1(p_worker text, p_limit int, p_lease float8)',
    'homard_claim_2(p_worker text, p_limit int, p_lease float8, p_held json)',
  )
  .replace('declare q record;', 'declare held text[] := array(select json_array_elements_text(p_held)); q record;')
  .replace(
    "where status = 'running' and lease_until < now() order by",
    "where status = 'running' and lease_until < now() and (lease_owner is distinct from p_worker or id <> all(held)) order by",
  );

export const claim: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(claimFunction).execute(db);
  },
};
