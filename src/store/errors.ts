import { defineErrors } from '../kernel/index.ts';

export const storeError = defineErrors('store', {
  locked: {
    status: 500,
    hint: 'Another Homard uses this data directory: stop it, or choose another one in HOMARD_DATA.',
  },
  unreadable: {
    status: 500,
    hint: 'Nothing was changed. Choose another HOMARD_DATA, or restore a backup of this one.',
  },
  not_durable: { status: 500, hint: 'Use PostgreSQL (HOMARD_DATABASE_URL), and report this with your platform.' },
  worker_died: { status: 500, hint: 'Restart the server; what was acknowledged is on disk.', retryable: true },
  closed: { status: 503, hint: 'The server is stopping: send the request again in a moment.', retryable: true },
  pg_missing: { status: 500, hint: 'Install the client: npm install pg@8.23.1' },
  unreachable: { status: 500, hint: 'Check HOMARD_DATABASE_URL and that PostgreSQL runs there.', retryable: true },
  too_old: { status: 500, hint: 'Use PostgreSQL 15 or newer.' },
  newer_schema: {
    status: 500,
    hint: 'Start the newer version of Homard, or restore a backup from before it. Nothing was changed.',
  },
  migration_failed: { status: 500, hint: 'Nothing was changed. Look at the cause, then start again.' },
  unavailable: {
    status: 503,
    hint: 'The database cannot be reached. Send the request again in a moment.',
    retryable: true,
  },
  invalid_cursor: { status: 400, hint: 'Leave it out for the first page; then give the "next" of the page before.' },
  fork_exists: { status: 409, hint: 'Choose another id for the fork, or leave it out.' },
  fork_out_of_range: { status: 404, hint: 'GET /conversations/:id/messages lists the entries that there are.' },
});

/** After these nobody knows whether a statement took effect; fenced statements may be sent again. */
export function isTransient(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string') {
    return (
      error instanceof Error &&
      /connection terminated|connection ended|timeout exceeded when trying/i.test(error.message)
    );
  }
  // Connection lost, server shutting down or starting, serialization failure, deadlock, unique key taken by a neighbour.
  return /^(?:08|57P|40001|40P01|23505|53300)/.test(code) || /^E(?:CONN|PIPE|AI_AGAIN|HOSTUNREACH|TIMEDOUT)/.test(code);
}
