// The one meaning of a run's events: (timeline, event) -> timeline, pure. Live streams, replays after a cut and the saved
// history all go through here, so they show the same.
import type { AgentEvent, EndReason, Json, Signal, ToolResult, Usage } from '../api/types.ts';

export type ToolState = 'running' | 'waiting' | 'done' | 'failed' | 'denied' | 'unknown' | 'stopped';

/** `ms` only where the thinking was watched as it happened. */
export interface ReasoningStep {
  kind: 'reasoning';
  text: string;
  from: number;
  ms?: number;
}

export interface TextStep {
  kind: 'text';
  text: string;
}

export interface ToolStep {
  kind: 'tool';
  id: string;
  name: string;
  title: string;
  icon?: string;
  args: Json;
  state: ToolState;
  /** What it printed while it ran: the end of it. */
  output: string;
  result?: Json;
  /** Only head and tail of the result are here. */
  isTruncated?: true;
  ms?: number;
}

export interface ApprovalStep {
  kind: 'approval';
  id: string;
  call: string;
  why: string;
  rule?: string;
  /** `closed`: decided elsewhere, or not needed any more. */
  state: 'open' | 'allowed' | 'denied' | 'closed';
  comment?: string;
}

export interface NoticeStep {
  kind: 'notice';
  code: string;
  message: string;
}

export type Step = ReasoningStep | TextStep | ToolStep | ApprovalStep | NoticeStep;

export interface Timeline {
  run: string;
  model: string;
  steps: readonly Step[];
  /** Steps before this are in the record; text behind it may still become void. */
  committed: number;
  epoch: number;
  usage: Usage | null;
  end: { reason: EndReason; ms: number } | null;
  error: { code: string; message: string; hint: string } | null;
}

/** Ours, beside the server's events: an approval of which the server says that it is not open. */
export type LocalEvent = { type: 'approval_closed'; id: string };

/** Characters kept of what a tool prints. */
const OUTPUT_LIMIT = 100_000;
export const RESUMED = 'run.continued';

export const emptyTimeline: Timeline = {
  run: '',
  model: '',
  steps: [],
  committed: 0,
  epoch: 0,
  usage: null,
  end: null,
  error: null,
};

export const isOver = (timeline: Timeline): boolean => timeline.end !== null || timeline.error !== null;

export const openApprovals = ({ steps }: Timeline): ApprovalStep[] =>
  steps.filter((step): step is ApprovalStep => step.kind === 'approval' && step.state === 'open');

type AnySignal = Signal | { event: LocalEvent; at: number; epoch?: number };

export function reduce(timeline: Timeline, signals: readonly AnySignal[]): Timeline {
  return signals.reduce((state, signal) => apply(atEpoch(state, signal), signal.event, signal.at), timeline);
}

/** A higher epoch is another worker: after an approval that is usual, else the first one was lost. */
function atEpoch(state: Timeline, { epoch, event }: AnySignal): Timeline {
  if (epoch === undefined || epoch <= state.epoch) return state;
  const isFirst = state.epoch === 0;
  const wasAnswered = state.steps.some((step, i) => step.kind === 'approval' && i >= lastResult(state.steps));
  const next = { ...state, epoch };
  return isFirst || wasAnswered || event.type === 'run_start' ? next : withResumed(next);
}

const lastResult = (steps: readonly Step[]): number =>
  steps.findLastIndex((step) => step.kind === 'text' || step.kind === 'reasoning');

function apply(state: Timeline, event: AgentEvent | LocalEvent, at: number): Timeline {
  switch (event.type) {
    case 'run_start':
      return { ...state, run: event.run, model: event.model };
    case 'reasoning':
      return withText(state, 'reasoning', { text: event.text, at });
    case 'token':
      return withText(state, 'text', { text: event.text, at });
    case 'step_restart':
      return { ...state, steps: state.steps.filter((step, i) => i < state.committed || !isStreamed(step)) };
    case 'usage':
      return { ...commit(state, at), model: event.model, usage: sum(state.usage, event.usage) };
    case 'tool_call':
      return commit({ ...state, steps: [...state.steps, ...event.calls.map(toTool)] }, at);
    case 'tool_output':
      return withTool(state, event.id, (tool) => ({ ...tool, output: withOutput(tool.output, event.text) }));
    case 'tool_result':
      return commit(event.results.reduce(withResult, state), at);
    case 'approval_request':
      return withApproval(state, event);
    case 'approval_decision':
      return withDecision(state, event);
    case 'approval_closed':
      return closeApproval(state, event.id);
    case 'warning':
      return event.code === RESUMED ? withResumed(state) : withNotice(state, event);
    case 'run_end':
      return settle({ ...commit(state, at), end: { reason: event.reason, ms: event.ms }, usage: event.usage });
    case 'error':
      return settle({ ...commit(state, at), error: { code: event.code, message: event.message, hint: event.hint } });
  }
}

const isStreamed = (step: Step): boolean => step.kind === 'text' || step.kind === 'reasoning';

/** Goes on with the last text or thought of the open step; a notice does not part it in two. */
function withText(state: Timeline, kind: 'text' | 'reasoning', { text, at }: { text: string; at: number }): Timeline {
  const index = state.steps.findLastIndex((step) => step.kind !== 'notice');
  const last = state.steps[index];
  if (last?.kind === kind && index >= state.committed) {
    return { ...state, steps: state.steps.with(index, { ...last, text: last.text + text }) };
  }
  const steps = endThought(state.steps, at);
  return { ...state, steps: [...steps, kind === 'text' ? { kind, text } : { kind, text, from: at }] };
}

