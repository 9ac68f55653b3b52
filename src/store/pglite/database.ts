import { Kysely, PostgresDialect } from 'kysely';
import type { Log } from '../../kernel/index.ts';
import { messageOf } from '../../kernel/index.ts';
import type { Schema } from '../schema.ts';
import type { Link } from './link.ts';
import { createMaintenance } from './maintenance.ts';
import type { PgliteDatabase } from './open.ts';
import { createPglitePool } from './pool.ts';

const DRAIN_MS = 10_000;

/** The database behind a thread that has opened it; closing it ends the thread and gives the lock back. */
export function createDatabase(link: Link, lock: Disposable, log?: Log): PgliteDatabase {
  const pool = createPglitePool(link, log);
  const maintenance = createMaintenance({ query: (text) => pool.query(text), log });
  const connect = async () => {
    maintenance.count();
    return pool.connect();
  };
  const kysely = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: { ...pool, connect } }) });

  async function close(): Promise<void> {
    try {
      maintenance.stop();
      await pool.drain(DRAIN_MS);
      await kysely.destroy();
      await link.send({ op: 'close', client: 0 });
    } catch (error) {
      // What was acknowledged is on disk already; the next start replays the log.
      log?.warn({ err: error }, `The embedded database was not closed in order: ${messageOf(error)}`);
    } finally {
      await link.stop();
      lock[Symbol.dispose]();
    }
  }

  let closing: Promise<void> | undefined;
  return {
    kind: 'pglite',
    lanes: 1,
    kysely,
    exec: (name, text, values) => {
      maintenance.count();
      return pool.exec(name, text, values);
    },
    syncs: async () => Number(await link.send({ op: 'syncs', client: 0 })),
    [Symbol.asyncDispose]: () => (closing ??= close()),
  };
}
