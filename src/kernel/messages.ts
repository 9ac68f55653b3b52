// Messages and parts, independent of any provider. Everything here is plain JSON: it is what the journal stores.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface TextPart {
  type: 'text';
  text: string;
}

/** What the model thought. `metadata` is the provider's own (signatures): kept as it came, sent back as it came. */
export interface ReasoningPart {
  type: 'reasoning';
  text: string;
  metadata?: Json;
}

/** A file is referenced, never inlined; `id` names its content. */
export interface FilePart {
  type: 'file';
  id: string;
  name: string;
  mime: string;
  bytes: number;
}

/** `id` is unique within its run. `raw` is what the model wrote when that is not JSON; `args` is then null. */
export interface ToolCallPart {
  type: 'tool_call';
  id: string;
  name: string;
  args: Json;
  raw?: string;
  /** For people, where the tool has them. */
  title?: string;
  icon?: string;
}

export interface UserBody {
  parts: (TextPart | FilePart)[];
}

/** Why a call waits for a person, as the policy said it. */
export interface Ask {
  call: string;
  /** Number of the step that waits; an approval is named `run:step`. */
  step: number;
  why: string;
  rule?: string;
}

export interface AssistantBody {
  parts: (TextPart | ReasoningPart | ToolCallPart)[];
  model: string;
  usage: Usage;
  /** The answer was cut off (cancelled, failed); what is here is what was shown. */
  interrupted?: true;
  /** Characters streamed and made void before the first of `parts` (see events.ts); absent when none. */
  voided?: number;
  asks?: Ask[];
}

/** Why a call has no result of its own: refused; not begun, or without effect when it was cut off; begun, and nobody knows. */
export type CallFault = 'denied' | 'stopped' | 'outcome_unknown';

export interface ToolResultBody {
  call: string;
  name: string;
  result: Json;
  isError?: true;
  /** For people and programs; the model reads it in `result`. */
  fault?: CallFault;
  /** Milliseconds that the tool ran; 0 when it did not run. */
  ms: number;
  /** The arguments that a person gave instead of the model's. */
  args?: Json;
}

export interface NoticeBody {
  code: string;
  message: string;
  hint?: string;
}

export interface SummaryBody {
  text: string;
}

/** Tokens as the provider counted them; `cachedTokens` is the part of `inputTokens` that came from its cache. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cachedTokens: number;
}

export const noUsage: Usage = { inputTokens: 0, outputTokens: 0, reasoningTokens: 0, cachedTokens: 0 };

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
  };
}

/** A message as a model gets it. Results follow their assistant message at once, one a call, in call order. */
export type Message =
  | { role: 'user'; parts: (TextPart | FilePart)[] }
  | { role: 'assistant'; parts: (TextPart | ReasoningPart | ToolCallPart)[]; model: string }
  | { role: 'tool'; call: string; name: string; result: Json; isError: boolean };

export function callsOf(parts: readonly { type: string }[]): ToolCallPart[] {
  return parts.filter((part): part is ToolCallPart => part.type === 'tool_call');
}

export function textOf(parts: readonly { type: string }[]): string {
  return parts
    .filter((part): part is TextPart => part.type === 'text')
    .map((part) => part.text)
    .join('');
}
