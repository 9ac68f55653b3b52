// A model that follows a script, tools without ceremony, and what the kernel's tests wait with.
import type {
  AgentConfig,
  AgentEvent,
  FinishReason,
  Json,
  Model,
  ModelFinish,
  ModelPart,
  ModelRequest,
  StandardSchema,
  Tool,
  ToolContext,
  ToolDefinition,
} from '../../src/kernel/index.ts';
import { allowAll, createAgent, defineTool, noUsage } from '../../src/kernel/index.ts';

export interface ModelCall {
  request: ModelRequest;
  signal: AbortSignal;
  on: (part: ModelPart) => void;
}

/** Parts, then `stop` or `tool_calls`; or whatever the function does. */
export type Turn = ModelPart[] | ((call: ModelCall) => Promise<FinishReason>);

export interface ScriptedModel extends Model {
  /** Every request, in order. */
  requests: ModelRequest[];
}

/** Plays one turn a call; the last one again and again. */
export function scripted(...turns: Turn[]): ScriptedModel {
  const requests: ModelRequest[] = [];
  return {
    name: 'scripted',
    requests,
    async call(request, signal, on): Promise<ModelFinish> {
      const turn = turns[Math.min(requests.push(structuredClone(request)), turns.length) - 1]!;
      const usage = { ...noUsage, inputTokens: 10, outputTokens: 1 };
      if (typeof turn === 'function') return { usage, reason: await turn({ request, signal, on }) };
      for (const part of turn) {
        await Promise.resolve();
        on(part);
      }
      return { usage, reason: turn.some(({ type }) => type === 'tool_call') ? 'tool_calls' : 'stop' };
    },
  };
}

export const say = (text: string): ModelPart => ({ type: 'text', text });
export const think = (text: string): ModelPart => ({ type: 'reasoning', text });
export const call = (id: string, name: string, args: Json = {}): ModelPart => {
  return { type: 'tool_call', id, name, args: JSON.stringify(args) };
};

export const anything: StandardSchema<{ [key: string]: Json }> = {
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: value as { [key: string]: Json } }) },
};

export const amount: StandardSchema<{ amount: number }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) => {
      const { amount } = (value ?? {}) as { amount?: unknown };
      if (typeof amount === 'number') return { value: { amount } };
      return { issues: [{ message: 'must be a number', path: ['amount'] }] };
    },
  },
};

type Run = (args: { [key: string]: Json }, context: ToolContext) => unknown;

export function tool(name: string, run: Run, more: Partial<ToolDefinition<{ [key: string]: Json }>> = {}) {
  return defineTool({ name, description: name, parameters: anything, schema: {}, effect: 'read', run, ...more });
}

/** Never ends by itself, nor when it is told to. */
export const forever = (): Promise<never> => new Promise(() => undefined);

/** Ends as a well-behaved call does: with the signal. */
export function untilStopped(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = () => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

/** Something that happens once: `await it.happened` until somebody says `it.happens()`. */
export function moment<T = void>(): { happened: Promise<T>; happens: (value: T) => void } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { happened: promise, happens: resolve };
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 3000;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error('It did not happen within 3 s');
    await sleep(2);
  }
}

export async function collect(events: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const all: AgentEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Of all events of a type, in order. */
export function only<T extends AgentEvent['type']>(
  events: readonly AgentEvent[],
  type: T,
): Extract<AgentEvent, { type: T }>[] {
  return events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);
}

export const types = (events: readonly AgentEvent[]): string[] => events.map(({ type }) => type);

export const results = (events: readonly AgentEvent[]) => only(events, 'tool_result').flatMap((event) => event.results);

/** An agent whose tools may all run, unless told otherwise. */
export function setUp(tools: Tool[], turns: Turn[], more: Partial<AgentConfig> = {}) {
  const model = scripted(...turns);
  const log = { warn: () => {}, error: () => {} };
  const agent = createAgent({ model, tools, policy: allowAll, log, ...more });
  const run = (text = 'go', input: object = {}) => collect(agent.run({ conversation: 'web', text, ...input }));
  return { model, agent, run, [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
}

/** The results that the model was told last, as `id: text`. */
export const toldResults = (model: ScriptedModel) =>
  model.requests.at(-1)!.messages.flatMap((message) => {
    return message.role === 'tool' ? [`${message.call}: ${JSON.stringify(message.result)}`] : [];
  });

/** The ids of all calls in the order of their results. Throws where a call has not exactly one. */
export function settledCalls(events: readonly AgentEvent[]): string[] {
  const open = new Set<string>();
  const settled: string[] = [];
  for (const event of events) {
    if (event.type === 'tool_call') for (const { id } of event.calls) open.add(id);
    for (const { id } of event.type === 'tool_result' ? event.results : []) {
      if (!open.delete(id)) throw new Error(`A second or early result of ${id}`);
      settled.push(id);
    }
  }
  if (open.size) throw new Error(`No result of ${[...open].join()}`);
  return settled;
}
