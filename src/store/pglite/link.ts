// The main thread's end of the worker: what to open and requests out, answers in, and the truth about a worker that ended.
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import { storeError, toOpenError } from '../errors.ts';
import { StatementError } from './protocol.ts';
import type { WorkerConfig, WorkerMessage, WorkerRequest } from './worker.ts';

/** A request as its sender knows it; the link numbers it. */
type LinkRequest = WorkerRequest extends infer R ? (R extends WorkerRequest ? Omit<R, 'id'> : never) : never;

export interface Link {
  /** Comes first, and once. Rejects with `store.unreadable`, `store.not_durable` or `store.disk_full`; the thread has ended then. */
  open(config: WorkerConfig): Promise<void>;
  /** In the order of the calls. Rejects with StatementError or `store.worker_died`; it cannot be cancelled. */
  send(request: LinkRequest): Promise<unknown>;
  /** Ends the thread at once, which is as safe as a crash. */
  stop(): Promise<void>;
}

interface Refusal {
  code: 'unreadable' | 'not_durable';
  message: string;
}

interface Pending {
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

const WORKER = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);

function createThread(): Worker {
  // Node hands its compile cache to a thread by the environment only.
  const cache = getCompileCacheDir();
  const env = { ...process.env, ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }) };
  return new Worker(WORKER, { name: 'homard-pglite', env });
}

/** Starts a thread that loads the engine and waits to be told what to open. */
export function startWorker(): Link {
  const worker = createThread();
  const opening = Promise.withResolvers<Refusal | undefined>();
  const pending = new Map<number, Pending>();
  let lastId = 0;
  let reason = '';
  let death: Error | undefined;

  const send = (request: LinkRequest): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (death) return reject(death);
      const id = ++lastId;
      // First: it throws for values that cannot cross to another thread.
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage({ ...request, id });
      // An idle database keeps no process alive; a statement under way does.
      if (!pending.size) worker.ref();
      pending.set(id, { resolve, reject });
    });

  const settle = (id: number): Pending | undefined => {
    const waiting = pending.get(id);
    pending.delete(id);
    if (!pending.size) worker.unref();
    return waiting;
  };

  worker.on('message', (message: WorkerMessage) => {
    if (message.kind === 'answer') settle(message.id)?.resolve(message.value);
    else if (message.kind === 'failure') settle(message.id)?.reject(new StatementError(message.failure));
    else if (message.kind === 'fatal') reason = message.message;
    else if (message.kind === 'ready') opening.resolve(undefined);
    else opening.resolve(message);
  });
  worker.on('error', (error) => {
    reason ||= messageOf(error);
  });
  worker.on('exit', () => {
    death = storeError('worker_died', `The embedded database has ended${reason ? `: ${reason}` : ''}.`);
    opening.resolve({ code: 'unreadable', message: reason || 'no reason given' });
    for (const waiting of pending.values()) waiting.reject(death);
    pending.clear();
  });

  return {
    async open(config) {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(config);
      const refusal = await opening.promise;
      if (!refusal) {
        worker.unref();
        return;
      }
      await worker.terminate();
      const what = `The data directory ${config.directory} cannot be opened`;
      if (refusal.code === 'unreadable') throw toOpenError(what, refusal.message);
      throw storeError(refusal.code, `${what}: ${refusal.message}`);
    },
    send,
    stop: async () => void (await worker.terminate()),
  };
}
