// The worker thread that owns PGlite. In the main thread PGlite would starve the event loop: its promises resolve in
// microtasks only. The first message says what to open, so that the engine is loaded while that is found out; requests are
// answered one after another, in their order.
import { parentPort } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { messageOf } from '../../kernel/index.ts';
import type { Value } from '../database.ts';
import { DurableFs } from './durable-fs.ts';
import { fromAnswer, toCall } from './protocol.ts';
import type { StatementFailure } from './protocol.ts';

export interface WorkerConfig {
  directory: string;
  /** The directory is being made: nothing in it is synced before syncTree(). */
  isNew: boolean;
}

/**
 * `client` is 0 for a statement on its own, else the number of the client that holds the connection: when it changes, a
 * transaction that was left open is rolled back.
 */
export type WorkerRequest =
  | { id: number; client: number; op: 'query'; text: string; values: readonly unknown[] }
  | { id: number; client: number; op: 'exec'; name: string; text: string; values: readonly Value[] }
  | { id: number; client: number; op: 'syncs' | 'close' };

export interface QueryResult {
  command: string;
  rowCount: number;
  rows: Record<string, unknown>[];
}

export type WorkerMessage =
  | { kind: 'ready' }
  | { kind: 'refused'; code: 'unreadable' | 'not_durable'; message: string }
  | { kind: 'fatal'; message: string }
  | { kind: 'answer'; id: number; value: unknown }
  | { kind: 'failure'; id: number; failure: StatementFailure };

const LONGJMP = 100;
const INT8 = 20;
const STDERR_LINES = 10;
const SETTINGS = [
  'fsync=on',
  'wal_sync_method=fsync',
  'synchronous_commit=on',
  'full_page_writes=on',
  'shared_buffers=16MB',
  'max_wal_size=64MB',
  'min_wal_size=32MB',
];

const stderr: string[] = [];
const texts = new Map<string, string>();

function post(message: WorkerMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(message);
}

/** What PostgreSQL said last, if it gave up itself; else the exception. */
function reasonOf(error: unknown): string {
  const said = stderr.findLast((line) => /(?:PANIC|FATAL):/.test(line));
  return said?.replace(/^.*?((?:PANIC|FATAL):)\s+/, '$1 ') ?? messageOf(error);
}

/** Ends the thread, as PostgreSQL's own PANIC would end the server. The log is replayed at the next start. */
function die(error: unknown): never {
  post({ kind: 'fatal', message: reasonOf(error) });
  process.exit(1);
}

/**
 * PGlite takes every exception for a failed statement and calls again, forever: an engine that has ended (no space for
 * the log, out of memory) would hang the thread. Only its own long jump is a failed statement.
 */
function guard(pglite: PGlite): void {
  const module = pglite.Module as unknown as Record<string, (() => void) | undefined>;
  for (const name of ['_PostgresMainLoopOnce', '_PostgresMainLongJmp']) {
    const original = module[name];
    if (!original) return die(new TypeError(`PGlite has no ${name}`));
    module[name] = () => {
      try {
        return original();
      } catch (error) {
        if ((error as { status?: number } | null)?.status !== LONGJMP) die(error);
        throw error;
      }
    };
  }
}

async function open(files: DurableFs): Promise<PGlite> {
  const keep = (line: string): boolean => {
    if (line.trim()) stderr.push(line.trim());
    if (stderr.length > STDERR_LINES) stderr.shift();
    return false;
  };
  const pglite = await PGlite.create({
    fs: files,
    startParams: [
      ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
      ...SETTINGS.flatMap((setting) => ['-c', setting]),
    ],
    parsers: { [INT8]: Number },
    onStderr: keep,
    onStdout: () => false,
  });
  guard(pglite);
  return pglite;
}

/** A commit must reach the disk: it is tried, because it depends on internals of PGlite. */
async function isDurable({ pglite, files }: Store): Promise<boolean> {
  const before = files.syncs;
  await pglite.query("select pg_logical_emit_message(true, 'homard', 'open')");
  return files.isPatched && files.syncs > before;
}

async function query(pglite: PGlite, text: string, values: readonly unknown[]): Promise<QueryResult> {
  // Without values, several statements in one text are allowed, as with `pg`; the last one answers.
  const result = values.length ? await pglite.query(text, [...values]) : (await pglite.exec(text)).at(-1);
  return {
    command: result?.command ?? '',
    rowCount: result?.rowCount ?? 0,
    rows: (result?.rows ?? []) as Record<string, unknown>[],
  };
}

async function exec(
  pglite: PGlite,
  name: string,
  text: string,
  values: readonly Value[],
): Promise<(string | null)[][]> {
  const known = texts.get(name);
  if (known !== undefined && known !== text)
    throw new TypeError(`The statement ${name} was prepared with another text`);
  const chunks: Buffer[] = [];
  await pglite.execProtocolRawStream(toCall(name, values, known === undefined ? text : undefined), {
    syncToFs: false,
    // A view of the engine's memory: copied before it goes on.
    onRawData: (bytes) => void chunks.push(Buffer.from(bytes)),
  });
  const { rows, isPrepared, failure } = fromAnswer(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
  if (isPrepared) texts.set(name, text);
  if (failure) throw failure;
  return rows;
}

interface Store {
  pglite: PGlite;
  files: DurableFs;
}

let client = 0;

async function answer({ pglite, files }: Store, request: WorkerRequest): Promise<unknown> {
  if (request.client !== client || client === 0) {
    client = request.client;
    if (pglite.isInTransaction()) await pglite.exec('rollback');
  }
  if (request.op === 'exec') return exec(pglite, request.name, request.text, request.values);
  if (request.op === 'query') return query(pglite, request.text, request.values);
  if (request.op === 'syncs') return files.syncs;
  await pglite.exec('checkpoint');
  await pglite.close();
  return null;
}

function toFailure(error: unknown): StatementFailure {
  const { code, detail, constraint } = error as StatementFailure;
  return { message: (error as StatementFailure).message ?? messageOf(error), code, detail, constraint };
}

async function serve(store: Store, request: WorkerRequest): Promise<void> {
  const { id } = request;
  try {
    post({ kind: 'answer', id, value: await answer(store, request) });
  } catch (error) {
    post({ kind: 'failure', id, failure: toFailure(error) });
  }
}

async function start(config: WorkerConfig): Promise<void> {
  const files = new DurableFs(config.directory, { isDraft: config.isNew, onFailure: die });
  let pglite: PGlite;
  try {
    pglite = await open(files);
  } catch (error) {
    return post({ kind: 'refused', code: files.isPatched ? 'unreadable' : 'not_durable', message: reasonOf(error) });
  }
  const store = { pglite, files };
  if (!(await isDurable(store))) {
    return post({ kind: 'refused', code: 'not_durable', message: 'a commit did not reach the disk' });
  }
  let last = Promise.resolve();
  parentPort?.on('message', (request: WorkerRequest) => {
    last = last.then(() => serve(store, request));
  });
  post({ kind: 'ready' });
}

parentPort?.once('message', (config: WorkerConfig) => void start(config));
