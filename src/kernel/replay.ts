// What a commit shows. The loop emits its events from here, and so does whoever tells a run again from the record: a
// client that comes back, on any process, gets exactly what it missed.
import type { AgentEvent, Emitted, Outcome, Position } from './events.ts';
import { STREAM } from './events.ts';
import type { EntryBody, RunRecord } from './journal.ts';
import type { AssistantBody } from './messages.ts';
import { callsOf } from './messages.ts';
import type { Mask } from './shown.ts';
import { toShown } from './shown.ts';

/** The events that a commit makes true, in order: the first `k` of the segment that it opens. */
export function eventsOf(
  entries: readonly EntryBody[],
  run: string,
  { outcome, mask = (value) => value }: { outcome?: Outcome | null | undefined; mask?: Mask | undefined } = {},
): AgentEvent[] {
  const events: AgentEvent[] = [];
  for (const entry of entries) {
    if (entry.kind === 'assistant') {
      const { usage, model, parts, asks = [] } = entry.body;
      events.push({ type: 'usage', usage, model });
      const calls = callsOf(parts).map(({ id, name, title, icon, args, raw }) => {
        const shown = { id, name, title: title ?? name, args: mask(raw === undefined ? args : raw) };
        return icon === undefined ? shown : { ...shown, icon };
      });
      if (calls.length) events.push({ type: 'tool_call', calls });
      for (const { step, call, why, rule } of asks) {
        events.push({ type: 'approval_request', id: `${run}:${step}`, call, why, ...(rule !== undefined && { rule }) });
      }
    } else if (entry.kind === 'tool_result') {
      const { call, name, result, isError = false, fault, ms, args } = entry.body;
      const last = events.at(-1);
      const shown = {
        id: call,
        name,
        ...toShown(result, mask),
        isError,
        ...(fault && { fault }),
        ms,
        ...(args !== undefined && { args: mask(args) }),
      };
      if (last?.type === 'tool_result') last.results.push(shown);
      else events.push({ type: 'tool_result', results: [shown] });
    } else if (entry.kind === 'notice' && outcome?.type !== 'error') {
      events.push({ type: 'warning', code: entry.body.code, message: entry.body.message });
    }
  }
  if (outcome?.type === 'run_end') {
    events.push(outcome);
  } else if (outcome?.type === 'error') {
    const { code, message, hint } = outcome;
    events.push({ type: 'error', code, message, hint });
  }
  return events;
}

/** What was streamed before the commit that recorded it, as whole parts. `at`: the segment in which it was streamed. */
export function streamOf(
  { parts, voided = 0 }: Pick<AssistantBody, 'parts' | 'voided'>,
  at: { commit: number; epoch: number },
): Emitted[] {
  const stream: Emitted[] = [];
  let k = STREAM + voided;
  if (voided) stream.push({ event: { type: 'step_restart' }, position: { ...at, k } });
  for (const part of parts) {
    if (part.type === 'tool_call' || !part.text) continue;
    k += part.text.length;
    const type = part.type === 'text' ? 'token' : 'reasoning';
    stream.push({ event: { type, text: part.text }, position: { ...at, k } });
  }
  return stream;
}

export function runStart({ run, conversation, request }: RunRecordHead, at: string): AgentEvent {
  return { type: 'run_start', run, conversation, agent: request.agent, model: request.model, at };
}

type RunRecordHead = Pick<RunRecord, 'run' | 'conversation' | 'request'>;

/** All that the record tells of a run (or of its part after a commit), in the order in which it was emitted. */
export function replay(record: RunRecord, mask?: Mask): Emitted[] {
  const emitted: Emitted[] = [];
  if (record.startedAt)
    emitted.push({ event: runStart(record, record.startedAt), position: { commit: 0, epoch: 1, k: 0 } });
  const terminal = record.outcome ? record.commits : -1;
  const commits = Map.groupBy(record.entries, (entry) => entry.commit);
  if (terminal >= 0 && !commits.has(terminal)) commits.set(terminal, []);
  for (const [commit, entries] of commits) {
    const epoch = entries[0]?.epoch ?? record.epoch;
    for (const entry of entries) {
      if (entry.kind === 'assistant') emitted.push(...streamOf(entry.body, { commit: commit - 1, epoch }));
    }
    const outcome = commit === terminal ? record.outcome : null;
    for (const [k, event] of eventsOf(entries, record.run, { outcome, mask }).entries()) {
      emitted.push({ event, position: { commit, epoch, k } });
    }
  }
  return emitted;
}

/**
 * Passes on what lies behind a cursor, once and in order: skips what was seen, cuts a part that was seen in half, and
 * says `step_restart` where the client shows characters of an attempt that never became part of the record.
 */
export function createCursor(after: Position | null, on: (emitted: Emitted) => void) {
  let { commit, epoch, k } = after ?? { commit: 0, epoch: 0, k: -1 };

  const moveTo = (position: Position) => {
    ({ commit, epoch, k } = position);
  };
  const sawStream = () => k > STREAM;
  const restart = (at: Position) => on({ event: { type: 'step_restart' }, position: at });

  function deliver(emitted: Emitted): void {
    const { event, position } = emitted;
    if (!position) return on(emitted);
    if (position.commit < commit) return undefined;
    if (position.k < STREAM) {
      if (position.commit === commit && position.k <= k) return undefined;
      // The restart stands in the segment that it makes void: whoever leaves after it has not seen this event yet.
      if (position.commit > commit && sawStream() && position.epoch !== epoch) {
        restart({ commit, epoch: position.epoch, k: STREAM });
      }
    } else {
      if (position.commit === commit && sawStream()) {
        if (position.epoch < epoch) return undefined;
        if (position.epoch > epoch) {
          epoch = position.epoch;
          k = STREAM;
          restart({ commit, epoch, k });
        }
        if (position.k <= k) return undefined;
      }
      const isSameSegment = position.commit === commit && sawStream();
      if (event.type === 'step_restart') {
        moveTo(position);
        return isSameSegment ? on(emitted) : undefined;
      }
      if (isSameSegment && (event.type === 'token' || event.type === 'reasoning')) {
        const start = position.k - event.text.length;
        if (start < k) {
          const rest = { ...event, text: event.text.slice(k - start) };
          moveTo(position);
          return on({ event: rest, position });
        }
      }
    }
    moveTo(position);
    return on(emitted);
  }

  return {
    deliver,
    /** The last commit of which nothing is missing; what follows must be read from the record. */
    seenCommits: () => commit - 1,
  };
}
