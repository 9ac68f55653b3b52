// A caller's feed: run states, titles and deletions as the record has them, looked at when something happened here and once
// a second for what happened elsewhere. The rows are the truth; a lost hint costs a second.
import type { Owner } from '../kernel/index.ts';
import type { Change } from '../store/changes.ts';
import type { Conversations } from '../store/conversations.ts';

export interface Feed {
  /** Tells each change after an instant once, oldest first, until `signal` aborts. */
  follow(owner: Owner, range: { after: Date; signal: AbortSignal }, on: (change: Change) => void): Promise<void>;
  /** Something of this owner changed in this process. */
  hint(owner: Owner): void;
}

/** Commits become visible a little after the instant that they carry; so each look goes back this far. */
export const OVERLAP_MS = 5000;
const PAGE = 200;

export function createFeed(conversations: Pick<Conversations, 'changes'>, pollMs = 1000): Feed {
  const waiting = new Set<{ owner: Owner; wake: () => void }>();

  function pause(owner: Owner, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const entry = { owner, wake };
      const timer = setTimeout(wake, pollMs);
      function wake() {
        clearTimeout(timer);
        waiting.delete(entry);
        signal.removeEventListener('abort', wake);
        resolve();
      }
      waiting.add(entry);
      signal.addEventListener('abort', wake, { once: true });
    });
  }

  return {
    hint(owner) {
      for (const entry of waiting)
        if (entry.owner.owner === owner.owner && entry.owner.tenant === owner.tenant) entry.wake();
    },
    async follow(owner, { after, signal }, on) {
      const told = new Map<string, number>();
      let newest = after.getTime();
      let from = newest;
      let limit = PAGE;
      while (!signal.aborted) {
        const changes = await conversations.changes(owner, { after: new Date(from).toISOString(), limit });
        let fresh = 0;
        for (const change of changes) {
          const name = JSON.stringify(change);
          if (told.has(name)) continue;
          fresh++;
          const at = Date.parse(change.data.changedAt);
          told.set(name, at);
          newest = Math.max(newest, at);
          on(change);
        }
        for (const [name, at] of told) if (at < newest - 2 * OVERLAP_MS) told.delete(name);
        const isFull = changes.length === limit;
        from = isFull ? newest - 1 : Math.max(after.getTime(), newest - OVERLAP_MS);
        // A page of one instant, all told: what follows is behind it.
        limit = isFull && !fresh ? limit * 2 : isFull ? limit : PAGE;
        if (!isFull) await pause(owner, signal);
      }
    },
  };
}
