// How much room a folder takes on disk, counted in small steps while a command that is not trusted changes it.
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  opendirSync,
  statSync,
  type Stats,
} from 'node:fs';
import type { Slice } from './slice.ts';

/** Paths stay below the kernel's limit of 4,096 bytes: from here on they begin anew, at an open folder. */
const MAX_PATH = 2_000;
/** So deep, a folder is open while it is counted: to rename it does not hide it then. */
const HELD_LEVELS = 32;
const MAX_OPEN_FOLDERS = HELD_LEVELS + 64;
/** What is gone may have another name: its folder is listed so often, and so many are listed again. */
const MAX_ROUNDS = 3;
const MAX_LISTED_AGAIN = 200;
/** More names come in several parts, and a name that changes between two of them may be in none. */
const MAX_AT_ONCE = 100;
/** File systems tell the time of a change no more exactly. */
const CLOCK_MS = 10;
/** What a name costs besides what its file holds: 512 MB allow half a million files, be they empty. */
export const ENTRY_BYTES = 1_024;
/** Only names the inode: needs no right to read it. Missing in node's constants. */
const O_PATH = 0o10000000;
const AS_FOLDER = constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** What its owner needs to list a folder and to look at what is in it. */
const USABLE = 0o500;

interface Walk {
  bytes: number;
  device: number;
  openFolders: number;
  listedAgain: number;
  linked: Set<number>;
  slice: Slice;
  onMiss: () => void;
}

/**
 * Allocated bytes of all that is below a folder, and 1,024 for each name. Links are not followed, other file systems not
 * entered, what a file with several names holds counts once. Infinity where folders are nested beyond all reason. What
 * goes away meanwhile counts as nothing. About 8 microseconds a file.
 *
 * Folders of this user that it may not read are made readable; those of others count as empty. `onMiss` is called when the
 * result may be too low, since names went away that may be there under others; honest commands do that, too.
 */
export async function measureFolder(
  directory: string,
  options: { device: number; slice: Slice; onMiss?: () => void },
): Promise<number> {
  const walk: Walk = { bytes: 0, onMiss: () => {}, ...options, openFolders: 0, listedAgain: 0, linked: new Set() };
  // As latin1, names that are no UTF-8 stay what they are.
  await addFolder(Buffer.from(directory).toString('latin1'), walk);
  return walk.bytes;
}

/** Resolves to whether it was still there; with `inode`, whether it was that one. */
async function addFolder(path: string, walk: Walk, inode?: number): Promise<boolean> {
  if (walk.openFolders >= HELD_LEVELS && path.length <= MAX_PATH) return addEntries(path, walk);
  if (walk.openFolders === MAX_OPEN_FOLDERS) {
    walk.bytes = Number.POSITIVE_INFINITY;
    return true;
  }
  const file = openFolder(path);
  if (typeof file !== 'number') return file === 'foreign';
  walk.openFolders++;
  try {
    if (inode !== undefined && fstatSync(file).ino !== inode) return false;
    return await addEntries(`/proc/self/fd/${file}`, walk);
  } finally {
    walk.openFolders--;
    closeSync(file);
  }
}

function openFolder(path: string): number | 'foreign' | 'gone' {
  try {
    return openSync(toBytes(path), constants.O_RDONLY | AS_FOLDER);
  } catch (error) {
    return isForeign(error, path) ? 'foreign' : 'gone';
  }
}

/** Whether it was refused since the folder is another user's: no command of this user can have filled it. */
function isForeign(error: unknown, folder: string): boolean {
  if (!(error instanceof Error && 'code' in error && error.code === 'EACCES')) return false;
  try {
    return statSync(toBytes(folder)).uid !== process.geteuid?.();
  } catch {
    return false;
  }
}

