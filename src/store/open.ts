import { join } from 'node:path';
import type { Log } from '../kernel/index.ts';
import type { Database } from './database.ts';

export interface OpenConfig {
  /** `postgres://...`; absent: the embedded store. */
  url?: string | undefined;
  /** Data directory; the embedded store lives in its `db`. */
  directory: string;
  log?: Log | undefined;
}

/** Opens the database that the configuration names; only its own client is loaded. Throws `store.*`. */
export async function openDatabase({ url, directory, log }: OpenConfig): Promise<Database> {
  if (url) return await (await import('./postgres.ts')).openPostgres(url, { log });
  return await (await import('./pglite/open.ts')).openPglite(join(directory, 'db'), { log });
}
