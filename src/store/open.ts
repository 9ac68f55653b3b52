import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../kernel/index.ts';
import type { Database } from './database.ts';
import { toOpenError } from './errors.ts';

export interface OpenConfig {
  /** `postgres://...`; absent: the embedded store. */
  url?: string | undefined;
  /** Data directory; the embedded store lives in its `db`. */
  directory: string;
  log?: Log | undefined;
  /** Others see that a server works on this PostgreSQL, as long as it is open. Throws `store.unfinished`. */
  isServer?: boolean;
}

/** Opens the database that the configuration names; only its own client is loaded. Throws `store.*`. */
export async function openDatabase(config: OpenConfig): Promise<Database> {
  const { open } = await loadDatabase(config);
  return await open();
}

/**
 * Loads the client and opens nothing. `open` has everything under way before it returns, so that a caller who then loads
 * modules, which keeps the thread, does not hold it back.
 */
export async function loadDatabase({
  url,
  directory,
  log,
  isServer,
}: OpenConfig): Promise<{ open: () => Promise<Database> }> {
  if (url) {
    const { openPostgres } = await import('./postgres.ts');
    return { open: () => openPostgres(url, { log, isServer }) };
  }
  makeDirectory(directory);
  if (existsSync(readyIn(directory))) {
    const { finishSwap } = await import('./swap.ts');
    await finishSwap(directory, { isLocking: true });
  }
  const { openPglite } = await import('./pglite/open.ts');
  const { templatePath } = await import('./pglite/template.ts');
  return { open: () => openPglite(join(directory, 'db'), { log, template: templatePath }) };
}

/** Says that a restored database is complete and about to be moved to its place; see swap.ts. */
export const readyIn = (directory: string): string => join(directory, 'restoring', 'ready.json');

/** The data directory is this user's alone. Throws `store.unreadable`, `store.disk_full`. */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw toOpenError(`The data directory ${path} cannot be made`, error);
  }
}
