// The saved entries of a conversation as turns: what a person said, and what one run made of it.
import type { AgentEvent, Entry, FilePart, Json, Signal } from '../api/types.ts';
import type { Timeline } from './timeline.ts';
import { emptyTimeline, reduce } from './timeline.ts';

export interface UserTurn {
  role: 'user';
  key: string;
  /** Empty until the server has named it. */
  run: string;
  at: string;
  text: string;
  files: { id: string; name: string; mime: string; bytes: number }[];
  /** Of the first entry; undefined until it is in the record. */
  seq?: number;
  modelName?: string;
}

export interface AssistantTurn {
  role: 'assistant';
  key: string;
  run: string;
  at: string;
  /** A shallow ref while the run is live, else a plain object: history is never walked by Vue. */
  timeline: { readonly value: Timeline };
  /** Of the last entry. */
  seq?: number;
  /** From the message to the end. */
  ms?: number;
}

export type Turn = UserTurn | AssistantTurn;

/** `openRun`: the run under way; only its message is taken, the rest comes as events. */
export function toTurns(entries: readonly Entry[], openRun?: string): Turn[] {
  const turns: Turn[] = [];
  const runs = Map.groupBy(entries, (entry) => entry.run);
  for (const [run, ofRun] of runs) {
    const said = ofRun.filter((entry) => entry.kind === 'user');
    if (said.length) turns.push(toUserTurn(run, said));
    const done = ofRun.filter((entry) => entry.kind !== 'user');
    if (run !== openRun) turns.push(toAssistantTurn(run, { done, from: said[0] ?? done[0]! }));
  }
  return turns;
}

function toUserTurn(run: string, said: Extract<Entry, { kind: 'user' }>[]): UserTurn {
  const parts = said.flatMap((entry) => entry.parts);
  return {
    role: 'user',
    key: `${run}:user`,
    run,
    at: said[0]!.at,
    text: parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n'),
    files: parts.filter((part): part is FilePart => part.type === 'file'),
    seq: said[0]!.id,
  };
}

function toAssistantTurn(run: string, { done, from }: { done: Entry[]; from: Entry }): AssistantTurn {
  const last = done.at(-1) ?? from;
  const start: Timeline = { ...emptyTimeline, run, epoch: from.epoch ?? 0 };
  const told = reduce(start, done.flatMap(toSignals));
  const failure = last.kind === 'notice' && last.hint !== undefined ? last : undefined;
  const end: AgentEvent = failure
    ? { type: 'error', code: failure.code, message: failure.message, hint: failure.hint ?? '' }
    : { type: 'run_end', reason: reasonOf(last), usage: told.usage ?? noUsage, ms: 0 };
  const timeline = reduce(told, [{ event: end, at: 0 }]);
  const ms = Date.parse(last.at) - Date.parse(from.at);
  return {
    role: 'assistant',
    key: `${run}:assistant`,
    run,
    at: last.at,
    timeline: { value: timeline },
    seq: last.id,
    ms,
  };
}

const noUsage = { inputTokens: 0, outputTokens: 0, reasoningTokens: 0, cachedTokens: 0 };

const REASONS = ['length', 'content_filter', 'max_steps', 'cancelled'] as const;

/** A run ends with an answer, or with a notice that says why not; one that was stopped may end with anything. */
function reasonOf(last: Entry): 'done' | (typeof REASONS)[number] {
  if (last.kind === 'notice') return REASONS.find((reason) => last.code === `run.${reason}`) ?? 'done';
  if (last.kind !== 'assistant') return 'cancelled';
  return last.interrupted || last.parts.some((part) => part.type === 'tool_call') ? 'cancelled' : 'done';
}

function toSignals(entry: Entry): Signal[] {
  return eventsOf(entry).map((event) => ({ event, at: 0, ...(entry.epoch !== undefined && { epoch: entry.epoch }) }));
}

function eventsOf(entry: Entry): AgentEvent[] {
  if (entry.kind === 'tool_result') {
    const { call, name, result, truncated, isError = false, fault, ms, args } = entry;
    return [
      {
        type: 'tool_result',
        results: [
          {
            id: call,
            name,
            result,
            ...(truncated && { truncated }),
            isError,
            ...(fault && { fault }),
            ms,
            ...(args !== undefined && { args }),
          },
        ],
      },
    ];
  }
  if (entry.kind === 'notice') {
    const isEnd = entry.hint !== undefined || REASONS.some((reason) => entry.code === `run.${reason}`);
    return isEnd ? [] : [{ type: 'warning', code: entry.code, message: entry.message }];
  }
  if (entry.kind !== 'assistant') return [];
  const events: AgentEvent[] = [];
  const calls: Extract<AgentEvent, { type: 'tool_call' }>['calls'] = [];
  for (const part of entry.parts) {
    if (part.type === 'text') events.push({ type: 'token', text: part.text });
    else if (part.type === 'reasoning') events.push({ type: 'reasoning', text: part.text });
    else calls.push(toCall(part));
  }
  events.push({ type: 'usage', usage: entry.usage, model: entry.model });
  if (calls.length) events.push({ type: 'tool_call', calls });
  for (const { step, call, why, rule } of entry.asks ?? []) {
    events.push({
      type: 'approval_request',
      id: `${entry.run}:${step}`,
      call,
      why,
      ...(rule !== undefined && { rule }),
    });
  }
  return events;
}

function toCall(part: { id: string; name: string; title?: string; icon?: string; args: Json; raw?: string }) {
  const { id, name, title = name, icon, args, raw } = part;
  return { id, name, title, args: raw ?? args, ...(icon !== undefined && { icon }) };
}
