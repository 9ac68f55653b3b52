// The files of a conversation while a run has them: which folder that is, whatever its commands rename, and what of it this
// conversation has read.
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { moved } from './moves.ts';

export interface Workspace {
  /** The folder as it was when it was taken: a path that stays true whatever a command renames. */
  root: string;
  /** See `Sandbox.seen`. */
  seen: Map<string, string>;
  /** Brings the files back, and removes the slot. */
  release(): Promise<void>;
}

export interface Taken {
  /** The folder in its slot. */
  ws: string;
  /** A place in the slot for what is left of it, should a command have put something else there. */
  kept: string;
  seenFile: string;
  bringBack(from: string): Promise<void>;
  /** Each of these ends the slot: files that are still in it go back; or nothing in it is wanted; or all of it is kept for people. */
  removeSlot(): Promise<void>;
  discardSlot(): Promise<void>;
  loseSlot(): Promise<void>;
}

export async function openWorkspace(taken: Taken): Promise<Workspace> {
  const { ws, kept, seenFile } = taken;
  const isLinux = process.platform === 'linux';
  const handle = await open(ws, isLinux ? O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW : 'r');
  const { ino } = await handle.stat();
  const root = isLinux ? `/proc/self/fd/${handle.fd}` : ws;
  const seen = await readSeen(seenFile);
  return {
    root,
    seen,
    async release() {
      let endSlot = taken.loseSlot;
      try {
        const found = await lstat(ws).catch(() => undefined);
        const isThere = found?.isDirectory() && found.ino === ino;
        // A command may have closed it; by its descriptor, as a link may have its name.
        if (!isThere) await (isLinux ? chmod(root, 0o700) : handle.chmod(0o700));
        const from = isThere ? ws : await gather(root, kept);
        endSlot = taken.removeSlot;
        await taken.bringBack(from);
        // What has the name of the folder now is something that a command put there.
        endSlot = taken.discardSlot;
        await writeFile(seenFile, JSON.stringify(Object.fromEntries(seen))).catch(ignoreMissing);
      } finally {
        await handle.close();
        await endSlot();
      }
    },
  };
}

/** Names the folder, whatever its mode; missing in node's constants, and the same on all platforms that node has. */
const O_PATH = 0o10000000;

/** The folder itself has another name now, or none. */
async function gather(root: string, kept: string): Promise<string> {
  await mkdir(kept, { mode: 0o700 });
  for (const name of await readdir(root, { encoding: 'buffer' })) {
    const at = (folder: string) => Buffer.concat([Buffer.from(`${folder}/`), name]);
    await moved(at(root), at(kept));
  }
  return kept;
}

/** What cannot be read is read anew by the model: the file only spares it that. */
async function readSeen(path: string): Promise<Map<string, string>> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    const entries = Object.entries(typeof value === 'object' && value !== null ? value : {});
    return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
  } catch {
    return new Map();
  }
}

/** A conversation that was deleted meanwhile. */
function ignoreMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}
