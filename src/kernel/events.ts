// The one union of events: SSE, channels, command line and audit all use it. Names are snake_case, payloads camelCase JSON.
import type { CallFault, Json, Usage } from './messages.ts';

export type AgentEvent =
  | { type: 'run_start'; run: string; conversation: string; agent: string; model: string; at: string }
  | { type: 'reasoning'; text: string }
  | { type: 'token'; text: string }
  | { type: 'tool_call'; calls: { id: string; name: string; title: string; icon?: string; args: Json }[] }
  | { type: 'tool_output'; id: string; text: string }
  | { type: 'tool_result'; results: ToolResult[] }
  | { type: 'approval_request'; id: string; call: string; why: string; rule?: string }
  | { type: 'approval_decision'; id: string; call: string; effect: 'allow' | 'deny'; comment?: string }
  | { type: 'step_restart' }
  | { type: 'warning'; code: string; message: string; data?: { [key: string]: Json } }
  | { type: 'usage'; usage: Usage; model: string }
  | { type: 'run_end'; reason: EndReason; usage: Usage; ms: number; final?: Json }
  | { type: 'error'; code: string; message: string; hint: string };

export interface ToolResult {
  id: string;
  name: string;
  result: Json;
  /** Only the head and the tail are here. */
  truncated?: true;
  isError: boolean;
  fault?: CallFault;
  ms: number;
  /** The arguments that a person gave instead of the model's. */
  args?: Json;
}

/** `done`: the model finished; `length`, `content_filter`: it was cut by its host; `max_steps`: our limit. */
export type EndReason = 'done' | 'length' | 'content_filter' | 'max_steps' | 'cancelled';

/** How a run ended; kept with the run, so that its last event can be told again. */
export type Outcome =
  | { type: 'run_end'; reason: EndReason; usage: Usage; ms: number; final?: Json }
  | { type: 'error'; code: string; message: string; hint: string; usage: Usage; ms: number };

/**
 * Where an event stands in its run. Between two commits of a run lies a segment, numbered by the commits before it.
 * Its first events are what that commit made true: `k` = 0, 1, ... Then come the characters that the model streams:
 * `k` = STREAM + the number of UTF-16 units shown so far, in the order reasoning and text came. So a client that saw
 * half a step can be given exactly the other half, by any process, from the committed text alone. What a retry makes
 * void stays counted (`step_restart` counts one). `epoch` tells a dead worker's characters from its successor's.
 * An event with no position (`tool_output`, most warnings) is live only.
 */
export interface Position {
  commit: number;
  epoch: number;
  k: number;
}

export const STREAM = 1_000_000;

export interface Emitted {
  event: AgentEvent;
  /** Of the event's last character; null for what is live only. */
  position: Position | null;
  /** The encoded form, made once by the first watcher that needs it. */
  wire?: string;
}

export function toEventId(run: string, { commit, epoch, k }: Position): string {
  return `${run}:${commit}:${epoch}:${k}`;
}

/** Undefined when the text is not an id of `run`. */
export function parseEventId(run: string, text: string): Position | undefined {
  const match = /^(.+):(\d{1,9}):(\d{1,9}):(\d{1,15})$/.exec(text);
  if (!match || match[1] !== run) return undefined;
  return { commit: Number(match[2]), epoch: Number(match[3]), k: Number(match[4]) };
}

export function isTerminal(event: AgentEvent): boolean {
  return event.type === 'run_end' || event.type === 'error';
}
