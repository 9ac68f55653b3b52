// Keeps the readable files behind the record: told that something was committed, it reads what is new and appends it, off
// the path of any answer. Whatever fails here is a warning, and is caught up later: the record is the truth.
import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConversationKey, Entry, Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { TranscriptStore, Unwritten } from '../store/transcripts.ts';
import type { FileState } from './transcript-file.ts';
import { append, complete, create, isAsLeft, load, setAside } from './transcript-file.ts';
import type { TranscriptFolders } from './transcript-folders.ts';
import { list } from './transcript-folders.ts';
import { formatEntry, formatFront, parseTranscript, toInstant } from './transcript-format.ts';
import { ownerOfName, toTranscriptName } from './transcript-names.ts';

export interface TranscriptsConfig {
  store: TranscriptStore;
  folders: TranscriptFolders;
  log: Log;
  /** The id of the workspace, for marks. */
  workspace: string;
  /** Milliseconds after which what failed is tried again. */
  retryMs?: number;
}

export interface Transcripts extends AsyncDisposable {
  /** Something of this conversation may not be in its file: it will be within so many milliseconds, by default at once. */
  hint(key: ConversationKey, withinMs?: number): void;
  /** The conversation was deleted: its file goes, too. */
  remove(key: ConversationKey): Promise<void>;
  /** The same for those of an owner that `work` deletes; answers what it does. */
  removeAll(owner: Owner, work: () => Promise<number>): Promise<number>;
  /** Everything that was hinted at is written, or has failed. */
  flush(): Promise<void>;
}

interface Leaving {
  owner: Owner;
  ids: readonly string[];
  resolve: () => void;
}

/** What this process last wrote. */
interface Written extends FileState {
  path: string;
  incarnation: string;
  seq: number;
}

const BATCH = 64;
const AT_ONCE = 4;
const MOST_WRITTEN = 10_000;
/** Files are told apart from broken ones up to this length: reading a long one takes seconds. */
const MAX_JUDGED_BYTES = 200_000;
/** Behind the last entry of any conversation. */
const NOTHING_NEW = 2 ** 31 - 1;
/** At once; where much is going on more is gathered, so that many conversations share a statement. */
const SOON_MS = 5;
const BUSY_MS = 50;
const BUSY_HINTS_A_SECOND = 500;
/** A mark only spares the next start a comparison, so marks are gathered for longer. */
const MARK_AFTER = 200;
const MARK_MS = 30_000;

