// A backup into an embedded database: made beside the old one, and moved to its place when all of it is there and checked.
import { mkdirSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { openDraft } from '../files/atomic.ts';
import { createBlobs } from '../files/blobs.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import type { ArchiveContent } from './archive-reader.ts';
import { readArchiveFile } from './archive-reader.ts';
import { storeError } from './errors.ts';
import { assertKnown, firstFilled, loadArchive } from './load.ts';
import { makeDirectory } from './open.ts';
import { inspectDirectory, toRealPath } from './pglite/directory.ts';
import { lockDirectory } from './pglite/lock.ts';
import { openPglite } from './pglite/open.ts';
import { templatePath } from './pglite/template.ts';
import { openPostgres } from './postgres.ts';
import { SECRET_FILES } from './secret-files.ts';
import { draftIn, finishSwap, swap } from './swap.ts';
import { readTables } from './tables.ts';

export interface RestoreConfig {
  /** The backup. */
  file: string;
  /** Data directory. */
  directory: string;
  /** The server's database; absent: the embedded one. */
  url?: string | undefined;
  /** What is there is kept aside; only of an embedded database. */
  isReplacing?: boolean;
}

export interface Restored extends ArchiveContent {
  /** Where the old database is now. */
  aside: string | undefined;
}

/**
 * All of it, checked row by row against its hashes, or nothing. Throws `store.not_empty`, `store.locked`,
 * `store.backup_damaged`, `store.backup_newer`.
 */
export async function restoreArchive({ file, directory, url, isReplacing }: RestoreConfig): Promise<Restored> {
  const read = (sink: Parameters<typeof readArchiveFile>[1]) => readArchiveFile(file, sink);
  // What cannot be used is refused before anything is made.
  await read({ begin: (header) => Promise.resolve(assertKnown(header)) });
  makeDirectory(directory);
  if (url) {
    await using database = await openPostgres(url);
    const secrets: Record<string, string> = {};
    const sink = sinkInto(secrets, join(directory, 'files'));
    const content = await loadArchive(database, { read, sink, place: 'The database' });
    await writeSecrets(directory, secrets);
    return { ...content, aside: undefined };
  }
  const home = join(directory, 'db');
  if (!isReplacing) await assertEmpty(home);
  using _lock = lockDirectory(toRealPath(home));
  await finishSwap(directory);
  const draft = draftIn(directory);
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  try {
    const content = await loadDraft(draft, read);
    const aside = await swap(directory);
    return { ...content, aside };
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

type Read = (sink: Parameters<typeof readArchiveFile>[1]) => Promise<ArchiveContent>;

async function loadDraft(draft: string, read: Read): Promise<ArchiveContent> {
  await mkdir(join(draft, 'files'), { mode: 0o700 });
  await using database = await openPglite(join(draft, 'db'), { template: templatePath });
  const secrets: Record<string, string> = {};
  const sink = sinkInto(secrets, join(draft, 'files'));
  const content = await loadArchive(database, { read, sink, place: 'The new database', isDraft: true });
  await writeSecrets(draft, secrets);
  return content;
}

/** Secrets are gathered: they take effect with the rows, or not at all. */
function sinkInto(secrets: Record<string, string>, files: string) {
  const blobs = createBlobs(files);
  return {
    async file(owner: { tenant: string; owner: string }, id: string, source: AsyncIterable<Uint8Array>) {
      const kept = await blobs.write(owner, source);
      if (kept.id !== id) throw storeError('backup_damaged', `The file ${id.slice(0, 64)} is not what it was.`);
    },
    secrets: (found: Record<string, string>) => Promise.resolve(void Object.assign(secrets, found)),
  };
}

async function writeSecrets(directory: string, secrets: Record<string, string>): Promise<void> {
  for (const name of SECRET_FILES) {
    const text = secrets[name];
    if (text === undefined) continue;
    // Over one that others may read as well.
    await using draft = await openDraft(directory);
    await draft.write(Buffer.from(text));
    await draft.keepAs(join(directory, name));
  }
}

/** Throws `store.not_empty`, also where it cannot be read: there only --replace says that it may go. */
async function assertEmpty(home: string): Promise<void> {
  try {
    if (inspectDirectory(toRealPath(home)) === 'fresh') return;
    await using database = await openPglite(home);
    const filled = await firstFilled(database.kysely, await readTables(database.kysely));
    if (filled === undefined) return;
    throw storeError('not_empty', `${home} is not empty: it has rows in the table ${filled}.`);
  } catch (error) {
    if (error instanceof AgentError && error.code !== 'store.unreadable') throw error;
    throw storeError('not_empty', `${home} holds something that cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
