// Keeps the readable files behind the record: told that something was committed, it reads what is new and appends it, off
// the path of any answer. Whatever fails here is a warning, and is caught up later: the record is the truth.
import { rm } from 'node:fs/promises';
import type { ConversationKey, Entry, Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { TranscriptStore, Unwritten } from '../store/transcripts.ts';
import type { FileState } from './transcript-file.ts';
import { append, complete, create, load, setAside } from './transcript-file.ts';
import type { TranscriptFolders } from './transcript-folders.ts';
import { formatEntry, formatFront, parseTranscript, toInstant } from './transcript-format.ts';
import { toTranscriptName } from './transcript-names.ts';

export interface TranscriptsConfig {
  store: TranscriptStore;
  folders: TranscriptFolders;
  log: Log;
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

/** What this process last wrote. */
interface Written extends FileState {
  incarnation: string;
  seq: number;
}

const BATCH = 64;
const AT_ONCE = 4;
const MOST_WRITTEN = 10_000;
/** At once; where much is going on more is gathered, so that many conversations share a statement. */
const SOON_MS = 5;
const BUSY_MS = 50;
const BUSY_HINTS_A_SECOND = 500;
/** A mark only spares the next start a comparison, so marks are gathered for longer. */
const MARK_AFTER = 200;
const MARK_MS = 30_000;

export function createTranscripts(config: TranscriptsConfig): Transcripts {
  const { store, folders, log, retryMs = 10_000 } = config;
  const dirty = new Map<string, ConversationKey>();
  const failed = new Map<string, ConversationKey>();
  const written = new Map<string, Written>();
  const unmarked = new Map<string, Written & { key: ConversationKey }>();
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
    dirty.set(nameOf(key), key);
    if (!working) schedule(withinMs);
  }

  function soonMs(): number {
    const now = performance.now();
    if (now - second.at > 1000) second = { at: now, count: 0, before: second.count };
    second.count++;
    return Math.max(second.count, second.before) > BUSY_HINTS_A_SECOND ? BUSY_MS : SOON_MS;
  }

  function schedule(withinMs: number): void {
    const at = performance.now() + withinMs;
    if (isClosing || (timer && timer.at <= at)) return;
    clearTimeout(timer?.handle);
    timer = { at, handle: setTimeout(() => void flush(), withinMs).unref() };
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
    }, retryMs).unref();
  }

  async function flush(): Promise<void> {
    clearTimeout(timer?.handle);
    timer = undefined;
    while (working) await working;
    working = work().finally(() => {
      working = undefined;
      if (dirty.size) schedule(soonMs());
    });
    await working;
  }

  async function work(): Promise<void> {
    while (dirty.size) {
      const batch: [string, ConversationKey][] = [];
      for (const entry of dirty) if (batch.push(entry) === BATCH) break;
      for (const [name] of batch) dirty.delete(name);
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

  function remember({ key, incarnation, version }: Unwritten, state: FileState): void {
    const name = nameOf(key);
    const now = { ...state, incarnation, seq: version };
    written.delete(name);
    written.set(name, now);
    unmarked.set(name, { ...now, key });
    if (written.size > MOST_WRITTEN) for (const oldest of written.keys()) return void written.delete(oldest);
  }

  async function update(row: Unwritten, entries: readonly Entry[]): Promise<void> {
    const { key, incarnation, mark: marked, updatedAt } = row;
    const path = folders.pathOf(key);
    const known = written.get(nameOf(key));
    if (known && known.incarnation !== incarnation) return await restore(path, key);
    if (known && !entries.length) return;
    const mtime = known ? known.mtime : marked.mtime;
    const text = entries.map(formatEntry).join('');
    const left = known ?? marked;
    const state =
      mtime === null
        ? create(path, formatHead(row) + text)
        : append(path, { bytes: left.bytes, mtime }, { text, updatedAt: toInstant(updatedAt) });
    if (state) remember(row, state);
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
      if (typeof completed === 'object') return remember(row, completed);
      if (completed === 'changed') return hint(key);
    }
    if (found !== undefined) await keep(path, found);
    const made = create(path, text);
    if (made) remember(row, made);
    // Another process made it in this instant.
    else hint(key);
  }

  async function keep(path: string, found: Buffer | null): Promise<void> {
    const reason = found && reasonAgainst(found);
    const target = await setAside(path, reason ? { folder: 'broken' } : { what: 'edited' });
    const what = reason ? `cannot be read (${reason})` : 'was changed by somebody else';
    const message = `The readable conversation ${path} ${what}. It is kept as ${target}, and what the record holds was written anew.`;
    log.warn({ code: reason ? 'transcript.broken' : 'transcript.edited', file: path, kept: target }, message);
  }

  async function remove(key: ConversationKey): Promise<void> {
    dirty.delete(nameOf(key));
    // Whoever writes has read before it was deleted, and would make the file anew.
    while (working) await working;
    written.delete(nameOf(key));
    await rm(folders.pathOf(key), { force: true }).catch((error: unknown) => fail(error, [key]));
  }

  return {
    hint,
    flush,
    remove,
    async removeAll(owner, work) {
      const before = await store.known(owner);
      const removed = await work();
      const known = new Set((await store.known(owner)).map(({ id }) => id));
      for (const { id } of before) if (!known.has(id)) await remove({ ...owner, conversation: id });
      return removed;
    },
    async [Symbol.asyncDispose]() {
      isClosing = true;
      clearTimeout(retry);
      await flush();
      await mark();
    },
  };
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
