// One command from its start to its end, for every back end: what it writes is kept and passed on, and what ends it early
// (time, abort, too much output, a limit, the closing) is told by one reason.
import type { ExecEnd, ExecResult, ExecSpec } from './sandbox.ts';
import { createKeeper } from './output.ts';

export const DEFAULT_TIMEOUT_MS = 120_000;
export const DEFAULT_KEEP_BYTES = 64_000;

export interface CommandRun {
  /** A piece of output, in order. */
  push(stream: 'stdout' | 'stderr', chunk: Uint8Array): void;
  /** Something ends it: the first reason counts, and `kill` is called once. */
  stop(reason: Exclude<ExecEnd, 'exit'>): void;
  /** It has ended, and its output is complete. */
  end(exitCode: number | null): void;
  /** Nobody knows how it ended: rejects `result`. */
  fail(error: Error): void;
  readonly result: Promise<ExecResult>;
}

/** Starts the clock at once. `kill` ends everything of the command; `end` must follow. */
export function createCommandRun(spec: ExecSpec, options: { outputBytes: number; kill: () => void }): CommandRun {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, keepBytes = DEFAULT_KEEP_BYTES, signal, onOutput } = spec;
  const { promise: result, resolve, reject } = Promise.withResolvers<ExecResult>();
  const kept = { stdout: createKeeper(keepBytes), stderr: createKeeper(keepBytes) };
  const began = performance.now();
  let reason: ExecEnd = 'exit';
  let isOver = false;

  const stop: CommandRun['stop'] = (why) => {
    if (isOver || reason !== 'exit') return;
    reason = why;
    options.kill();
  };
  const onAbort = () => stop('aborted');
  const timer = setTimeout(stop, timeoutMs, 'timeout');
  signal?.addEventListener('abort', onAbort, { once: true });
  const settle = () => {
    isOver = true;
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  };
  // Not now: the caller has nothing to kill yet.
  if (signal?.aborted) queueMicrotask(onAbort);

  return {
    result,
    stop,
    push(stream, chunk) {
      if (isOver || reason === 'output_limit') return;
      kept[stream].push(chunk);
      show(onOutput, stream, chunk);
      if (kept.stdout.totalBytes + kept.stderr.totalBytes > options.outputBytes) stop('output_limit');
    },
    end(exitCode) {
      if (isOver) return;
      settle();
      const ms = Math.round(performance.now() - began);
      const [stdout, stderr] = [kept.stdout.take(), kept.stderr.take()];
      resolve({ reason, exitCode: reason === 'exit' ? exitCode : null, stdout, stderr, ms });
    },
    fail(error) {
      settle();
      reject(error);
    },
  };
}

/** Whoever watches never changes what happens. */
function show(onOutput: ExecSpec['onOutput'], stream: 'stdout' | 'stderr', chunk: Uint8Array): void {
  try {
    onOutput?.(stream, chunk);
  } catch {
    // By contract: what it throws is ignored.
  }
}