/** Thinking ends where something else begins. */
function endThought(steps: readonly Step[], at: number): readonly Step[] {
  const index = steps.findLastIndex((step) => step.kind !== 'notice');
  const last = steps[index];
  if (last?.kind !== 'reasoning' || last.ms !== undefined) return steps;
  return steps.with(index, { ...last, ms: Math.max(0, Math.round(at - last.from)) });
}

function commit(state: Timeline, at: number): Timeline {
  const steps = endThought(state.steps, at);
  return { ...state, steps, committed: steps.length };
}

function toTool(call: { id: string; name: string; title: string; icon?: string; args: Json }): ToolStep {
  return { kind: 'tool', ...call, state: 'running', output: '' };
}

function withTool(state: Timeline, id: string, change: (tool: ToolStep) => ToolStep): Timeline {
  return {
    ...state,
    steps: state.steps.map((step) => (step.kind === 'tool' && step.id === id ? change(step) : step)),
  };
}

/** Cut only when twice the limit is there: each event then costs what it brings. */
function withOutput(output: string, text: string): string {
  const longer = output + text;
  return longer.length > 2 * OUTPUT_LIMIT ? longer.slice(-OUTPUT_LIMIT) : longer;
}

function withResult(state: Timeline, { id, result, truncated, isError, fault, ms, args }: ToolResult): Timeline {
  const resultState = stateOf(isError, fault);
  const changed = withTool(state, id, (tool) => ({
    ...tool,
    ...(args !== undefined && { args }),
    state: resultState,
    result,
    ...(truncated && { isTruncated: truncated }),
    ms,
  }));
  const decided = resultState === 'denied' ? 'denied' : 'allowed';
  return { ...changed, steps: changed.steps.map((step) => (isOpenFor(step, id) ? { ...step, state: decided } : step)) };
}

const isOpenFor = (step: Step, call: string): step is ApprovalStep =>
  step.kind === 'approval' && step.call === call && step.state === 'open';

function stateOf(isError: boolean, fault: ToolResult['fault']): ToolState {
  if (!isError) return 'done';
  return fault === 'outcome_unknown' ? 'unknown' : (fault ?? 'failed');
}

function withApproval(state: Timeline, event: Extract<AgentEvent, { type: 'approval_request' }>): Timeline {
  const { id, call, why, rule } = event;
  if (state.steps.some((step) => step.kind === 'approval' && step.id === id)) return state;
  const waiting = withTool(state, call, (tool) => ({ ...tool, state: 'waiting' }));
  const step: ApprovalStep = { kind: 'approval', id, call, why, state: 'open', ...(rule !== undefined && { rule }) };
  const steps = [...waiting.steps, step];
  return { ...waiting, steps, committed: steps.length };
}

function withDecision(state: Timeline, event: Extract<AgentEvent, { type: 'approval_decision' }>): Timeline {
  const { id, call, effect, comment } = event;
  const decided = effect === 'allow' ? 'allowed' : 'denied';
  const steps = state.steps.map((step): Step => {
    if (step.kind !== 'approval' || step.id !== id) return step;
    return { ...step, state: decided, ...(comment && { comment }) };
  });
  return withTool({ ...state, steps }, call, (tool) =>
    tool.state === 'waiting' ? { ...tool, state: effect === 'allow' ? 'running' : 'denied' } : tool,
  );
}

function closeApproval(state: Timeline, id: string): Timeline {
  const open = state.steps.find((step) => step.kind === 'approval' && step.id === id && step.state === 'open');
  if (open?.kind !== 'approval') return state;
  const steps = state.steps.map((step) => (step === open ? { ...open, state: 'closed' as const } : step));
  return withTool({ ...state, steps }, open.call, (tool) =>
    tool.state === 'waiting' ? { ...tool, state: 'running' } : tool,
  );
}

function withNotice(state: Timeline, { code, message }: { code: string; message: string }): Timeline {
  return { ...state, steps: [...state.steps, { kind: 'notice', code, message }] };
}

/** Said once for a take-over, by the warning or by the higher epoch, whichever comes first. */
function withResumed(state: Timeline): Timeline {
  const said = state.steps.findLastIndex((step) => step.kind === 'notice' && step.code === RESUMED);
  const hasGoneOn = state.steps.slice(said + 1).some((step, i) => said + 1 + i < state.committed || !isStreamed(step));
  if (said >= 0 && !hasGoneOn) return state;
  return withNotice(state, { code: RESUMED, message: '' });
}

/** When a run is over nothing of it goes on. */
function settle(state: Timeline): Timeline {
  const steps = state.steps.map((step): Step => {
    if (step.kind === 'tool' && step.state === 'running') return { ...step, state: 'unknown' };
    if (step.kind === 'tool' && step.state === 'waiting') return { ...step, state: 'stopped' };
    if (step.kind === 'approval' && step.state === 'open') return { ...step, state: 'closed' };
    return step;
  });
  return { ...state, steps };
}

function sum(a: Usage | null, b: Usage): Usage {
  if (!a) return b;
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
  };
}
