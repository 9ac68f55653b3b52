// What PostgreSQL's background processes do and PGlite has not: without it the log and dead rows grow without end.
import type { Log } from '../../kernel/index.ts';
import { messageOf } from '../../kernel/index.ts';
import type { QueryResult } from './worker.ts';

export interface MaintenanceConfig {
  /** Runs one statement on its own; other work gets in between two of them. */
  query: (text: string) => Promise<QueryResult>;
  log?: Log;
  /** Looks at the latest after so many statements. */
  everyStatements?: number;
  /** And after so many milliseconds, if there was work. */
  everyMs?: number;
}

export interface Maintenance {
  /** Counts statements that may have written. */
  count(): void;
  /** No new step begins. */
  stop(): void;
}

const CHECKPOINT_BYTES = 32 * 1024 * 1024;
/** Less than this is the checkpoint's own record. */
const QUIET_BYTES = 64 * 1024;
const CHECKPOINT_MS = 5 * 60_000;

const LOG_BYTES = 'select pg_current_wal_insert_lsn() - redo_lsn as bytes from pg_control_checkpoint()';
/** The thresholds of PostgreSQL's autovacuum, with a larger base; the age guards the transaction counter. */
const WORN_TABLES = `
  select format('%I.%I', s.schemaname, s.relname) as name
  from pg_stat_all_tables s join pg_class c on c.oid = s.relid
  where s.schemaname not in ('information_schema', 'pg_toast') and (
    s.n_dead_tup > 500 + 0.2 * c.reltuples or s.n_ins_since_vacuum > 5000 + 0.2 * c.reltuples
    or s.n_mod_since_analyze > 500 + 0.1 * c.reltuples or age(c.relfrozenxid) > 150000000)`;

/** Checkpoints and vacuums by need. A failure is logged and tried again at the next look. */
export function createMaintenance(config: MaintenanceConfig): Maintenance {
  const { query, log, everyStatements = 2000, everyMs = 60_000 } = config;
  let statements = 0;
  let isDirty = false;
  let isStopped = false;
  let checkpointAt = Date.now();
  let isRunning = false;

  async function checkpoint(): Promise<void> {
    const bytes = Number((await query(LOG_BYTES)).rows[0]?.bytes ?? 0);
    isDirty = bytes > QUIET_BYTES;
    if (bytes < CHECKPOINT_BYTES && !(isDirty && Date.now() - checkpointAt > CHECKPOINT_MS)) return;
    await query('checkpoint');
    checkpointAt = Date.now();
    isDirty = false;
  }

  async function look(): Promise<void> {
    statements = 0;
    await checkpoint();
    const { rows } = isStopped ? { rows: [] } : await query(WORN_TABLES);
    for (const { name } of rows) {
      if (isStopped) return;
      await query(`vacuum (analyze) ${String(name)}`);
      await checkpoint();
    }
  }

  async function begin(): Promise<void> {
    if (isStopped || isRunning) return;
    isRunning = true;
    try {
      await look();
    } catch (error) {
      if (!isStopped) log?.warn({ err: error }, `Database maintenance failed: ${messageOf(error)}`);
    } finally {
      isRunning = false;
    }
  }

  const timer = setInterval(() => {
    if (statements || isDirty) void begin();
  }, everyMs);
  timer.unref();

  return {
    count() {
      if (++statements >= everyStatements) void begin();
    },
    stop() {
      isStopped = true;
      clearInterval(timer);
    },
  };
}
