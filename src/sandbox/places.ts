// How many sandboxes there may be at once, in all and for one user; who comes later waits in order.
import { sandboxError } from './errors.ts';

export interface Places {
  /**
   * Resolves to the leaving of the place that it got. `onWait` is told once how many wait before it. Rejects with
   * `sandbox.too_many` after the time to wait, or at once where too many wait already; or with the signal's reason.
   */
  enter(user: string, options: { signal: AbortSignal; onWait?: (ahead: number) => void }): Promise<() => void>;
  waiting(): number;
}

const MOST_WAITING = 1000;

interface Waiting {
  user: string;
  go: (leave: () => void) => void;
}

export function createPlaces({ total, perUser, waitMs }: { total: number; perUser: number; waitMs: number }): Places {
  const taken = new Map<string, number>();
  const queue: Waiting[] = [];
  let count = 0;

  const isFree = (user: string) => count < total && (taken.get(user) ?? 0) < perUser;

  function take(user: string): () => void {
    count++;
    taken.set(user, (taken.get(user) ?? 0) + 1);
    let isLeft = false;
    return () => {
      if (isLeft) return;
      isLeft = true;
      count--;
      const left = (taken.get(user) ?? 1) - 1;
      if (left) taken.set(user, left);
      else taken.delete(user);
      admit();
    };
  }

  /** One user's full share does not hold up the others behind. */
  function admit(): void {
    for (
      let at = queue.findIndex(({ user }) => isFree(user));
      at >= 0;
      at = queue.findIndex((next) => isFree(next.user))
    ) {
      const [next] = queue.splice(at, 1);
      next?.go(take(next.user));
    }
  }

  function tooMany(user: string): Error {
    const isOwn = (taken.get(user) ?? 0) >= perUser;
    const which = isOwn ? `${perUser} runs of this user have a sandbox now` : `${total} sandboxes are in use now`;
    return sandboxError('too_many', `${which}, which is the most, and none became free in time.`);
  }

  return {
    waiting: () => queue.length,
    async enter(user, { signal, onWait }) {
      signal.throwIfAborted();
      if (isFree(user)) return take(user);
      if (queue.length >= MOST_WAITING || waitMs === 0) throw tooMany(user);
      onWait?.(queue.length);
      const { promise, resolve, reject } = Promise.withResolvers<() => void>();
      const entry = { user, go: resolve };
      queue.push(entry);
      const give = (error: unknown) => {
        const at = queue.indexOf(entry);
        if (at >= 0) queue.splice(at, 1);
        reject(error);
      };
      const abort = () => give(signal.reason);
      const timer = setTimeout(() => give(tooMany(user)), waitMs);
      signal.addEventListener('abort', abort, { once: true });
      try {
        return await promise;
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
      }
    },
  };
}
