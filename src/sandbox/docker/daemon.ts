// The Docker daemon as the back end needs it: every call has a deadline, and what went wrong is told for people.
import type Docker from 'dockerode';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../kernel/index.ts';
import { sandboxError } from '../errors.ts';

/** A call that only asks, or that only sends something on its way. */
export const ASK_MS = 5000;
const REMOVE_MS = 5000;
const REMOVE_PAUSE_MS = 100;

/** Where the daemon listens: `socket` is a path; without one as its own command line tool, by DOCKER_HOST. */
export async function connect(socket: string | undefined): Promise<Docker> {
  let Client: typeof Docker;
  try {
    Client = (await import('dockerode')).default;
  } catch (cause) {
    throw sandboxError('unavailable', 'The package dockerode is not installed.', {
      cause,
      hint: 'Install it: npm install dockerode@5.0.1',
    });
  }
  try {
    return new Client(socket === undefined ? undefined : { socketPath: socket });
  } catch (cause) {
    throw sandboxError('unavailable', `DOCKER_HOST is not understood: ${messageOf(cause)}`, { cause });
  }
}

/**
 * Gives a call up after `ms`, or when `signal` is aborted. Rejects with `sandbox.failed` then, else as the call does.
 * What was given up may still come about in the daemon.
 */
export async function within<T>(
  ms: number,
  call: (abortSignal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const giveUp = new AbortController();
  const { promise: givenUp, reject } = Promise.withResolvers<never>();
  const end = (message: string, cause?: unknown) => {
    reject(sandboxError('failed', message, { cause }));
    giveUp.abort();
  };
  const onAbort = () => end('The start of the sandbox was cancelled.', signal?.reason);
  const timer = setTimeout(end, ms, `The Docker daemon did not answer within ${ms / 1000} s.`);
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    return await Promise.race([givenUp, call(giveUp.signal)]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** The HTTP status that the daemon answered with; undefined where it did not answer. */
export function statusOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return undefined;
  return typeof error.statusCode === 'number' ? error.statusCode : undefined;
}

/**
 * Kills all that runs in a container and removes it. Resolves when it is gone, at the latest after about 5 s; then to
 * false where it may still be there. With `mayComeLate`, a container that is not there yet is waited for.
 */
export async function removeContainer(
  container: Docker.Container,
  { mayComeLate = false }: { mayComeLate?: boolean } = {},
): Promise<boolean> {
  const deadline = performance.now() + REMOVE_MS;
  let isGone = false;
  while (performance.now() < deadline) {
    try {
      const left = deadline - performance.now();
      await within(left, (abortSignal) => container.remove({ force: true, v: true, abortSignal }));
      return true;
    } catch (error) {
      const status = statusOf(error);
      isGone = status === 404;
      if (isGone && !mayComeLate) return true;
      // Otherwise its removal has begun already, or the daemon did not answer.
      await sleep(REMOVE_PAUSE_MS);
    }
  }
  return isGone;
}
