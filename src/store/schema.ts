import type { Generated } from 'kysely';

interface Owned {
  tenant_id: string;
  owner: string;
}

/** The tables as Kysely sees them. Texts that people or models choose are stored as `toColumn` writes them. */
export interface Schema {
  conversation: Owned & {
    id: string;
    version: number;
    bytes: number;
    active_run: string | null;
    agent: string | null;
    title: string | null;
    parent: string | null;
    parent_seq: number | null;
    /** When it got its title other than from its first message. */
    named_at: Generated<Date | null>;
    created_at: Generated<Date>;
    updated_at: Generated<Date>;
    /** The last entry in its readable file, and the file's length and time of change (milliseconds) with it. */
    transcript_seq: Generated<number>;
    transcript_bytes: Generated<number>;
    transcript_mtime: Generated<number | null>;
    /** The workspace of that file. */
    transcript_at: Generated<string | null>;
  };
  tombstone: Owned & {
    conversation: string;
    version: number;
    hash: string;
    deleted_at: Generated<Date>;
    /** Of the conversation; null in old ones. */
    created_at: Generated<Date | null>;
  };
  journal: Owned & {
    conversation: string;
    seq: number;
    run: string;
    commit_n: number;
    epoch: number;
    kind: string;
    body: string;
    bytes_to: number;
    at: Generated<Date>;
  };
  run: Owned & {
    id: string;
    position: Generated<number>;
    conversation: string;
    status: string;
    epoch: number;
    n: number;
    lease_owner: string | null;
    lease_until: Date | null;
    cancelled: boolean;
    request: string;
    message: string | null;
    message_seq: number | null;
    outcome: string | null;
    idempotency_key: string | null;
    digest: string | null;
    created_at: Generated<Date>;
    started_at: Date | null;
    active_since: Date | null;
    /** Milliseconds that it was active before it last waited for a person. */
    active_ms: Generated<number>;
    /** Take-overs since its last commit. */
    attempts: Generated<number>;
    changed_at: Generated<Date>;
    ended_at: Date | null;
  };
  file: Owned & { id: string; name: string; mime: string; bytes: number; at: Generated<Date> };
  step: Owned & {
    run: string;
    n: number;
    kind: string;
    call: string | null;
    state: string;
    epoch: number;
    answer: string | null;
    usage: string | null;
    model: string | null;
    started_at: Generated<Date>;
    ended_at: Date | null;
  };
}
