// At a start: conversations that are in the workspace and not in the record come into it, and files that are not what the
// record says are written anew.
import { lstatSync } from 'node:fs';
import { rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as pause } from 'node:timers/promises';
import type { ConversationKey, EntryBody, Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { Known, TranscriptStore } from '../store/transcripts.ts';
import { load, setAside } from './transcript-file.ts';
import type { TranscriptFolders } from './transcript-folders.ts';
import { list } from './transcript-folders.ts';
import type { Transcript } from './transcript-format.ts';
import { parseTranscript } from './transcript-format.ts';
import { decodeName, stemOf, toTranscriptName } from './transcript-names.ts';

export interface Workspace {
  store: TranscriptStore;
  folders: TranscriptFolders;
  log: Log;
  /** Told of every file that is to be compared with the record. */
  hint: (key: ConversationKey) => void;
}

/** Looked at without a pause. */
const AT_ONCE = 200;

/** Larger ones are no conversations: they would not fit into a string. */
const MAX_BYTES = 400_000_000;

/** Every owner's unknown files come into the record. One that cannot be read fails nothing. */
export async function adoptAll(workspace: Workspace): Promise<void> {
  const { store, folders, log } = workspace;
  const owners = new Map<string, Owner>();
  for (const owner of [...(await folders.find()), ...(await store.owners())]) {
    owners.set(folders.folderOf(owner), owner);
  }
  for (const [folder, owner] of owners) {
    const names = (await list(folder)).filter((entry) => entry.isFile()).map(({ name }) => name);
    const transcripts = names.filter((name) => stemOf(name) !== undefined);
    if (!transcripts.length) continue;
    const known = new Set((await store.known(owner)).map(({ id }) => toTranscriptName(id).file));
    for (const name of transcripts) {
      if (known.has(name.normalize('NFC'))) continue;
      try {
        await adoptFile(workspace, { owner, folder, name });
      } catch (error) {
        const message = `The readable conversation ${join(folder, name)} was not taken in: ${messageOf(error)}`;
        log.warn({ err: error, code: 'transcript.not_adopted', file: join(folder, name) }, message);
      }
    }
  }
}

/** Hints at every conversation whose file is not as it was left, or is behind the record. */
export async function compareAll({ store, folders, hint }: Workspace, signal: AbortSignal): Promise<void> {
  for (const owner of await store.owners()) {
    for (const [i, known] of (await store.known(owner)).entries()) {
      if (signal.aborted) return;
      const key = { ...owner, conversation: known.id };
      if (!isAsLeft(folders.pathOf(key), known)) hint(key);
      if (i % AT_ONCE === AT_ONCE - 1) await pause();
    }
  }
}

function isAsLeft(path: string, { version, mark }: Known): boolean {
  if (mark.seq !== version) return false;
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size === mark.bytes && found.mtimeMs === mark.mtime;
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
  const read = changed.size > MAX_BYTES ? { problem: 'It is too large.' } : await readFile(path);
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
async function readFile(path: string): Promise<Read | { problem: string }> {
  const text = (await load(path))?.toString() ?? '';
  try {
    return parseTranscript(text);
  } catch (error) {
    const last = text.lastIndexOf('\n- ');
    const problem = messageOf(error);
    if (last < 0) return { problem };
    try {
      return parseTranscript(text.slice(0, last + 1));
    } catch {
      return { problem };
    }
  }
}
