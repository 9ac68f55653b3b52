// Where the files of conversations lie, and the slots in which commands see them:
//   conversations/<name>/{conversation.json, seen.json, files/}     slots/<id>/{owner.json, box/{ws, tmp}}
// A run takes its conversation's `files` into its slot by one rename, which is the lock, too, and brings it back.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import {
  chown,
  lchown,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../files/remove-tree.ts';
import type { ConversationKey, Owner } from '../kernel/index.ts';
import { sandboxError } from './errors.ts';
import type { Slot } from './sandbox.ts';
import type { ServerProcess } from './server-process.ts';
import { commandUser, isAlive, thisServer } from './server-process.ts';

export interface Workspace {
  /** The folder as it was when it was taken: a path that stays true whatever a command renames. */
  root: string;
  seen: Map<string, string>;
  /** Brings the files back, and removes the slot. */
  release(): Promise<void>;
}

export interface Folders {
  /** Whose the files are, where not the server's. */
  readonly user?: { uid: number; gid: number };
  /** An empty slot: `tmp` is there, `ws` is not. */
  makeSlot(): Promise<Slot>;
  /** Takes the files of a conversation into the slot; undefined while another run has them. */
  take(slot: Slot, key: ConversationKey): Promise<Workspace | undefined>;
  removeSlot(slot: Slot): Promise<void>;
  /** Where the files of a conversation are now: nowhere yet, with a run, or in this folder. */
  find(key: ConversationKey): Promise<'nowhere' | 'taken' | { root: string }>;
  make(key: ConversationKey): Promise<void>;
  remove(key: ConversationKey): Promise<void>;
  removeAll(owner: Owner): Promise<void>;
  /** Brings back what servers that are no more had in their slots. Resolves to how many. */
  reap(): Promise<number>;
  /** Tells other machines, every `BEAT_MS`, that the slots of this server are in use. */
  beat(): Promise<void>;
}

interface OwnerFile extends ServerProcess {
  /** Whose files are in the slot: the name of their folder. */
  conversation?: string;
}

export const BEAT_MS = 15_000;
const SILENT_MS = 4 * BEAT_MS;

