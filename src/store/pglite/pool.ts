// A look-alike of pg.Pool over the one connection of PGlite, so that Kysely's PostgresDialect serves both back ends.
import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type { Log } from '../../kernel/index.ts';
import type { Value } from '../database.ts';
import { storeError } from '../errors.ts';
import type { Link } from './link.ts';
import type { QueryResult } from './worker.ts';

export interface PglitePool extends PostgresPool {
  /** A prepared statement on its own: waits for a transaction that is open, but not for its neighbours. */
  exec(name: string, text: string, values: readonly Value[]): Promise<(string | null)[][]>;
  /** A statement on its own, outside Kysely. */
  query(text: string): Promise<QueryResult>;
  /** No more work is taken; resolves when the last client has released, at most after `waitMs`. */
  drain(waitMs: number): Promise<void>;
}

const SLOW_CLIENT_MS = 10_000;

/**
 * First come, first served. A statement on its own is sent at once, because the worker keeps the order; a client from
 * `connect()` holds everybody else back until its release.
 */
export function createPglitePool(link: Link, log?: Log): PglitePool {
  const queue: { isExclusive: boolean; start: () => void }[] = [];
  let isHeld = false;
  let isClosed = false;
  let lastClient = 0;

  function next(): void {
    while (!isHeld) {
      const waiting = queue.shift();
      if (!waiting) return;
      isHeld = waiting.isExclusive;
      waiting.start();
    }
  }

  function enter(isExclusive: boolean): Promise<void> | undefined {
    if (isHeld || queue.length) return new Promise((start) => queue.push({ isExclusive, start }));
    isHeld = isExclusive;
    return undefined;
  }

  function assertOpen(): void {
    if (isClosed) throw storeError('closed', 'The database is closed.');
  }

  function createClient(): PostgresPoolClient {
    const client = ++lastClient;
    let isReleased = false;
    const slow = setTimeout(() => {
      if (!queue.length) return;
      const message =
        'A transaction holds the embedded database for 10 s. Inside it, use only its own handle, and wait for no model or network.';
      log?.warn({ waiting: queue.length }, message);
    }, SLOW_CLIENT_MS);
    slow.unref();
    const query = async (text: unknown, values: readonly unknown[] = []) => {
      if (isReleased || typeof text !== 'string')
        throw storeError('closed', 'This connection was released, or has no cursors.');
      return (await link.send({ op: 'query', client, text, values })) as QueryResult;
    };
    return {
      query: query as PostgresPoolClient['query'],
      release: () => {
        if (isReleased) return;
        isReleased = true;
        clearTimeout(slow);
        isHeld = false;
        next();
      },
    };
  }

  return {
    options: {},
    async exec(name, text, values) {
      assertOpen();
      const turn = enter(false);
      if (turn) await turn;
      return (await link.send({ op: 'exec', client: 0, name, text, values })) as (string | null)[][];
    },
    async query(text) {
      assertOpen();
      const turn = enter(false);
      if (turn) await turn;
      return (await link.send({ op: 'query', client: 0, text, values: [] })) as QueryResult;
    },
    async connect() {
      assertOpen();
      const turn = enter(true);
      if (turn) await turn;
      return createClient();
    },
    async drain(waitMs) {
      isClosed = true;
      const turn = enter(true);
      if (!turn) return;
      const timeout = Promise.withResolvers<void>();
      const timer = setTimeout(timeout.resolve, waitMs);
      await Promise.race([turn, timeout.promise]);
      clearTimeout(timer);
    },
    // Kysely's destroy() ends here; the database itself is closed by its owner.
    end: () => Promise.resolve(),
  };
}
