// The main thread's end of the worker: requests out, answers in, and the truth about a worker that ended.
import { Worker } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import { storeError } from '../errors.ts';
import { StatementError } from './protocol.ts';
import type { WorkerConfig, WorkerMessage, WorkerRequest } from './worker.ts';

/** A request as its sender knows it; the link numbers it. */
type LinkRequest = WorkerRequest extends infer R ? (R extends WorkerRequest ? Omit<R, 'id'> : never) : never;

export interface Link {
  /** In the order of the calls. Rejects with StatementError or `store.worker_died`; it cannot be cancelled. */
  send(request: LinkRequest): Promise<unknown>;
  /** Ends the thread at once, which is as safe as a crash. */
  stop(): Promise<void>;
}

interface Pending {
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

const WORKER = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);

/** Opens the directory in a worker of its own. Rejects with `store.unreadable` or `store.not_durable`. */
export async function startWorker(config: WorkerConfig): Promise<Link> {
  const worker = new Worker(WORKER, { workerData: config, name: 'homard-pglite' });
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

  const stop = async (): Promise<void> => {
    await worker.terminate();
  };

  const opened = new Promise<void>((resolve, reject) => {
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'answer') settle(message.id)?.resolve(message.value);
      else if (message.kind === 'failure') settle(message.id)?.reject(new StatementError(message.failure));
      else if (message.kind === 'fatal') reason = message.message;
      else if (message.kind === 'ready') resolve();
      else
        reject(storeError(message.code, `The data directory ${config.directory} cannot be opened: ${message.message}`));
    });
    worker.on('error', (error) => {
      reason ||= messageOf(error);
    });
    worker.on('exit', () => {
      death = storeError('worker_died', `The embedded database has ended${reason ? `: ${reason}` : ''}.`);
      reject(
        storeError(
          'unreadable',
          `The data directory ${config.directory} cannot be opened: ${reason || 'no reason given'}`,
        ),
      );
      for (const waiting of pending.values()) waiting.reject(death);
      pending.clear();
    });
  });

  try {
    await opened;
  } catch (error) {
    await stop();
    throw error;
  }
  worker.unref();
  return { send, stop };
}