export function createTranscripts(config: TranscriptsConfig): Transcripts {
  const { store, folders, log, workspace, retryMs = 10_000 } = config;
  const dirty = new Map<string, { key: ConversationKey; at: number }>();
  const leaving: Leaving[] = [];
  const stuck: Leaving[] = [];
  const failed = new Map<string, ConversationKey>();
  const written = new Map<string, Written>();
  const unmarked = new Map<string, Parameters<TranscriptStore['mark']>[0][number]>();
  let timer: { at: number; handle: ReturnType<typeof setTimeout> } | undefined;
  let marking: ReturnType<typeof setTimeout> | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let working: Promise<void> | undefined;
  let isClosing = false;
  let second = { at: 0, count: 0, before: 0 };
  /** Of the last failure, so that a full disk is told of once and not for every conversation. */
  let problem: string | undefined;

  const nameOf = ({ tenant, owner, conversation }: ConversationKey) => JSON.stringify([tenant, owner, conversation]);

  function hint({ tenant, owner, conversation }: ConversationKey, withinMs = soonMs()): void {
    const key = { tenant, owner, conversation };
    const name = nameOf(key);
    const at = Math.min(performance.now() + withinMs, dirty.get(name)?.at ?? Infinity);
    dirty.set(name, { key, at });
    if (!working) schedule(at);
  }

  function soonMs(): number {
    const now = performance.now();
    if (now - second.at > 1000) second = { at: now, count: 0, before: second.count };
    second.count++;
    return Math.max(second.count, second.before) > BUSY_HINTS_A_SECOND ? BUSY_MS : SOON_MS;
  }

  function schedule(at: number): void {
    if (isClosing || (timer && timer.at <= at)) return;
    clearTimeout(timer?.handle);
    const waitMs = Math.max(0, at - performance.now());
    timer = { at, handle: setTimeout(() => void run('due'), waitMs).unref() };
  }

  function fail(error: unknown, keys: readonly ConversationKey[]): void {
    const text = (error as NodeJS.ErrnoException).code ?? messageOf(error);
    if (text !== problem) {
      const message = `A readable copy of a conversation could not be written, and will be tried again: ${messageOf(error)}`;
      log.warn({ err: error, code: 'transcript.not_written', conversation: keys[0]?.conversation }, message);
    }
    problem = text;
    for (const key of keys) failed.set(nameOf(key), key);
    retry ??= setTimeout(() => {
      retry = undefined;
      for (const key of failed.values()) hint(key);
      failed.clear();
      leaving.push(...stuck.splice(0));
      if (leaving.length && !working) void run('due');
    }, retryMs).unref();
  }

  const flush = () => run('all');

  async function run(which: 'due' | 'all'): Promise<void> {
    clearTimeout(timer?.handle);
    timer = undefined;
    while (working) await working;
    working = work(which).finally(() => {
      working = undefined;
      if (leaving.length) void run('due');
      else for (const { at } of dirty.values()) schedule(at);
    });
    await working;
  }

  /** Of a run that goes on what it says is gathered, also where others are written meanwhile. */
  function take(which: 'due' | 'all'): [string, ConversationKey][] {
    const now = performance.now();
    const batch: [string, ConversationKey][] = [];
    for (const [name, { key, at }] of dirty) {
      // A timer may be early by a millisecond.
      if (which === 'all' || at <= now + 1) batch.push([name, key]);
      if (batch.length === BATCH) break;
    }
    for (const [name] of batch) dirty.delete(name);
    return batch;
  }

  async function work(which: 'due' | 'all'): Promise<void> {
    for (;;) {
      for (const each of leaving.splice(0)) await takeAway(each);
      const batch = take(which);
      if (!batch.length) break;
      const keys = batch.map(([, key]) => key);
      try {
        const rows = await store.read(batch.map(([name, key]) => withAfter(key, written.get(name)?.seq)));
        await Promise.all(
          Array.from({ length: AT_ONCE }, async (_, lane) => {
            for (let i = lane; i < rows.length; i += AT_ONCE) await write(rows[i]!);
          }),
        );
      } catch (error) {
        fail(error, keys);
        return;
      }
      if (unmarked.size >= MARK_AFTER) await mark();
    }
    if (unmarked.size && !isClosing) marking ??= setTimeout(() => void mark(), MARK_MS).unref();
  }

  async function mark(): Promise<void> {
    clearTimeout(marking);
    marking = undefined;
    const marks = [...unmarked.values()];
    unmarked.clear();
    try {
      if (marks.length) await store.mark(marks);
    } catch (error) {
      // The next start compares these files with the record.
      log.warn({ err: error }, `The state of readable copies could not be kept: ${messageOf(error)}`);
    }
  }

  async function write(row: Unwritten): Promise<void> {
    const { key, entries } = row;
    try {
      if (!Array.isArray(entries)) throw entries.problem;
      await update(row, entries);
      problem = undefined;
    } catch (error) {
      written.delete(nameOf(key));
      fail(error, [key]);
    }
  }

  function remember(path: string, { key, incarnation, version }: Unwritten, state: FileState): void {
    const name = nameOf(key);
    const now = { ...state, path, incarnation, seq: version };
    written.delete(name);
    written.set(name, now);
    unmarked.set(name, { ...state, incarnation, seq: version, key, at: workspace });
    if (written.size > MOST_WRITTEN) for (const oldest of written.keys()) return void written.delete(oldest);
  }

  async function update(row: Unwritten, entries: readonly Entry[]): Promise<void> {
    const { key, incarnation, mark: marked, updatedAt } = row;
    const known = written.get(nameOf(key));
    const path = known?.path ?? folders.pathOf(key);
    if (known && known.incarnation !== incarnation) {
      // What was deleted is nobody's edit.
      if (isAsLeft(path, known)) rmSync(path);
      return await restore(path, key);
    }
    if (known && !entries.length) return;
    const text = entries.map(formatEntry).join('');
    const left = known ?? (marked.at === workspace ? marked : { ...marked, mtime: null });
    const isFirst = !known && marked.mtime === null;
    const state = isFirst
      ? create(path, formatHead(row) + text)
      : append(path, left, { text, updatedAt: toInstant(updatedAt) });
    if (state) remember(path, row, state);
    else await restore(path, key);
  }

  /** Makes the file what the record says; what it was otherwise is kept under another name. */
  async function restore(path: string, key: ConversationKey): Promise<void> {
    // First the file, then the record: so what another process has just written is in the record, too.
    const found = await load(path);
    const [row] = await store.read([{ key, after: 0 }]);
    if (!row) return;
    if (!Array.isArray(row.entries)) throw row.entries.problem;
    const text = formatHead(row) + row.entries.map(formatEntry).join('');
    if (found) {
      const whole = { whole: Buffer.from(text), updatedAt: toInstant(row.updatedAt) };
      const completed = complete(path, found, whole);
      if (typeof completed === 'object') return remember(path, row, completed);
      if (completed === 'changed') return hint(key);
    }
    if (found !== undefined) await keep(path, found);
    const made = create(path, text);
    if (made) remember(path, row, made);
    // Another process made it in this instant.
    else hint(key);
  }

  async function keep(path: string, found: Buffer | null): Promise<void> {
    const reason = found && found.length <= MAX_JUDGED_BYTES ? reasonAgainst(found) : undefined;
    const target = await setAside(path, reason ? { folder: 'broken' } : { what: 'edited' });
    const what = reason ? `cannot be read (${reason})` : 'was changed by somebody else';
    const message = `The readable conversation ${path} ${what}. It is kept as ${target}, and what the record holds was written anew.`;
    log.warn({ code: reason ? 'transcript.broken' : 'transcript.edited', file: path, kept: target }, message);
  }

  function remove(owner: Owner, ids: readonly string[]): Promise<void> {
    return new Promise((resolve) => {
      leaving.push({ owner, ids, resolve });
      // Whoever writes has read before they were deleted, and would make the files anew: they go in between.
      if (!working) void run('due');
    });
  }

  async function removeMissing(owner: Owner, before: readonly string[]): Promise<void> {
    const left = new Set(await store.known(owner));
    const gone = before.filter((id) => !left.has(id));
    if (gone.length) await remove(owner, gone);
  }

  async function takeAway(left: Leaving): Promise<void> {
    const { owner, ids, resolve } = left;
    const { tenant, owner: name } = owner;
    const keys = ids.map((conversation): ConversationKey => ({ tenant, owner: name, conversation }));
    try {
      // One of the same name that was made since then keeps what is its own.
      const rows = await store.read(keys.map((key) => ({ key, after: NOTHING_NEW }))).catch((error: unknown) => {
        fail(error, keys);
        return [];
      });
      const born = new Map(rows.map(({ key, incarnation }) => [nameOf(key), incarnation]));
      const gone = new Set<string>();
      const kept = new Set<string>();
      for (const key of keys) {
        const incarnation = born.get(nameOf(key));
        const { file } = toTranscriptName(key.conversation);
        gone.add(file);
        if (incarnation !== undefined) hint(key);
        else dirty.delete(nameOf(key));
        if (incarnation !== undefined && written.get(nameOf(key))?.incarnation === incarnation) kept.add(file);
        else written.delete(nameOf(key));
      }
      await removeFiles(folders.folderOf(owner), { gone, kept });
    } catch (error) {
      stuck.push(left);
      fail(error, keys);
    } finally {
      resolve();
    }
  }

  return {
    hint,
    flush,
    remove: (key) => remove(key, [key.conversation]),
    async removeAll(owner, work) {
      const before = await store.known(owner);
      try {
        return await work();
      } finally {
        // Also where it stopped halfway: what is gone is gone.
        await removeMissing(owner, before).catch((error: unknown) => fail(error, []));
      }
    },
    async [Symbol.asyncDispose]() {
      isClosing = true;
      clearTimeout(retry);
      await flush();
      await mark();
    },
  };
}

