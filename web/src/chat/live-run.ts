// The run that is under way: its events are folded once a frame into one shallow ref.
import { shallowRef } from 'vue';
import { getRun } from '../api/conversations.ts';
import type { RunStream } from '../api/run-stream.ts';
import { followRun } from '../api/run-stream.ts';
import type { Signal } from '../api/types.ts';
import type { Timeline } from './timeline.ts';
import { emptyTimeline, openApprovals, reduce } from './timeline.ts';

/** A page in the background gets no frames. */
const HIDDEN_MS = 250;

export interface LiveRun {
  readonly timeline: { readonly value: Timeline };
  /** Resolves when no more comes; rejects with ApiError where the server refuses. */
  readonly ended: Promise<void>;
  /** Asks the record which approvals are still open: a decision made elsewhere is not always told. */
  checkApprovals(): Promise<void>;
}

export interface LiveRunConfig extends Pick<RunStream, 'run' | 'open' | 'onLink'> {
  signal: AbortSignal;
  onChange: (timeline: Timeline) => void;
}

export function followLive({ run, open, onLink, signal, onChange }: LiveRunConfig): LiveRun {
  const timeline = shallowRef<Timeline>(emptyTimeline);
  let waiting: Signal[] = [];
  let cancelFlush: (() => void) | null = null;

  function flush(): void {
    cancelFlush?.();
    cancelFlush = null;
    if (!waiting.length) return;
    const signals = waiting;
    waiting = [];
    timeline.value = reduce(timeline.value, signals);
    onChange(timeline.value);
  }

  function onSignal(arrived: Signal): void {
    waiting.push(arrived);
    cancelFlush ??= schedule(flush);
  }

  async function checkApprovals(): Promise<void> {
    const open = openApprovals(timeline.value);
    if (!open.length) return;
    const view = await getRun(timeline.value.run);
    const still = new Set(view.approvals.map(({ id }) => id));
    const at = performance.now();
    const closed = open.filter(({ id }) => !still.has(id));
    if (!closed.length) return;
    timeline.value = reduce(
      timeline.value,
      closed.map(({ id }) => ({ event: { type: 'approval_closed' as const, id }, at })),
    );
    onChange(timeline.value);
  }

  const stream: RunStream = { ...(run !== undefined && { run }), ...(open && { open }), onSignal, onLink };
  const ended = followRun(stream, signal).finally(flush);
  return { timeline, ended, checkApprovals };
}

function schedule(work: () => void): () => void {
  if (document.hidden) {
    const timer = setTimeout(work, HIDDEN_MS);
    return () => clearTimeout(timer);
  }
  const frame = requestAnimationFrame(work);
  // The page may be hidden before the frame comes.
  const timer = setTimeout(work, HIDDEN_MS);
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}
