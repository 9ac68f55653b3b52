import type { AgentEvent, Emitted } from './events.ts';
import { STREAM } from './events.ts';
import type { Json, ReasoningPart, TextPart } from './messages.ts';
import { streamOf } from './replay.ts';

type Watcher = (emitted: Emitted) => void;

/** A run that this process advances, as its watchers see it: passes events on and remembers only the open segment. */
export interface Live {
  /** Streams characters of the open step. */
  stream(type: 'text' | 'reasoning', text: string, metadata?: Json): void;
  /** What was streamed of the open step is void. */
  restart(): void;
  /** A commit was acknowledged: these events are true now, and a new segment begins. */
  committed(commit: number, events: AgentEvent[]): void;
  /** Seen by who watches now, and by nobody else. */
  notify(event: AgentEvent): void;
  /** The streamed parts of the open step, and how many characters before them are void. */
  open(): { parts: (TextPart | ReasoningPart)[]; voided: number };
  attach(watcher: Watcher): () => void;
  /** What the open segment showed so far, for a watcher who comes now. */
  snapshot(): Emitted[];
  /** No more events come from this process. Resolves `ended`. */
  end(): void;
  readonly ended: Promise<void>;
}

export function createLive(start: { commits: number; epoch: number }, observe?: (event: AgentEvent) => void): Live {
  const watchers = new Set<Watcher>();
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const { epoch } = start;
  let commit = start.commits;
  let parts: (TextPart | ReasoningPart)[] = [];
  let voided = 0;
  let shown = 0;

  const emit = (emitted: Emitted) => {
    observe?.(emitted.event);
    for (const watcher of watchers) watcher(emitted);
  };

  return {
    ended,
    stream(type, text, metadata) {
      const last = parts.at(-1);
      const isOpen = last?.type === type && !(last.type === 'reasoning' && last.metadata !== undefined);
      if (!isOpen) parts.push({ type, text: '' });
      const part = parts.at(-1)!;
      part.text += text;
      if (metadata !== undefined && part.type === 'reasoning') part.metadata = metadata;
      if (!text) return;
      shown += text.length;
      const event: AgentEvent = type === 'text' ? { type: 'token', text } : { type, text };
      emit({ event, position: { commit, epoch, k: STREAM + shown } });
    },
    restart() {
      parts = [];
      if (shown === voided) return;
      voided = ++shown;
      emit({ event: { type: 'step_restart' }, position: { commit, epoch, k: STREAM + shown } });
    },
    committed(next, events) {
      commit = next;
      parts = [];
      voided = shown = 0;
      for (let k = 0; k < events.length; k++) emit({ event: events[k]!, position: { commit, epoch, k } });
    },
    notify: (event) => emit({ event, position: null }),
    open: () => ({ parts, voided }),
    attach(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    snapshot: () => streamOf({ parts: [...parts], voided }, { commit, epoch }),
    end: resolve,
  };
}