/** Files of conversations and copies of them that were set aside; of those in `kept` the copies alone. */
async function removeFiles(
  folder: string,
  { gone, kept }: { gone: ReadonlySet<string>; kept: ReadonlySet<string> },
): Promise<void> {
  const removals = ['.', 'broken', 'deleted'].map(async (below) => {
    const place = join(folder, below);
    for (const entry of await list(place)) {
      const owner = ownerOfName(entry.name);
      if (owner === undefined || !gone.has(owner) || entry.isDirectory()) continue;
      const isOwn = below === '.' && entry.name.normalize('NFC') === owner;
      if (!isOwn || !kept.has(owner)) await rm(join(place, entry.name), { force: true });
    }
  });
  const failures = (await Promise.allSettled(removals)).filter((removal) => removal.status === 'rejected');
  if (failures[0]) throw failures[0].reason;
}

const withAfter = (key: ConversationKey, after: number | undefined) => (after === undefined ? { key } : { key, after });

function formatHead({ key, createdAt, updatedAt }: Unwritten): string {
  const { isWhole } = toTranscriptName(key.conversation);
  return formatFront({ createdAt, updatedAt, ...(!isWhole && { id: key.conversation }) });
}

function reasonAgainst(content: Buffer): string | undefined {
  try {
    parseTranscript(content.toString());
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
