// Whether the database can be written to, as the last failures and a look at the disk say. A database that is damaged, or
// whose disk is full, is still read; what would be written is refused before it is begun.
import { statfs } from 'node:fs/promises';
import type { Journal, Log } from '../kernel/index.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { checkNewest } from './integrity.ts';
import type { TranscriptStore } from './transcripts.ts';

/** The worse one counts, and comes later. */
const KINDS = ['inconsistent', 'disk_full', 'damaged', 'replaced'] as const;
type Kind = (typeof KINDS)[number];

export interface StoreProblem {
  code: `store.${Kind}`;
  /** For people. */
  reason: string;
  /** What to do, with the command. */
  hint: string;
  /** ISO-8601 UTC. */
  since: string;
  /** Nothing is written while it lasts. */
  isReadOnly: boolean;
}

export interface Health extends Disposable {
  problem(): StoreProblem | undefined;
  /** Learns from a failure, of the database or of its disk; answers what people are told of it. */
  observe(error: unknown): unknown;
  /** Throws `store.read_only`. What only ends work may use the reserve of a full disk. */
  assertWritable(work?: { isEnding: boolean }): void;
  /** Reads a little of everything, and the newest conversations. */
  check(): Promise<void>;
}

export interface HealthConfig {
  database: Database;
  /** The data directory, where the database is in it: its disk is looked at. */
  directory?: string | undefined;
  log: Log;
  /** Free bytes below which nothing new is begun, so that what runs can end. */
  reserveBytes?: number;
  lookMs?: number;
}

export const RESERVE_BYTES = 32 * 1024 * 1024;

export function createHealth(config: HealthConfig): Health {
  const { database, directory, log, reserveBytes = RESERVE_BYTES, lookMs = 2000 } = config;
  /** What was found stays, but for a full disk: only a restart mends it. */
  const found = new Map<Kind, StoreProblem>();

  function worst(): StoreProblem | undefined {
    const kind = KINDS.findLast((each) => found.has(each));
    return kind && found.get(kind);
  }

  function set(kind: Kind, reason: string): void {
    if (found.has(kind)) return;
    const { hint } = storeError.kinds[kind];
    const problem: StoreProblem = {
      code: `store.${kind}`,
      reason,
      hint,
      since: new Date().toISOString(),
      isReadOnly: kind !== 'inconsistent',
    };
    found.set(kind, problem);
    log.error({ code: problem.code }, `${reason} ${hint}${problem.isReadOnly ? ' Until then it is read only.' : ''}`);
  }

  async function look(): Promise<void> {
    const full = found.get('disk_full');
    if (directory === undefined) {
      // The disk is elsewhere: the next write tells.
      if (full && Date.now() - Date.parse(full.since) > 5000) found.delete('disk_full');
      return;
    }
    const { bavail, bsize } = await statfs(directory);
    const free = bavail * bsize;
    if (free < reserveBytes) {
      set('disk_full', `The disk of ${directory} is full: ${Math.round(free / 1e6)} MB are free.`);
    } else if (full && free >= reserveBytes * 1.5) {
      log.warn({}, `The disk of ${directory} has space again.`);
      found.delete('disk_full');
    }
  }

  const observe = (error: unknown): unknown => {
    const kind = kindOf(error);
    if (!kind) return error;
    set(kind, messageOf(error));
    return error instanceof AgentError ? error : storeError(kind, messageOf(error), { cause: error });
  };

  let isLooking = false;
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    look()
      .catch((error: unknown) => void observe(error))
      .finally(() => {
        isLooking = false;
      });
  }, lookMs);
  timer.unref();

  return {
    problem: worst,
    observe,
    assertWritable({ isEnding } = { isEnding: false }) {
      const problem = worst();
      if (!problem?.isReadOnly || (isEnding && problem.code === 'store.disk_full')) return;
      const { reason, hint, code } = problem;
      throw storeError('read_only', `Nothing can be written: ${reason}`, { hint, data: { reason: code } });
    },
    async check() {
      await look();
      try {
        for (const what of await checkNewest(database)) set('inconsistent', what);
      } catch (error) {
        if (observe(error) === error && !(error instanceof AgentError)) throw error;
      }
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

/** PostgreSQL's codes for a full disk and for what it cannot read, Node's for the same, and our own. */
function kindOf(error: unknown, depth = 0): 'disk_full' | 'damaged' | 'replaced' | undefined {
  if (typeof error !== 'object' || error === null || depth > 8) return undefined;
  const { code, data, cause, error: later, suppressed } = error as Record<string, unknown>;
  // What was refused for want of room, before it was begun, leaves the rest of it to others.
  if (code === 'store.disk_full' && isRefusal(data)) return undefined;
  if (code === '53100' || code === 'ENOSPC' || code === 'store.disk_full') return 'disk_full';
  if (code === 'XX001' || code === 'XX002' || code === 'store.damaged') return 'damaged';
  if (code === 'store.replaced') return 'replaced';
  // A SuppressedError is a failure of cleaning up, and hides the first one.
  return kindOf(suppressed, depth + 1) ?? kindOf(cause, depth + 1) ?? kindOf(later, depth + 1);
}

const isRefusal = (data: unknown) => typeof data === 'object' && data !== null && 'neededBytes' in data;

/**
 * A journal that begins nothing on a database that cannot be written to, and learns from every failure. Runs that are under
 * way may end on the reserve of a full disk; what they cannot store is taken up again when there is space.
 */
export function guardJournal(journal: Journal, health: Health): Journal {
  const told = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw health.observe(error);
    }
  };
  const isLost = () => health.problem()?.isReadOnly === true && health.problem()?.code !== 'store.disk_full';
  return {
    history: (...given) => told(journal.history(...given)),
    load: (...given) => told(journal.load(...given)),
    async submit(submission) {
      health.assertWritable();
      return await told(journal.submit(submission));
    },
    async commit(commit) {
      health.assertWritable({ isEnding: true });
      return await told(journal.commit(commit));
    },
    claim: async (...given) => (health.problem()?.isReadOnly ? [] : await told(journal.claim(...given))),
    renew: (...given) => told(journal.renew(...given)),
    async release(worker) {
      // Leases run out by themselves; a server must be able to stop.
      if (!isLost()) await told(journal.release(worker)).catch((error: unknown) => void health.observe(error));
    },
    async cancel(...given) {
      health.assertWritable({ isEnding: true });
      return await told(journal.cancel(...given));
    },
    async answer(owner, run, step, answer) {
      health.assertWritable({ isEnding: answer.effect === 'deny' });
      return await told(journal.answer(owner, run, step, answer));
    },
  };
}

/** Readable files wait while nothing may be written: they would use up what is left of the disk. */
export function guardTranscripts(store: TranscriptStore, health: Health): TranscriptStore {
  return {
    ...store,
    async read(wanted) {
      health.assertWritable();
      return await store.read(wanted);
    },
    async mark(marks) {
      health.assertWritable();
      await store.mark(marks);
    },
    async isDeleted(...given) {
      health.assertWritable();
      return await store.isDeleted(...given);
    },
    async adopt(adopted) {
      health.assertWritable();
      return await store.adopt(adopted);
    },
  };
}