/** `isAlone`: no other server uses this folder, so whatever is in a slot now is left over. */
export async function createFolders(root: string, options: { hasUser: boolean; isAlone: boolean }): Promise<Folders> {
  const slots = join(root, 'slots');
  const conversations = join(root, 'conversations');
  const trash = join(root, 'trash');
  /** Files of which nobody knows whose they are. */
  const lost = join(root, 'lost');
  const user = options.hasUser && process.getuid?.() === 0 ? commandUser : undefined;
  const self = thisServer();
  const mine = new Set<string>();
  for (const folder of [root, slots, conversations, trash, lost]) await mkdir(folder, { recursive: true, mode: 0o700 });

  const boxOf = (id: string) => join(slots, id, 'box');
  const folderOf = (key: ConversationKey) => join(conversations, nameOf(key));

  async function writeOwner(id: string, conversation?: string): Promise<void> {
    const owner: OwnerFile = { ...self, ...(conversation !== undefined && { conversation }) };
    const draft = join(trash, crypto.randomUUID());
    await writeFile(draft, JSON.stringify(owner), { mode: 0o600 });
    await rename(draft, join(slots, id, 'owner.json'));
  }

  async function discard(path: string): Promise<void> {
    const aside = join(trash, crypto.randomUUID());
    if (await moved(path, aside)) await removeTree(aside);
  }

  /** Built aside and moved there, so that a conversation's folder without `files` is one that a run has. */
  async function makeFolder(key: ConversationKey): Promise<void> {
    const { tenant, owner, conversation } = key;
    const draft = join(trash, crypto.randomUUID());
    await mkdir(join(draft, 'files'), { recursive: true, mode: 0o700 });
    if (user) await chown(join(draft, 'files'), user.uid, user.gid);
    await writeFile(join(draft, 'conversation.json'), JSON.stringify({ tenant, owner, conversation }));
    if (!(await moved(draft, folderOf(key)))) await removeTree(draft);
  }

  /** Back to the conversation; `from` is the folder itself, or one that holds what is left of it. */
  async function bringBack(name: string, from: string): Promise<void> {
    const place = join(conversations, name);
    if (!(await exists(place))) return await discard(from);
    if (!(await moved(from, join(place, 'files'))))
      throw sandboxError('failed', `${from} cannot be moved back to ${place}.`);
  }

  async function reapSlot(id: string): Promise<boolean> {
    if (mine.has(id)) return false;
    const owner = await readJson<OwnerFile>(join(slots, id, 'owner.json'));
    if (!options.isAlone && (await isInUse(join(slots, id), owner))) return false;
    const ws = join(boxOf(id), 'ws');
    if (await isFolder(ws)) await (owner?.conversation ? bringBack(owner.conversation, ws) : moved(ws, join(lost, id)));
    await discard(join(slots, id));
    return true;
  }

  /** By a server of this machine that lives, or by one of another machine that was heard of lately. */
  async function isInUse(folder: string, owner: Partial<OwnerFile> | undefined): Promise<boolean> {
    const known = owner && isAlive({ host: '', pid: 0, started: '', ...owner });
    if (known !== undefined) return known;
    const found = await stat(owner ? join(folder, 'owner.json') : folder).catch(() => undefined);
    return found !== undefined && Date.now() - found.mtimeMs < SILENT_MS;
  }

  async function reap(): Promise<number> {
    let reaped = 0;
    for (const id of await readdir(slots)) if (await reapSlot(id)) reaped++;
    for (const name of await readdir(trash)) {
      const { mtimeMs } = await stat(join(trash, name)).catch(() => ({ mtimeMs: Date.now() }));
      if (Date.now() - mtimeMs > 3_600_000) await removeTree(join(trash, name));
    }
    return reaped;
  }

  async function removeSlot({ id }: Slot): Promise<void> {
    await discard(join(slots, id));
    mine.delete(id);
  }

  return {
    ...(user && { user }),
    reap,
    async makeSlot() {
      const id = crypto.randomUUID().slice(0, 13);
      mine.add(id);
      const directory = boxOf(id);
      // Only what is in it belongs to the user of commands: they cannot put anything else in the place of `ws`.
      await mkdir(join(directory, 'tmp'), { recursive: true, mode: 0o755 });
      await writeOwner(id);
      if (user) await chown(join(directory, 'tmp'), user.uid, user.gid);
      return { id, directory, ...(user && { user }) };
    },
    async take(slot, key) {
      const place = folderOf(key);
      const ws = join(slot.directory, 'ws');
      await writeOwner(slot.id, nameOf(key));
      if (!(await exists(place))) await makeFolder(key);
      if (!(await moved(join(place, 'files'), ws))) {
        // The run that has it may be one of a server that died, here or on another machine.
        await reap();
        if (!(await moved(join(place, 'files'), ws))) return undefined;
      }
      await giveTo(ws, user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
      return await openWorkspace({
        ws,
        seenFile: join(place, 'seen.json'),
        bringBack: (from) => bringBack(nameOf(key), from),
        removeSlot: () => removeSlot(slot),
        draft: () => join(trash, crypto.randomUUID()),
      });
    },
    removeSlot,
    async beat() {
      const now = new Date();
      for (const id of mine) await utimes(join(slots, id, 'owner.json'), now, now).catch(ignoreMissing);
    },
    async find(key) {
      const files = join(folderOf(key), 'files');
      if (await isFolder(files)) return { root: files };
      return (await exists(folderOf(key))) ? 'taken' : 'nowhere';
    },
    make: makeFolder,
    remove: (key) => discard(folderOf(key)),
    async removeAll({ tenant, owner }) {
      for (const name of await readdir(conversations)) {
        const key = await readJson<ConversationKey>(join(conversations, name, 'conversation.json'));
        if (key?.tenant === tenant && key.owner === owner) await discard(join(conversations, name));
      }
    },
  };
}

interface Taken {
  ws: string;
  seenFile: string;
  bringBack(from: string): Promise<void>;
  removeSlot(): Promise<void>;
  draft(): string;
}

async function openWorkspace({ ws, seenFile, bringBack, removeSlot, draft }: Taken): Promise<Workspace> {
  // A command may rename what it can reach; the descriptor stays with the folder.
  const isLinux = process.platform === 'linux';
  const handle = await open(ws, isLinux ? constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW : 'r');
  const { ino } = await handle.stat();
  const root = isLinux ? `/proc/self/fd/${handle.fd}` : ws;
  const seen = new Map(Object.entries(await readSeen(seenFile)));
  return {
    root,
    seen,
    async release() {
      const found = await lstat(ws).catch(() => undefined);
      if (found?.isDirectory() && found.ino === ino) {
        await bringBack(ws);
      } else {
        const kept = draft();
        await mkdir(kept, { mode: 0o700 });
        for (const name of await readdir(root)) await rename(join(root, name), join(kept, name));
        await bringBack(kept);
      }
      await writeFile(seenFile, JSON.stringify(Object.fromEntries(seen))).catch(ignoreMissing);
      await handle.close();
      await removeSlot();
    },
  };
}

/** What is not to be read is read anew by the model: the file only spares it that. */
async function readSeen(path: string): Promise<Record<string, string>> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    const entries = Object.entries(typeof value === 'object' && value !== null ? value : {});
    return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
  } catch {
    return {};
  }
}

/** Its beginning for people, its hash for us. */
function nameOf({ tenant, owner, conversation }: ConversationKey): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([tenant, owner, conversation]))
    .digest('hex');
  const readable = conversation.replace(/[^A-Za-z0-9_-]+/g, '-').slice(0, 40);
  return `${readable}-${hash.slice(0, 24)}`;
}

/** Of our own files; undefined where there is none, or it was cut by a crash. */
async function readJson<T>(path: string): Promise<Partial<T> | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Partial<T>;
  } catch {
    return undefined;
  }
}

/** Nothing runs in it now. A file with several names may have one elsewhere, and stays whose it is. */
async function giveTo(folder: string, user: { uid: number; gid: number }): Promise<void> {
  const { uid, gid } = await lstat(folder);
  if (uid === user.uid && gid === user.gid) return;
  await lchown(folder, user.uid, user.gid);
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const { nlink } = await lstat(path);
    if (nlink === 1 || entry.isDirectory()) await lchown(path, user.uid, user.gid);
  }
}

/** False where `from` is not there, or something is at `to`. */
async function moved(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code)) return false;
    throw error;
  }
}

const exists = (path: string) =>
  lstat(path).then(
    () => true,
    () => false,
  );
const isFolder = (path: string) =>
  lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

function ignoreMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}
