// The windows of conversations that were active lately, so that a turn need not read what this process has just written. A
// window is used only if the conversation has not changed since: same incarnation, and one version behind the new message.
import type { Claim, ConversationKey, Entry } from './journal.ts';
import { sliceHistory } from './project.ts';

interface Place {
  seq: number;
  bytes: number;
}

interface Cached {
  incarnation: string;
  version: number;
  /** Stored bytes of the conversation; what the window takes. */
  bytes: number;
  size: number;
  start: Place;
  entries: Entry[];
  usedAt: number;
}

export interface HistoryCache {
  /** The window before the claim's message, from `start` on; taken out of the cache. */
  take(claim: Claim, start: Place): Entry[] | undefined;
  put(key: ConversationKey, window: Omit<Cached, 'size' | 'usedAt'>): void;
  /** Drops what nobody used lately. */
  trim(): void;
}

export interface HistoryCacheConfig {
  /** Of all windows together: their stored bytes, and 2 kB for each entry (measured: a short one takes 3 in memory). */
  limitBytes: number;
  /** Milliseconds after which a window that nobody used is dropped. */
  idleMs: number;
}

const ENTRY_BYTES = 2000;

export function createHistoryCache({ limitBytes, idleMs }: HistoryCacheConfig): HistoryCache {
  const windows = new Map<string, Cached>(); // least recently used first
  let size = 0;
  const nameOf = ({ tenant, owner, conversation }: ConversationKey) => JSON.stringify([tenant, owner, conversation]);

  function drop(name: string): Cached | undefined {
    const found = windows.get(name);
    if (found) {
      windows.delete(name);
      size -= found.size;
    }
    return found;
  }

  function trim(): void {
    const oldest = Date.now() - idleMs;
    for (const [name, { usedAt }] of windows) {
      if (size <= limitBytes && usedAt >= oldest) return;
      drop(name);
    }
  }

  return {
    take(claim, start) {
      const found = drop(nameOf(claim));
      if (found?.incarnation !== claim.incarnation || found.version !== claim.version - 1) return undefined;
      if (found.start.seq > start.seq || found.start.bytes > start.bytes) return undefined;
      return found.entries;
    },
    put(key, { entries, start, ...window }) {
      const name = nameOf(key);
      drop(name);
      const kept = sliceHistory(entries, start);
      const own = kept.reduce((sum, entry) => sum + entry.bytes + ENTRY_BYTES, 0);
      windows.set(name, { ...window, start, entries: kept, size: own, usedAt: Date.now() });
      size += own;
      trim();
    },
    trim,
  };
}
