// One process a data directory: two PGlites on one directory overwrite each other without an error (electric-sql/pglite#1106).
import { DatabaseSync } from 'node:sqlite';
import { storeError, toOpenError } from '../errors.ts';

const SQLITE_BUSY = 5;
/** Keeps the handles alive: a collected handle would let the next process in. */
const held = new Set<DatabaseSync>();

/**
 * Holds `<directory>.lock` by a lock of the operating system, taken with the SQLite that is part of Node: it cannot go
 * stale, is free at once after kill -9, and holds while its owner is stopped. Throws `store.locked`. No other code of
 * this process may open that file: closing any handle of it frees the lock (POSIX).
 */
export function lockDirectory(directory: string): Disposable {
  const path = `${directory}.lock`;
  let handle: DatabaseSync | undefined;
  try {
    handle = new DatabaseSync(path, { timeout: 0 });
    handle.exec('begin exclusive');
  } catch (error) {
    handle?.close();
    const { errcode } = error as { errcode?: number };
    if (errcode === SQLITE_BUSY) {
      throw storeError('locked', `The data directory ${directory} is in use by another process.`, { cause: error });
    }
    throw toOpenError(`The data directory ${directory} cannot be locked by ${path}`, error);
  }
  const lock = handle;
  held.add(lock);
  return {
    [Symbol.dispose]: () => {
      if (held.delete(lock)) lock.close();
    },
  };
}
