// All that a run needs beside its rows: a value, made anew for each run.
import type { CallTools } from './calls.ts';
import type { HistoryCache } from './history-cache.ts';
import type { Journal } from './journal.ts';
import type { Live } from './live.ts';
import type { Json } from './messages.ts';
import type { LoadFile, Model, ToolSpec } from './model.ts';
import type { Window } from './project.ts';
import type { Mask } from './shown.ts';
import type { Tool } from './tool.ts';

export interface Limits {
  /** Model calls a run. */
  steps: number;
  /** Milliseconds from the run's first claim to its end, waiting for people not counted. */
  runMs: number;
  /** Milliseconds a tool call, where the tool itself does not say. */
  toolMs: number;
}

export const defaultLimits: Limits = { steps: 50, runMs: 30 * 60_000, toolMs: 120_000 };

export interface Assembly extends CallTools {
  agent: string;
  model: Model;
  system: string;
  limits: Limits;
  window: Window;
  loadFile?: LoadFile;
  /** For each call: takes the run's secrets out of what the tool gives, before it is recorded or shown. */
  scrub?: () => Scrubber;
  /** Called once, when this process leaves the run, however that comes; the conversation's next run may have begun. */
  close?: () => Promise<void>;
  /** One of `tools`: a valid call of it ends the run; `take` makes the run's `final` of its arguments. */
  output?: { tool: Tool; take: (args: Json) => Json };
}

/** Why a run is stopped from outside. `lost` and `shutdown` leave it to whoever claims it next. */
export type Stop = 'cancelled' | 'timeout' | 'lost' | 'shutdown';

/** One call's output and result. */
export interface Scrubber {
  /** Keeps back an end that may be the beginning of a secret; the result follows anyway. */
  output(text: string): string;
  result(value: Json): Json;
}

export interface RunEnvironment {
  journal: Journal;
  cache: HistoryCache;
  worker: string;
  live: Live;
  mask?: Mask | undefined;
  signal: AbortSignal;
  /** Undefined while the signal has not aborted. */
  stopped: () => Stop | undefined;
}

const lists = new WeakMap<CallTools['tools'], readonly ToolSpec[]>();

/** The same list while the tools are the same: models keep by it what they made of it. */
export function specsOf(tools: CallTools['tools']): readonly ToolSpec[] {
  const specs = [...tools.values()].map(({ spec }) => spec);
  const known = lists.get(tools);
  if (known?.length === specs.length && known.every((spec, i) => spec === specs[i])) return known;
  lists.set(tools, specs);
  return specs;
}
