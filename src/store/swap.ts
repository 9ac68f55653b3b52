// A restored database takes the place of the one before it. Several renames, so they are made again after a crash among
// them: without that the next start would find no database, and make an empty one.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openDraft } from '../files/atomic.ts';
import { readyIn } from './open.ts';
import { toRealPath } from './pglite/directory.ts';
import { syncDirectory, syncTree } from './pglite/durable-fs.ts';
import { lockDirectory } from './pglite/lock.ts';
import { SECRET_FILES } from './secret-files.ts';

/** What is moved, where the draft has it. Links, backups and the lock stay where they are. */
const PARTS = ['db', 'files', ...SECRET_FILES];

/** Where the new ones are made, on the same file system. */
export const draftIn = (directory: string): string => dirname(readyIn(directory));

/** Moves what the draft holds into place; answers where the old now is, undefined where nothing was. Under the lock. */
export async function swap(directory: string): Promise<string | undefined> {
  const hadOne = PARTS.some((part) =>
    [draftIn(directory), directory].every((folder) => existsSync(join(folder, part))),
  );
  const aside = join(directory, `before-restore-${new Date().toISOString().replaceAll(/[:.]/g, '')}`);
  await syncTree(draftIn(directory));
  await using ready = await openDraft(draftIn(directory));
  await ready.write(Buffer.from(JSON.stringify({ aside })));
  await ready.keepAs(readyIn(directory));
  await finishSwap(directory);
  return hadOne ? aside : undefined;
}

/** The moves that are left of a swap; none where there was none. */
export async function finishSwap(directory: string, { isLocking = false } = {}): Promise<void> {
  using _lock = isLocking ? lockDirectory(toRealPath(join(directory, 'db'))) : undefined;
  if (!existsSync(readyIn(directory))) return;
  const { aside } = JSON.parse(readFileSync(readyIn(directory), 'utf8')) as { aside: string };
  for (const part of PARTS) {
    const [made, place] = [join(draftIn(directory), part), join(directory, part)];
    if (!existsSync(made)) continue;
    if (existsSync(place)) {
      mkdirSync(aside, { recursive: true, mode: 0o700 });
      renameSync(place, join(aside, part));
      syncDirectory(aside);
    }
    renameSync(made, place);
    syncDirectory(directory);
  }
  rmSync(draftIn(directory), { recursive: true, force: true });
}
