import { AgentError, defineErrors, messageOf } from '../kernel/index.ts';

export const storeError = defineErrors('store', {
  locked: {
    status: 500,
    hint: 'Another Homard uses this data directory: stop it, or choose another one in HOMARD_DATA.',
  },
  unreadable: {
    status: 500,
    hint: 'Nothing was changed. Restore a backup: "homard restore <file> --replace"; or choose another HOMARD_DATA.',
  },
  not_durable: { status: 500, hint: 'Use PostgreSQL (HOMARD_DATABASE_URL), and report this with your platform.' },
  worker_died: {
    status: 503,
    hint: 'Send it again in a moment: the database opens itself again. What was acknowledged is on disk.',
    retryable: true,
  },
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
  file_gone: {
    status: 404,
    hint: 'Send the file again. Servers that share a database must share the folder "files", too.',
  },
  not_empty: {
    status: 409,
    hint: 'Choose an empty place. "homard restore <file> --replace" keeps an embedded database aside and puts the backup there.',
  },
  in_use: {
    status: 409,
    hint: 'Nothing was changed. Stop every Homard that uses that database, or give an empty one of its own.',
  },
  backup_damaged: { status: 400, hint: 'Nothing was changed. Take another backup: they are in the folder "backups".' },
  backup_newer: { status: 400, hint: 'Nothing was changed. Restore it with the release that made it, or a newer one.' },
  unfinished: { status: 500, hint: 'Run "homard grow postgres://..." again: it goes on where it stopped.' },
  grow_differs: {
    status: 500,
    hint: 'Nothing of the embedded database was changed. Give an empty database to "homard grow".',
  },
  disk_full: {
    status: 503,
    hint: 'Make space on the disk of the data directory: the server goes on by itself then.',
    retryable: true,
  },
  damaged: { status: 500, hint: 'Restore the newest backup: homard restore <file> --replace.' },
  inconsistent: {
    status: 500,
    hint: '"homard doctor --deep" reads everything; "homard restore <file> --replace" brings the newest backup back.',
  },
  replaced: {
    status: 503,
    hint: 'Nothing more is written. Restart the server: it opens what is in the data directory then.',
  },
  read_only: {
    status: 503,
    hint: '"homard doctor" says what to do. What is there can be read; send the request again when it is well.',
    retryable: true,
  },
  fork_exists: { status: 409, hint: 'Choose another id for the fork, or leave it out.' },
  fork_out_of_range: { status: 404, hint: 'GET /conversations/:id/messages lists the entries that there are.' },
});

/** As Node, PostgreSQL and SQLite say it; the embedded engine ends with nothing but a sentence. */
export const isDiskFull = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === 'store.disk_full' ||
  /no space left|ENOSPC|EDQUOT|disk quota|disk is full|could not (?:extend|write to) file/i.test(messageOf(error));

/** Why something cannot be opened. What there is no room for is not damaged, and a backup would not help. */
export function toOpenError(what: string, cause: unknown): AgentError {
  if (cause instanceof AgentError) return cause;
  const kind = isDiskFull(cause) ? 'disk_full' : 'unreadable';
  const hint = kind === 'disk_full' ? 'Make space on the disk of the data directory, then start again.' : undefined;
  return storeError(kind, `${what}: ${messageOf(cause)}`, { cause, hint });
}

/** After these nobody knows whether a statement took effect; fenced statements may be sent again. */
export function isTransient(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string') {
    return (
      error instanceof Error &&
      /connection terminated|connection ended|timeout exceeded when trying/i.test(error.message)
    );
  }
  // Connection lost, server shutting down or starting, too long behind a lock, serialization failure, deadlock, unique key
  // taken by a neighbour, the embedded engine ended and comes back.
  return (
    /^(?:08|57P|57014|55P03|40001|40P01|23505|53300|store\.worker_died)/.test(code) ||
    /^E(?:CONN|PIPE|AI_AGAIN|HOSTUNREACH|TIMEDOUT)/.test(code)
  );
}
