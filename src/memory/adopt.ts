// At a start: conversations that are in the workspace and not in the record come into it, and files that are not what the
// record says are written anew.
import { rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as pause } from 'node:timers/promises';
import type { ConversationKey, EntryBody, Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { Known, TranscriptStore } from '../store/transcripts.ts';
import { isAsLeft, load, setAside } from './transcript-file.ts';
import type { TranscriptFolders } from './transcript-folders.ts';
import { list } from './transcript-folders.ts';
import type { Transcript } from './transcript-format.ts';
import { parseLongTranscript } from './transcript-format.ts';
import { decodeName, stemOf, toTranscriptName } from './transcript-names.ts';

export interface Workspace {
  store: TranscriptStore;
  folders: TranscriptFolders;
  /** Its id, for marks. */
  id: string;
  log: Log;
  /** Told of every file that is to be compared with the record. */
  hint: (key: ConversationKey) => void;
}

/** Files that are looked at without a pause, and names that are asked for in one statement. */
const AT_ONCE = 200;
const PAGE = 1000;

/** Larger ones are no conversations: they would not fit into a string. */
const MAX_BYTES = 400_000_000;

/** Unknown files come into the record. A folder or a file that cannot be read fails nothing else. */
export async function adoptAll(workspace: Workspace): Promise<void> {
  let places: Place[] = [];
  for await (const place of filesIn(workspace)) {
    places.push(place);
    if (places.length < PAGE) continue;
    await adoptUnknown(workspace, places);
    places = [];
  }
  await adoptUnknown(workspace, places);
}

/** Every file that has the name of a conversation, with its owner. */
async function* filesIn({ store, folders, log }: Workspace): AsyncGenerator<Place> {
  let byFolder: Map<string, Owner> | undefined;
  const warn = (error: unknown, folder: string) => {
    const message = `The readable conversations in ${folder} were not looked through: ${messageOf(error)}`;
    log.warn({ err: error, code: 'transcript.not_adopted', file: folder }, message);
  };
  for await (const { folder, owner: named } of folders.find(warn)) {
    try {
      const names = (await list(folder)).filter((entry) => entry.isFile()).map(({ name }) => name);
      const found = names.filter((name) => stemOf(name) !== undefined);
      if (!found.length) continue;
      // Names that were cut tell nothing: only the record knows whose they are.
      if (!named) byFolder ??= new Map((await store.owners()).map((owner) => [folders.folderOf(owner), owner]));
      const owner = named ?? byFolder?.get(folder);
      if (owner) for (const name of found) yield { owner, folder, name };
    } catch (error) {
      warn(error, folder);
    }
  }
}

async function adoptUnknown(workspace: Workspace, places: readonly Place[]): Promise<void> {
  for (const place of await unknownOf(workspace.store, places)) {
    const path = join(place.folder, place.name);
    try {
      await adoptFile(workspace, place);
    } catch (error) {
      const message = `The readable conversation ${path} was not taken in: ${messageOf(error)}`;
      workspace.log.warn({ err: error, code: 'transcript.not_adopted', file: path }, message);
    }
  }
}

/** Those of whose names there is no conversation. */
async function unknownOf(store: TranscriptStore, places: readonly Place[]): Promise<Place[]> {
  const nameIn = (folder: string, file: string) => join(folder, file.normalize('NFC'));
  const unknown = new Map(places.map((place) => [nameIn(place.folder, place.name), place]));
  const keys = new Map<ConversationKey, Place>();
  const cut = new Map<string, Owner>();
  for (const place of places) {
    const conversation = decodeName(stemOf(place.name) ?? '');
    if (conversation === undefined) cut.set(place.folder, place.owner);
    else keys.set({ ...place.owner, conversation }, place);
  }
  for (const key of keys.size ? await store.present([...keys.keys()]) : []) {
    const { folder, name } = keys.get(key)!;
    unknown.delete(nameIn(folder, name));
  }
  for (const [folder, owner] of cut) {
    for (const id of await store.known(owner)) unknown.delete(nameIn(folder, toTranscriptName(id).file));
  }
  return [...unknown.values()];
}

/** Hints at every conversation whose file is not as it was left, or is behind the record. */
export async function compareAll(workspace: Workspace, signal: AbortSignal): Promise<void> {
  const { store, folders, log, hint } = workspace;
  const unseen = new Set<string>();
  let last: ConversationKey | undefined;
  for (;;) {
    const page = await store.page(last, PAGE);
    for (const [i, known] of page.entries()) {
      if (signal.aborted) return;
      const folder = folders.folderOf(known.key);
      try {
        if (!unseen.has(folder) && !isCurrent(workspace, known)) hint(known.key);
      } catch (error) {
        // Whoever writes there next tells of it, too, and tries again.
        unseen.add(folder);
        const message = `The readable conversations in ${folder} were not compared: ${messageOf(error)}`;
        log.warn({ err: error, code: 'transcript.not_compared', file: folder }, message);
      }
      if (i % AT_ONCE === AT_ONCE - 1) await pause();
    }
    last = page.at(-1)?.key;
    if (page.length < PAGE) return;
  }
}

/** In another workspace than the mark's, a file of that length holds the same entries, and was written at another time. */
function isCurrent({ folders, id }: Workspace, { key, version, mark }: Known): boolean {
  if (mark.seq !== version || mark.mtime === null) return false;
  return isAsLeft(folders.pathOf(key), mark.at === id ? mark : { ...mark, mtime: null });
}

interface Place {
  owner: Owner;
  folder: string;
  name: string;
}

async function adoptFile({ store, log, hint }: Workspace, { owner, folder, name }: Place): Promise<void> {
  const path = join(folder, name);
  const changed = await stat(path);
  const at = new Date(Math.floor(changed.mtimeMs / 1000) * 1000).toISOString();
  const read = changed.size > MAX_BYTES ? { problem: 'It is too large.' } : await readTranscript(path);
  const id = 'problem' in read ? undefined : idOf(name, read.front.id);
  if ('problem' in read || id === undefined || !read.entries.length) {
    const problem =
      'problem' in read ? read.problem : id === undefined ? 'It does not tell its id.' : 'It says nothing.';
    const target = await setAside(path, { folder: 'broken' });
    const message = `The readable conversation ${path} cannot be read: ${problem} It was moved to ${target}.`;
    return log.warn({ code: 'transcript.broken', file: path, kept: target }, message);
  }
  const key = { ...owner, conversation: id };
  const { createdAt = at, updatedAt = createdAt } = read.front;
  if (await store.isDeleted(key, createdAt)) {
    const target = await setAside(path, { folder: 'deleted' });
    const message = `The conversation of ${path} was deleted here and is not brought back. It was moved to ${target}; under another name it is taken in.`;
    return log.warn({ code: 'transcript.deleted', file: path, kept: target }, message);
  }
  const { file } = toTranscriptName(id);
  if (file !== name.normalize('NFC')) {
    if ((await load(join(folder, file))) !== undefined) throw new TypeError(`there is a file ${file} of the same id.`);
    await rename(path, join(folder, file));
  }
  if (await store.adopt({ key, createdAt, updatedAt, entries: read.entries })) hint(key);
}

/** A name that was not made here is an id itself. */
function idOf(name: string, told: string | undefined): string | undefined {
  const stem = stemOf(name)!;
  if (told !== undefined && toTranscriptName(told).file === name.normalize('NFC')) return told;
  const id = decodeName(stem);
  if (id !== undefined) return id;
  return stem !== '' && stem.length <= 200 && !/[%~]/.test(stem) ? stem : undefined;
}

interface Read extends Transcript {
  entries: EntryBody[];
}

/** Without its last item, where the file was cut in it: so was it copied while it was written. */
async function readTranscript(path: string): Promise<Read | { problem: string }> {
  const text = (await load(path))?.toString() ?? '';
  try {
    return await parseLongTranscript(text, pause);
  } catch (error) {
    const last = text.lastIndexOf('\n- ');
    const problem = messageOf(error);
    if (last < 0) return { problem };
    try {
      return await parseLongTranscript(text.slice(0, last + 1), pause);
    } catch {
      return { problem };
    }
  }
}
