import type { FilePart, Json, Message, Usage } from './messages.ts';

/** A tool as a model sees it: a legal, unique name and the JSON Schema of its arguments. */
export interface ToolSpec {
  name: string;
  description: string;
  schema: { [key: string]: Json };
}

/** The content of a file that a message names. Rejects when it cannot be had, and on abort with the signal's reason. */
export type LoadFile = (file: FilePart, signal: AbortSignal) => Promise<Uint8Array>;

export interface ModelRequest {
  system: string;
  messages: readonly Message[];
  /** The same array for every step whose tools are the same, so that adapters may cache what they make of it. */
  tools: readonly ToolSpec[];
  /** Absent: files are shown by name only. */
  load?: LoadFile;
  /** The most that messages and written-out files should be together. Absent: files have limits of their own only. */
  windowTokens?: number;
}

/**
 * What a model says, in the order in which it says it. `tool_call` comes whole: `args` is the JSON text as the model
 * wrote it, which may be broken or empty. `metadata` (a signature) ends a reasoning part; its text may be empty.
 * A warning's `data` is for programs. `restart` makes everything since the call's start void: the answer begins anew.
 */
export type ModelPart =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string; metadata?: Json }
  | { type: 'tool_call'; id: string; name: string; args: string }
  | { type: 'warning'; code: string; message: string; data?: { [key: string]: Json } }
  | { type: 'restart' };

export type FinishReason = 'stop' | 'tool_calls' | 'length' | 'content_filter';

export interface ModelFinish {
  reason: FinishReason;
  usage: Usage;
  /** The model that answered, as the provider names it; it may differ from the one asked for. */
  model?: string;
}

/**
 * The model port. `call` hands over each part by a plain callback, at once, and resolves after the last one. It rejects
 * with an AgentError (`models.*`); when `signal` aborts it closes the request and rejects with the signal's reason.
 * A stream that ends without a finish reason is an error. `on` never throws.
 */
export interface Model {
  /** Shown to people and recorded with each answer. */
  readonly name: string;
  call(request: ModelRequest, signal: AbortSignal, on: (part: ModelPart) => void): Promise<ModelFinish>;
}
