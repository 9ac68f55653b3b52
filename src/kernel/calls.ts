// One tool call: what it is allowed to be, and running it. Whatever goes wrong becomes a result that the model can read.
import { messageOf } from './errors.ts';
import type { Scrubber } from './assembly.ts';
import type { CallFault, Json, ToolCallPart, ToolResultBody } from './messages.ts';
import type { Middleware, RunContext } from './middleware.ts';
import type { Answer, Decision, Policy } from './policy.ts';
import type { Tool } from './tool.ts';
import { toResult } from './tool.ts';

export interface CallTools {
  tools: ReadonlyMap<string, Tool>;
  policy: Policy;
  middleware: readonly Middleware[];
}

/** A call that may run, waits for a person, or is settled already because it never can run. */
export type Checked =
  | { state: 'allowed'; tool: Tool; args: unknown }
  | { state: 'asks'; why: string; rule?: string }
  | { state: 'settled'; why: string; result: ToolResultBody };

export function failed(
  call: ToolCallPart,
  message: Json,
  { fault, ms = 0 }: { fault?: CallFault; ms?: number } = {},
): ToolResultBody {
  return { call: call.id, name: call.name, result: message, isError: true, ...(fault && { fault }), ms };
}

/** Validates a call and lets the policy decide. With an answer of a person, an ask of the policy counts as allowed. */
export async function check(
  call: ToolCallPart,
  { tools, policy }: CallTools,
  options: { context: RunContext; signal: AbortSignal; answer?: Answer },
): Promise<Checked> {
  const { context, signal, answer } = options;
  const settle = (why: string, more = 'Nothing was executed.', fault?: CallFault): Checked => {
    return { state: 'settled', why, result: failed(call, `${why} ${more}`, fault && { fault }) };
  };
  if (answer?.effect === 'deny') {
    const why = `A person denied this call${answer.comment ? `: ${answer.comment}` : '.'}`;
    return settle(why, 'Do not repeat it.', 'denied');
  }
  if (call.raw !== undefined) {
    const more = 'Nothing was executed. Call again with complete arguments.';
    return settle('The arguments are not valid JSON (cut off?).', more);
  }
  const tool = tools.get(call.name);
  if (!tool) {
    const names = [...tools.keys()].join(', ') || 'none';
    return settle(`There is no tool "${call.name}".`, `Nothing was executed. Available tools: ${names}.`);
  }
  const args = answer?.args ?? call.args;
  let valid: { value: unknown } | { problem: string };
  let decision: Decision;
  try {
    valid = await untilAborted(tool.validate(args), signal);
    if ('problem' in valid) return settle(`Invalid arguments: ${valid.problem}.`);
    decision = await untilAborted(policy.decide({ id: call.id, tool, args, ...context }), signal);
  } catch (error) {
    return settle(`This call could not be checked: ${messageOf(error)}.`);
  }
  if (decision.effect === 'deny') return settle(`Denied: ${decision.why}`, undefined, 'denied');
  if (decision.effect === 'ask' && answer === undefined) {
    return { state: 'asks', why: decision.why, ...(decision.rule !== undefined && { rule: decision.rule }) };
  }
  return { state: 'allowed', tool, args: valid.value };
}

export interface Execution {
  call: ToolCallPart;
  tool: Tool;
  args: unknown;
  /** `run:step`: the same at every attempt. */
  key: string;
  timeoutMs: number;
  context: RunContext;
  middleware: readonly Middleware[];
  output: (text: string) => void;
  scrubber?: Scrubber | undefined;
}

