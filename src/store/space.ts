// A backup must not be what fills the disk: whether there is room for it is asked before it is begun.
import { statfs } from 'node:fs/promises';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { RESERVE_BYTES } from './health.ts';

export interface Room {
  /** Data directory. */
  directory: string;
  /** The backup is kept there, with the contents of files. */
  isKept: boolean;
  /** The rows are set aside there first; see snapshot.ts. */
  isSetAside: boolean;
}

/** Rows set aside are text, and a packed backup is about half of that: so 1.5 times the database, if both are there. */
const ASIDE = 1;
const KEPT = 0.5;

/** Throws `store.disk_full` with `neededBytes` and `freeBytes`. What a server needs to end its runs is left to it. */
export async function assertRoom(database: Database, { directory, isKept, isSetAside }: Room): Promise<void> {
  if (!isKept && !isSetAside) return;
  const size = 'select pg_database_size(current_database()), (select coalesce(sum(bytes), 0) from file)';
  const [row] = await database.exec('homard_room_1', size, []);
  const [rows, files] = row!.map(Number) as [number, number];
  const wanted = rows * ((isSetAside ? ASIDE : 0) + (isKept ? KEPT : 0)) + (isKept ? files : 0);
  const neededBytes = Math.ceil(wanted) + RESERVE_BYTES;
  const { bavail, bsize } = await statfs(directory);
  const freeBytes = bavail * bsize;
  if (freeBytes >= neededBytes) return;
  const toMb = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;
  throw storeError(
    'disk_full',
    `A backup needs ${toMb(neededBytes)} on the disk of ${directory}, and ${toMb(freeBytes)} are free.`,
    { hint: ELSEWHERE, data: { neededBytes, freeBytes } },
  );
}

/** Where a backup goes when there is no room for it. */
export const ELSEWHERE =
  'Make space there; or stop the server and run "homard backup /another/disk/homard.gz", which needs none on that disk.';
