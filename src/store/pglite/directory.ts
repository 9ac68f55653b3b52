// What a data directory is before anything is opened in it. Only looks: whatever is not ours stays as it was.
import { accessSync, constants, existsSync, readFileSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { messageOf } from '../../kernel/index.ts';
import { storeError } from '../errors.ts';

/** The PostgreSQL that is inside the pinned PGlite; another major version cannot read its files. */
const POSTGRES_MAJOR = '18';
const PARTS = ['global/pg_control', 'base', 'pg_wal', 'postgresql.conf'];
const CONTROL_BYTES = 8192;

/** `fresh`: absent or empty; `database`: made by this version of PGlite. Everything else throws `store.unreadable`. */
export function inspectDirectory(directory: string): 'fresh' | 'database' {
  const refuse = (what: string, hint?: string, cause?: unknown) =>
    storeError('unreadable', `The data directory ${directory} ${what}`, { cause, hint });
  let names: string[];
  try {
    names = readdirSync(directory);
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return 'fresh';
    if (code === 'ENOTDIR') throw refuse('is not a directory, or a file stands in its path.', undefined, error);
    throw refuse(`cannot be read and written: ${messageOf(error)}`, undefined, error);
  }
  if (!names.length) return 'fresh';
  if (!names.includes('PG_VERSION')) {
    throw refuse(`holds other files (${names.slice(0, 3).join(', ')}) and no database.`);
  }
  let version: string;
  try {
    version = readFileSync(join(directory, 'PG_VERSION'), 'utf8').trim().slice(0, 20);
  } catch (error) {
    throw refuse(`cannot be read: ${messageOf(error)}`, undefined, error);
  }
  if (version !== POSTGRES_MAJOR) {
    const hint = 'Nothing was changed. Start the version of Homard that wrote it, or choose another HOMARD_DATA.';
    throw refuse(`has the format "${version}" of PostgreSQL; this Homard reads ${POSTGRES_MAJOR}.`, hint);
  }
  const missing = PARTS.filter((part) => !existsSync(join(directory, part)));
  if (missing.length) throw refuse(`is damaged: ${missing.join(', ')} missing.`);
  if (statSync(join(directory, 'global/pg_control')).size !== CONTROL_BYTES)
    throw refuse('is damaged: its control file is cut off.');
  return 'database';
}

/** The one path of a directory, so that a symbolic link cannot lead a second process past the lock. */
export function toRealPath(directory: string): string {
  const path = resolve(directory);
  if (existsSync(path)) return realpathSync(path);
  const parent = dirname(path);
  return parent === path ? path : join(toRealPath(parent), basename(path));
}
