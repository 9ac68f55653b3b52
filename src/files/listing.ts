// What is in a folder while other processes change it.
import type { Stats } from 'node:fs';
import { lstatSync } from 'node:fs';
import type { Folder } from './open-beneath.ts';
import { MAX_DEPTH, codeOf, createPace, isChanged, namesIn } from './open-beneath.ts';

export interface Listing {
  /** `path` is below the folder, with `/`. Bytes that are no UTF-8 are shown as U+FFFD. */
  entries: { path: string; stat: Stats }[];
  isComplete: boolean;
}

interface ListingWalk {
  listing: Listing;
  isRecursive: boolean;
  limit: number;
  pace: () => Promise<void> | undefined;
}

/**
 * At most `limit` entries, each folder by name and before what is in it. Of a folder that has more, the file system chooses
 * which. What goes away meanwhile is left out; folders that are more than 64 levels deep or may not be read are not entered,
 * and `isComplete` is false.
 */
export async function listFolder(folder: Folder, options: { isRecursive: boolean; limit: number }): Promise<Listing> {
  const listing: Listing = { entries: [], isComplete: true };
  await addEntries(folder, { path: '', depth: 0 }, { listing, ...options, pace: createPace() });
  return listing;
}

async function addEntries(folder: Folder, place: { path: string; depth: number }, walk: ListingWalk): Promise<void> {
  const { listing, limit } = walk;
  const room = limit - listing.entries.length;
  const names = namesIn(folder, room + 1);
  if (names.length > room) listing.isComplete = false;
  const found = names.map((name) => ({ name, text: name.toString() }));
  for (const { name, text } of found.sort((a, b) => (a.text < b.text ? -1 : 1))) {
    if (listing.entries.length >= limit) {
      listing.isComplete = false;
      return;
    }
    await walk.pace();
    const stat = lstatSync(folder.at(name), { throwIfNoEntry: false });
    if (!stat) continue;
    const path = place.path + text;
    listing.entries.push({ path, stat });
    if (!walk.isRecursive || !stat.isDirectory()) continue;
    if (place.depth === MAX_DEPTH) listing.isComplete = false;
    else await addInner(folder, name, { place: { path: `${path}/`, depth: place.depth + 1 }, walk });
  }
}

async function addInner(
  folder: Folder,
  name: Buffer,
  { place, walk }: { place: { path: string; depth: number }; walk: ListingWalk },
): Promise<void> {
  try {
    using inner = folder.enter(name);
    await addEntries(inner, place, walk);
  } catch (error) {
    if (codeOf(error) === 'EACCES') walk.listing.isComplete = false;
    else if (!isChanged(error)) throw error;
  }
}
