// Where the files of conversations lie, and the slots in which commands see them:
//   conversations/<name>/{conversation.json, seen.json, files/}     slots/<id>/{owner.json, box/{ws, tmp}}
// A run takes its conversation's `files` into its slot by one rename, which is the lock, too, and brings it back.
import { createHash } from 'node:crypto';
import { chmod, chown, mkdir, readdir, rename, stat, utimes, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { removeTree } from '../files/remove-tree.ts';
import type { ConversationKey, Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import { exists, giveTo, isFolder, moved, readJson } from './moves.ts';
import type { Slot } from './sandbox.ts';
import type { ServerProcess } from './server-process.ts';
import { commandUser, isAlive, thisServer } from './server-process.ts';
import type { Workspace } from './workspace.ts';
import { openWorkspace } from './workspace.ts';

export interface Folders {
  /** Whose the files are, where not the server's. */
  readonly user?: { uid: number; gid: number };
  /** An empty slot: `tmp` is there, `ws` is not. */
  makeSlot(): Promise<Slot>;
  /** Takes the files of a conversation into the slot; undefined while another run has them. */
  take(slot: Slot, key: ConversationKey): Promise<Workspace | undefined>;
  /** Files that are still in it go back first. */
  removeSlot(slot: Slot): Promise<void>;
  /** Where the files of a conversation are now: nowhere yet, with a run, or in this folder. */
  find(key: ConversationKey): Promise<'nowhere' | 'taken' | { root: string }>;
  make(key: ConversationKey): Promise<void>;
  /** Files that a run has go when it ends. */
  remove(key: ConversationKey): Promise<void>;
  removeAll(owner: Owner): Promise<void>;
  /** Removes folders that are older than `before` and of conversations that are not known. Resolves to how many. */
  sweep(before: Date, isKnown: (key: ConversationKey) => Promise<boolean>): Promise<number>;
  /** Brings back what servers that are no more had in their slots. Resolves to how many; what fails is logged. */
  reap(): Promise<number>;
  /** Tells other machines, every `BEAT_MS`, that the slots of this server are in use. */
  beat(): Promise<void>;
}

export interface FoldersConfig {
  /** Commands run as a user of their own, where the server is root. */
  hasUser: boolean;
  /** No other server uses this folder, so whatever is in a slot of somebody else is left over. */
  isAlone: boolean;
  /** Ends what servers that are no more left running over their slots; where it rejects, their files stay there. */
  endLeft?(): Promise<unknown>;
  log: Log;
}

/** `conversation.json`. */
interface FolderFile extends ConversationKey {
  /** Tells it from a later one of the same name. */
  id: string;
}

type FolderName = Pick<FolderFile, 'id'> & { name: string };

/** `owner.json` of a slot. */
interface OwnerFile extends ServerProcess {
  /** Whose files are in it. */
  folder?: FolderName;
}

export const BEAT_MS = 15_000;
const SILENT_MS = 4 * BEAT_MS;
const OLD_TRASH_MS = 3_600_000;

export async function createFolders(directory: string, config: FoldersConfig): Promise<Folders> {
  const { hasUser, isAlone, log } = config;
  const root = resolve(directory);
  const [slots, conversations, trash] = ['slots', 'conversations', 'trash'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  /** Files of which nobody knows where they belong. */
  const lost = join(root, 'lost');
  const user = hasUser && process.getuid?.() === 0 ? commandUser : undefined;
  const own = user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const mine = new Set<string>();
  for (const folder of [root, slots, conversations, trash, lost]) await mkdir(folder, { recursive: true, mode: 0o700 });

  const boxOf = (id: string) => join(slots, id, 'box');
  const draft = () => join(trash, crypto.randomUUID());
  const readFolder = (name: string) => readJson<FolderFile>(join(conversations, name, 'conversation.json'));
  const readOwner = (id: string) => readJson<OwnerFile>(join(slots, id, 'owner.json'));

  function warn(what: string, error: unknown): void {
    log.warn({ err: error }, `${what}: ${messageOf(error)}`);
  }

  async function writeOwner(id: string, folder?: FolderName): Promise<void> {
    const owner: OwnerFile = { ...thisServer(), ...(folder && { folder }) };
    const written = draft();
    await writeFile(written, JSON.stringify(owner), { mode: 0o600 });
    await rename(written, join(slots, id, 'owner.json'));
  }

  async function discard(path: string): Promise<void> {
    const aside = draft();
    if (await moved(path, aside)) await removeTree(aside);
  }

  /** Built aside and moved there, so that a conversation's folder without `files` is one that a run has. */
  async function make(key: ConversationKey): Promise<void> {
    const { tenant, owner, conversation } = key;
    const made = draft();
    await mkdir(join(made, 'files'), { recursive: true, mode: 0o700 });
    if (user) await chown(join(made, 'files'), user.uid, user.gid);
    const file: FolderFile = { id: crypto.randomUUID(), tenant, owner, conversation };
    await writeFile(join(made, 'conversation.json'), JSON.stringify(file), { mode: 0o600 });
    if (!(await moved(made, join(conversations, nameOf(key))))) await removeTree(made);
  }

  /** And perhaps made anew. */
  async function isDeleted({ name, id }: FolderName): Promise<boolean> {
    const found = await readFolder(name);
    return !(await exists(join(conversations, name))) || (found?.id !== undefined && found.id !== id);
  }

  async function bringBack(folder: FolderName, from: string): Promise<void> {
    const { name } = folder;
    if (await isDeleted(folder)) return await discard(from);
    if ((await readFolder(name)) && (await moved(from, join(conversations, name, 'files')))) return;
    // Of two who bring it back, one is quicker.
    if (await exists(from)) await lose(from, name);
  }

  async function lose(from: string, name: string): Promise<void> {
    const to = join(lost, `${name}-${crypto.randomUUID().slice(0, 8)}`);
    if (await moved(from, to)) log.warn({}, `Files that could not be brought back to their conversation are in ${to}.`);
  }

  async function emptySlot(id: string): Promise<void> {
    const folder = (await readOwner(id))?.folder;
    for (const from of [join(boxOf(id), 'ws'), join(slots, id, 'kept')]) {
      if (!(await isFolder(from))) continue;
      await (folder ? bringBack(folder, from) : lose(from, `slot-${id}`));
    }
    await discard(join(slots, id));
  }

  /** By a server of this machine that lives, or by one of another machine that was heard of lately. */
  async function isInUse(id: string): Promise<boolean> {
    if (mine.has(id)) return true;
    if (isAlone) return false;
    const owner = await readOwner(id);
    const known = owner && isAlive({ host: '', pid: 0, started: '', ...owner });
    if (known !== undefined) return known;
    const beaten = await stat(join(slots, id, owner ? 'owner.json' : '')).catch(() => undefined);
    return beaten !== undefined && Date.now() - beaten.mtimeMs < SILENT_MS;
  }

  /** The slots of servers that are no more, when nothing runs over them any longer. */
  async function findLeft(): Promise<string[]> {
    const left: string[] = [];
    for (const id of await readdir(slots)) if (!(await isInUse(id))) left.push(id);
    if (!left.length) return [];
    try {
      await config.endLeft?.();
      return left;
    } catch (error) {
      warn('What a server left running could not be ended, so the files in its slots stay there', error);
      return [];
    }
  }

  async function reap(): Promise<number> {
    let reaped = 0;
    for (const id of await findLeft()) {
      try {
        await emptySlot(id);
        reaped++;
      } catch (error) {
        warn(`What a server left in the slot ${id} could not be brought back`, error);
      }
    }
    for (const name of await readdir(trash)) {
      try {
        const { mtimeMs } = await stat(join(trash, name));
        if (Date.now() - mtimeMs > OLD_TRASH_MS) await removeTree(join(trash, name));
      } catch (error) {
        // Another server removes it.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
          warn(`${join(trash, name)} could not be removed`, error);
      }
    }
    return reaped;
  }

  /** Some other slot says that it has the files. */
  async function isHeld(name: string, slot: Slot): Promise<boolean> {
    for (const id of await readdir(slots)) {
      if (id !== slot.id && (await readOwner(id))?.folder?.name === name) return true;
    }
    return false;
  }

  /** False while another run has them. */
  async function moveIn(slot: Slot, name: string): Promise<boolean> {
    const [files, ws] = [join(conversations, name, 'files'), join(slot.directory, 'ws')];
    if (await moved(files, ws)) return true;
    // The run that has them may be one of a server that died, here or on another machine.
    await reap();
    if (await moved(files, ws)) return true;
    if (await isHeld(name, slot)) return false;
    // A crash lost them. Not with the folder they belong in, which may have been deleted: the next try makes that.
    try {
      await mkdir(files, { mode: 0o700 });
      if (user) await chown(files, user.uid, user.gid);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'EEXIST') throw error;
    }
    return await moved(files, ws);
  }

  async function removeSlot({ id }: Slot): Promise<void> {
    await emptySlot(id);
    mine.delete(id);
  }

  async function each(work: (name: string, key: ConversationKey) => Promise<boolean>): Promise<number> {
    let removed = 0;
    for (const name of await readdir(conversations)) {
      const { tenant, owner, conversation } = (await readFolder(name)) ?? {};
      if (tenant === undefined || owner === undefined || conversation === undefined) continue;
      if (!(await work(name, { tenant, owner, conversation }))) continue;
      await discard(join(conversations, name));
      removed++;
    }
    return removed;
  }

  return {
    ...(user && { user }),
    reap,
    make,
    removeSlot,
    async makeSlot() {
      const id = crypto.randomUUID().slice(0, 13);
      mine.add(id);
      const directory = boxOf(id);
      // Only what is in it belongs to the user of commands: they cannot put anything else in the place of `ws`.
      await mkdir(join(directory, 'tmp'), { recursive: true });
      // Whatever the umask is: commands must get through it.
      await chmod(directory, 0o755);
      await writeOwner(id);
      if (user) await chown(join(directory, 'tmp'), user.uid, user.gid);
      return { id, directory, ...(user && { user }) };
    },
    async take(slot, key) {
      const name = nameOf(key);
      const place = join(conversations, name);
      if (!(await exists(place))) await make(key);
      const folder = { name, id: (await readFolder(name))?.id ?? '' };
      await writeOwner(slot.id, folder);
      if (!(await moveIn(slot, name))) {
        await writeOwner(slot.id);
        return undefined;
      }
      const ws = join(slot.directory, 'ws');
      // Should this fail, `removeSlot` brings them back.
      await giveTo(ws, own);
      return await openWorkspace({
        ws,
        kept: join(slots, slot.id, 'kept'),
        seenFile: join(place, 'seen.json'),
        bringBack: (from) => bringBack(folder, from),
        removeSlot: () => removeSlot(slot),
        async discardSlot() {
          await discard(join(slots, slot.id));
          mine.delete(slot.id);
        },
        async loseSlot() {
          if (await isDeleted(folder)) await discard(join(slots, slot.id));
          else await lose(join(slots, slot.id), name);
          mine.delete(slot.id);
        },
      });
    },
    async beat() {
      const now = new Date();
      for (const id of mine) await utimes(join(slots, id, 'owner.json'), now, now).catch(() => undefined); // gone just now
    },
    async find(key) {
      const files = join(conversations, nameOf(key), 'files');
      if (await isFolder(files)) return { root: files };
      return (await exists(join(conversations, nameOf(key)))) ? 'taken' : 'nowhere';
    },
    remove: (key) => discard(join(conversations, nameOf(key))),
    async removeAll(owned) {
      await each((_, { tenant, owner }) => Promise.resolve(tenant === owned.tenant && owner === owned.owner));
    },
    sweep: (before, isKnown) =>
      each(async (name, key) => {
        const { mtime } = await stat(join(conversations, name));
        return mtime < before && !(await isKnown(key));
      }),
  };
}

/** Its beginning for people, its hash for us. */
function nameOf({ tenant, owner, conversation }: ConversationKey): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([tenant, owner, conversation]))
    .digest('hex');
  const readable = conversation.replace(/[^A-Za-z0-9_-]+/g, '-').slice(0, 40);
  return `${readable}-${hash.slice(0, 24)}`;
}
