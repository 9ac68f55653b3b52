// Slots that are ready before anybody needs them: opened over an empty folder, taken once, never given back.
import type { Log } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { Folders } from './folders.ts';
import type { Backend, Execution, Slot } from './sandbox.ts';

export interface WarmSlot {
  slot: Slot;
  /** Absent where the back end opens only over the conversation's files. */
  execution?: Execution;
}

export interface WarmSlots {
  /** Makes as many ready as there should be, in the background. */
  fill(): void;
  /** A ready one, or a new one. Rejects as `Backend.open`. */
  take(signal: AbortSignal): Promise<WarmSlot>;
  count(): number;
  close(): Promise<void>;
}

/** Who took the last one goes first: the start of another takes the time of a core. */
const REFILL_MS = 100;

export function createWarmSlots(config: { backend: Backend; folders: Folders; count: number; log: Log }): WarmSlots {
  const { backend, folders, log } = config;
  const wanted = backend.opensEmpty ? config.count : 0;
  const ready: WarmSlot[] = [];
  const closing = new AbortController();
  let filling: Promise<void> | undefined;

  async function make(signal: AbortSignal): Promise<WarmSlot> {
    const slot = await folders.makeSlot();
    if (!backend.opensEmpty) return { slot };
    try {
      return { slot, execution: await backend.open(slot, signal) };
    } catch (error) {
      await folders.removeSlot(slot);
      throw error;
    }
  }

  async function fillUp(): Promise<void> {
    try {
      while (ready.length < wanted && !closing.signal.aborted) ready.push(await make(closing.signal));
    } catch (error) {
      // Whoever needs one makes it, and is told what is wrong.
      if (!closing.signal.aborted) log.warn({ err: error }, `No sandbox could be made ready: ${messageOf(error)}`);
    }
  }

  function fill(): void {
    if (ready.length >= wanted || closing.signal.aborted) return;
    filling ??= fillUp().finally(() => (filling = undefined));
  }

  return {
    fill,
    count: () => ready.length,
    async take(signal) {
      const warm = ready.shift() ?? (await make(signal));
      setTimeout(fill, REFILL_MS).unref();
      return warm;
    },
    async close() {
      closing.abort();
      await filling;
      for (const { slot, execution } of ready.splice(0)) {
        await execution?.close();
        await folders.removeSlot(slot);
      }
    },
  };
}
