import type { AgentEvent } from './events.ts';
import type { Json } from './messages.ts';
import type { ModelRequest } from './model.ts';
import type { Tool } from './tool.ts';

export interface RunContext {
  run: string;
  tenant: string;
  owner: string;
  conversation: string;
}

export interface ToolCall {
  id: string;
  tool: Tool;
  args: unknown;
}

/**
 * Hooks around a run, in the order of the list; the first is the outermost. `model` may change each request (for
 * example add the time to the prompt), but not the journal. `tool` wraps the execution of an allowed call and must call
 * `next` at most once. `event` only looks: what it throws is logged and changes nothing.
 */
export interface Middleware {
  name: string;
  model?(request: ModelRequest, context: RunContext): ModelRequest | Promise<ModelRequest>;
  tool?(call: ToolCall, next: () => Promise<Json>, context: RunContext): Promise<Json>;
  event?(event: AgentEvent, context: RunContext): void;
}