/** What a timer can hold, about 25 days; a longer one would fire at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Runs an allowed call; never rejects. A tool that ignores its signal is left behind when that aborts. */
export async function execute(execution: Execution, signal: AbortSignal): Promise<ToolResultBody> {
  const { call, tool, args, key, timeoutMs, context, middleware, output, scrubber } = execution;
  const started = performance.now();
  const elapsed = () => Math.round(performance.now() - started);
  const controller = new AbortController();
  const scrubbed = (value: Json) => (scrubber ? scrubber.result(value) : value);
  let isOver = false;
  const show = (text: string) => {
    if (isOver || controller.signal.aborted) return;
    const shown = scrubber ? scrubber.output(text) : text;
    if (shown) output(shown);
  };
  const { promise: stopped, resolve: stop } = Promise.withResolvers<string>();
  const abort = (why: string) => {
    controller.abort(new DOMException(why, 'AbortError'));
    stop(why);
  };
  const timer = setTimeout(
    () => abort(`It ran longer than its limit of ${timeoutMs / 1000} s.`),
    Math.min(timeoutMs, LONGEST_TIMER_MS),
  );
  const onAbort = () => abort('The run was stopped.');
  signal.addEventListener('abort', onAbort, { once: true });

  const base = async (): Promise<Json> =>
    toResult(
      await tool.run(args as never, {
        ...context,
        key,
        call: call.id,
        signal: controller.signal,
        scrub: (text) => String(scrubbed(text)),
        output: show,
      }),
    );
  const chain = middleware.reduceRight<() => Promise<Json>>(
    (next, layer) => (layer.tool ? () => layer.tool!({ id: call.id, tool, args }, next, context) : next),
    base,
  );
  try {
    if (signal.aborted) onAbort();
    const ended = controller.signal.aborted
      ? { stopped: await stopped }
      : await Promise.race([chain().then((result) => ({ result })), stopped.then((why) => ({ stopped: why }))]);
    if ('result' in ended) {
      return { call: call.id, name: call.name, result: scrubbed(ended.result), ms: elapsed() };
    }
    if (tool.effect === 'read') {
      const fault = signal.aborted && ({ fault: 'stopped' } as const);
      return failed(call, `${ended.stopped} It has no result.`, { ...fault, ms: elapsed() });
    }
    const told = `${ended.stopped} It may or may not have taken effect: verify before repeating.`;
    return failed(call, told, { fault: 'outcome_unknown', ms: elapsed() });
  } catch (error) {
    const ms = elapsed();
    if (!controller.signal.aborted) return failed(call, scrubbed(`The tool failed: ${messageOf(error)}`), { ms });
    const told = `${await stopped} It may or may not have taken effect.`;
    return failed(call, told, { fault: 'outcome_unknown', ms });
  } finally {
    isOver = true;
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

/** A call that had begun and of which no more is known. */
export function outcomeUnknown(call: ToolCallPart, reason: string): ToolResultBody {
  const unknown = 'tool.outcome_unknown: the server stopped while this call ran. It may or may not have taken effect.';
  return failed(call, `${unknown} ${reason} Verify before repeating.`, { fault: 'outcome_unknown' });
}

/**
 * A call that was in flight when its worker died: `again` when running it twice does no harm, else what is known of it.
 */
export async function recover(
  call: ToolCallPart,
  tool: Tool | undefined,
  { key, signal }: { key: string; signal: AbortSignal },
): Promise<'again' | ToolResultBody> {
  if (tool && tool.effect !== 'once') return 'again';
  try {
    const found = await untilAborted(tool?.probe?.(key), signal);
    if (found) return { call: call.id, name: call.name, result: found.result, ms: 0 };
  } catch (error) {
    return outcomeUnknown(call, `Looking it up failed: ${messageOf(error)}.`);
  }
  return outcomeUnknown(call, 'It was not repeated.');
}

/**
 * The model's calls with ids that are legal and unique in their run, and arguments parsed where they are JSON. Of an
 * answer that was cut off, a call without arguments is one whose arguments are missing.
 */
export function toCallParts(
  raw: readonly { id: string; name: string; args: string }[],
  options: { taken: Set<string>; tools: ReadonlyMap<string, Tool>; firstStep: number; isCut: boolean },
): ToolCallPart[] {
  return raw.map(({ id, name, args }, index) => {
    const isUsable = /^[A-Za-z0-9_.:-]{1,64}$/.test(id) && !options.taken.has(id);
    let unique = isUsable ? id : `call_${options.firstStep + index}`;
    while (options.taken.has(unique)) unique += '_';
    options.taken.add(unique);
    const { title, icon } = options.tools.get(name) ?? {};
    const extra = { ...(title !== undefined && title !== name && { title }), ...(icon !== undefined && { icon }) };
    const part = { type: 'tool_call' as const, id: unique, name, args: null as Json, ...extra };
    try {
      return { ...part, args: args.trim() === '' && !options.isCut ? {} : (JSON.parse(args) as Json) };
    } catch {
      return { ...part, raw: args };
    }
  });
}

/** Leaves behind what ignores its signal: rejects with the signal's reason. */
export function untilAborted<T>(promise: T | Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    const settle = () => signal.removeEventListener('abort', abort);
    Promise.resolve(promise).then(resolve, reject).finally(settle);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
