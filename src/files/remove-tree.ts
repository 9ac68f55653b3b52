import { basename, dirname } from 'node:path';
import { openFolder, removeEntry, toRoot } from './open-beneath.ts';

/** Removes a file, or a folder with all that is in it, whatever its depth and its modes. Links are not followed. */
export async function removeTree(path: string): Promise<void> {
  using folder = openFolder(toRoot(dirname(path)), []);
  await removeEntry(folder, basename(path));
}