/** Resolves to false when it was gone before it could be listed. */
async function addEntries(path: string, walk: Walk): Promise<boolean> {
  const counted = new Set<number | string>();
  for (let round = 1; ; round++) {
    const beganAt = Date.now();
    const names = await namesOf(path, walk);
    if (!names && round === 1) return false;
    const isSteady = !names || names.length <= MAX_AT_ONCE || !hasChanged(path, beganAt - CLOCK_MS);
    if (names && (await addNames(path, names, counted, walk)) && isSteady) return true;
    if (names && round < MAX_ROUNDS && walk.listedAgain++ < MAX_LISTED_AGAIN) continue;
    // One that is open cannot be gone but by being removed, and then it is empty.
    const isRemoved = !names && /^\/proc\/self\/fd\/\d+$/.test(path);
    if (!isRemoved) walk.onMiss();
    return true;
  }
}

function hasChanged(folder: string, sinceMs: number): boolean {
  try {
    return statSync(toBytes(folder)).ctimeMs >= sinceMs;
  } catch {
    return true;
  }
}

/** Resolves to whether all were still there. `counted` are those that need not be counted again: inodes, or names. */
async function addNames(path: string, names: string[], counted: Set<number | string>, walk: Walk): Promise<boolean> {
  const folders: { name: string; entry: Stats }[] = [];
  let areThere = true;
  for (const name of names) {
    // Checked first: a promise for each file would cost more than the look at it.
    const pause = walk.slice.pause();
    if (pause) await pause;
    const entry = lookAt(path, name);
    if (entry === 'gone') areThere = false;
    else if (entry === 'foreign' || entry.dev !== walk.device) continue;
    else if (entry.isDirectory()) folders.push({ name, entry });
    else addFile(name, entry, counted, walk);
  }
  for (const { name, entry } of folders) {
    if (counted.has(entry.ino)) continue;
    makeUsable(`${path}/${name}`, entry);
    if (await addFolder(`${path}/${name}`, walk, entry.ino)) {
      counted.add(entry.ino);
      walk.bytes += ENTRY_BYTES + entry.blocks * 512;
    } else areThere = false;
  }
  return areThere;
}

function addFile(name: string, entry: Stats, counted: Set<number | string>, walk: Walk): void {
  const key = entry.nlink > 1 ? name : entry.ino;
  if (counted.has(key)) return;
  counted.add(key);
  walk.bytes += ENTRY_BYTES;
  if (entry.nlink > 1) {
    if (walk.linked.has(entry.ino)) return;
    walk.linked.add(entry.ino);
  }
  walk.bytes += entry.blocks * 512;
}

/** Commands may run as the same user as this process, and then they can shut it out. */
function makeUsable(path: string, { mode, uid, ino }: Stats): void {
  if ((mode & USABLE) === USABLE || uid === 0 || uid !== process.geteuid?.()) return;
  try {
    const file = openSync(toBytes(path), O_PATH | AS_FOLDER);
    try {
      if (fstatSync(file).ino === ino) chmodSync(`/proc/self/fd/${file}`, (mode & 0o7777) | 0o700);
    } finally {
      closeSync(file);
    }
  } catch {
    // It is gone.
  }
}

/** The folder is closed before anything below it is opened. Undefined when it is gone. */
async function namesOf(path: string, walk: Walk): Promise<string[] | undefined> {
  const names: string[] = [];
  try {
    const folder = opendirSync(toBytes(path), { encoding: 'latin1', bufferSize: 256 });
    try {
      for (let entry = folder.readSync(); entry; entry = folder.readSync()) {
        names.push(entry.name);
        const pause = walk.slice.pause();
        if (pause) await pause;
      }
    } finally {
      folder.closeSync();
    }
  } catch (error) {
    return isForeign(error, path) ? names : undefined;
  }
  return names;
}

function lookAt(folder: string, name: string): Stats | 'foreign' | 'gone' {
  try {
    return lstatSync(toBytes(`${folder}/${name}`));
  } catch (error) {
    return isForeign(error, folder) ? 'foreign' : 'gone';
  }
}

const toBytes = (path: string) => Buffer.from(path, 'latin1');
