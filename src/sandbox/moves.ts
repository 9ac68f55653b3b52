// Moving and giving away folders in which commands were, when none runs any more: they may have left any names, modes and
// depths.
import { chmod, lchown, lstat, readFile, rename } from 'node:fs/promises';
import type { PathLike } from 'node:fs';
import { lchownSync, lstatSync } from 'node:fs';
import type { Folder } from '../files/open-beneath.ts';
import { createPace, namesIn, openFolder, toRoot } from '../files/open-beneath.ts';

/** False where `from` is not there, or something is at `to`. */
export async function moved(from: PathLike, to: PathLike): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code)) return false;
    // To be moved, a folder must be one that its owner may change.
    if ((code !== 'EACCES' && code !== 'EPERM') || !(await opened(from))) throw error;
  }
  await rename(from, to);
  return true;
}

/** False where it is no folder, or one that was open already. */
async function opened(folder: PathLike): Promise<boolean> {
  const found = await lstat(folder);
  if (!found.isDirectory() || (found.mode & 0o700) === 0o700) return false;
  await chmod(folder, (found.mode & 0o777) | 0o700);
  return true;
}

export const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

export const isFolder = (path: string): Promise<boolean> =>
  lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

/** Of our own files; undefined where there is none, or it cannot be read. */
export async function readJson<T>(path: string): Promise<Partial<T> | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Partial<T>;
  } catch {
    return undefined;
  }
}

interface User {
  uid: number;
  gid: number;
}

const DEEPEST = 200;

/**
 * All in a folder becomes a user's, where the folder itself is not yet. A file with several names may have one elsewhere,
 * and stays whose it is; so does what lies deeper than 200 folders.
 */
export async function giveTo(path: string, user: User): Promise<void> {
  const { uid, gid } = await lstat(path);
  if (uid === user.uid && gid === user.gid) return;
  using folder = openFolder(toRoot(path), []);
  await giveAll(folder, user, { depth: 0, pace: createPace() });
  await lchown(path, user.uid, user.gid);
}

async function giveAll(
  folder: Folder,
  user: User,
  { depth, pace }: { depth: number; pace: ReturnType<typeof createPace> },
): Promise<void> {
  for (const name of namesIn(folder, Number.POSITIVE_INFINITY)) {
    await pace();
    const found = lstatSync(folder.at(name));
    if (found.isDirectory() && depth < DEEPEST) {
      using inner = folder.enter(name);
      await giveAll(inner, user, { depth: depth + 1, pace });
    }
    if (found.nlink === 1 || found.isDirectory()) lchownSync(folder.at(name), user.uid, user.gid);
  }
}
