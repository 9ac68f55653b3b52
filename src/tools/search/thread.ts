// The one thread in which all searches of this server run, one after the other, each for a bounded time.
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import type { Search, SearchAnswer } from './worker.ts';

const WORKER = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);

const MEMORY_MB = 256;

let thread: Promise<Worker> | undefined;
let last: Promise<unknown> = Promise.resolve();

export interface SearchOutcome {
  /** Undefined: it took longer than it may, and was stopped. */
  answer: SearchAnswer | undefined;
  /** Without the time until its turn. */
  ms: number;
}

export function search(request: Search, timeoutMs: number): Promise<SearchOutcome> {
  const mine = last.then(async () => {
    let answer: SearchAnswer | undefined;
    try {
      const worker = await (thread ??= start());
      const began = performance.now();
      answer = await ask(worker, request, timeoutMs);
      return { answer, ms: performance.now() - began };
    } finally {
      // It has ended, or could not start.
      if (!answer) thread = undefined;
    }
  });
  // The next one has its turn whatever becomes of this one.
  last = mine.catch(() => undefined);
  return mine;
}

function start(): Promise<Worker> {
  // Node hands its compile cache to a thread by the environment only.
  const cache = getCompileCacheDir();
  const env = cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) };
  const worker = new Worker(WORKER, {
    name: 'homard-grep',
    env,
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
  });
  return new Promise((resolve, reject) => {
    worker.once('message', () => {
      // An idle thread keeps no process alive.
      worker.unref();
      resolve(worker);
    });
    worker.on('error', reject);
    worker.once('exit', () => reject(new Error('The search could not start. Try again.')));
  });
}

function ask(worker: Worker, request: Search, timeoutMs: number): Promise<SearchAnswer | undefined> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer);
      worker.off('message', onMessage);
      worker.off('error', onEnd);
      worker.off('exit', onEnd);
      worker.unref();
    };
    const onMessage = (answer: SearchAnswer) => {
      settle();
      resolve(answer);
    };
    const onEnd = (why: unknown) => {
      settle();
      reject(new Error(`The search failed: ${messageOf(why)}. Search in fewer or smaller files.`, { cause: why }));
    };
    const timer = setTimeout(() => {
      settle();
      void worker.terminate().then(() => resolve(undefined));
    }, timeoutMs);
    worker.ref();
    worker.on('message', onMessage);
    worker.on('error', onEnd);
    worker.on('exit', onEnd);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    worker.postMessage(request);
  });
}
