// Chat-completions hosts that refuse what some real one refuses, each for one reason.
import type { SchemaDialect } from '../models/schema-dialect.ts';
import type { ModelServer, WireMessage, WireRequest } from './model-server.ts';
import { createModelServer } from './model-server.ts';
import { parametersProblem } from './strict-schemas.ts';

/** Why a host refuses a request; undefined when it takes it. */
export type StrictRule = (request: WireRequest) => string | undefined;

const isAssistant = ({ role }: WireMessage): boolean => role === 'assistant';
const callsOf = ({ tool_calls: calls = [] }: WireMessage) => calls;

function find(messages: readonly WireMessage[], check: (message: WireMessage, i: number) => string | undefined) {
  for (const [i, message] of messages.entries()) {
    const problem = check(message, i);
    if (problem) return `messages[${i}]: ${problem}`;
  }
  return undefined;
}

function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) && isWhole(value);
  } catch {
    return false;
  }
}

/** No half of a character is in it: readers of UTF-8 refuse the whole request. */
export function isWhole(value: unknown): boolean {
  let isBroken = false;
  JSON.stringify(value, (key, each: unknown) => {
    isBroken ||= !key.isWellFormed() || (typeof each === 'string' && !each.isWellFormed());
    return each;
  });
  return !isBroken;
}

const isBlank = (message: WireMessage): boolean => {
  const { content } = message;
  if (Array.isArray(content)) return !content.length || content.some((part) => part.text === '');
  return content === '' || (!content?.trim() && !callsOf(message).length);
};

/** DeepSeek's and Kimi's thinking models: within a turn, calls come with the thoughts that led to them. */
export const demandsReasoning: StrictRule = ({ messages }) => {
  const turn = messages.findLastIndex(({ role }) => role === 'user');
  return find(messages, (message, i) =>
    i > turn && callsOf(message).length && !message.reasoning_content
      ? 'Missing `reasoning_content` field in the assistant message'
      : undefined,
  );
};

export const forbidsReasoning: StrictRule = ({ messages }) =>
  find(messages, (message) => {
    const field = ['reasoning_content', 'reasoning'].find((name) => name in message);
    return field && `Unexpected field: ${field}`;
  });

export const refusesOrphans: StrictRule = ({ messages }) => {
  let open: string[] = [];
  const problem = find(messages, (message) => {
    if (message.role === 'tool') {
      const at = open.indexOf(message.tool_call_id ?? '');
      if (at < 0) return `the tool result ${message.tool_call_id} has no call before it`;
      open.splice(at, 1);
      return undefined;
    }
    if (open.length) return `the calls ${open.join(', ')} have no result directly behind them`;
    open = callsOf(message).map(({ id }) => id);
    if (new Set(open).size < open.length) return 'two calls have the same id';
    const long = open.find((id) => !/^[\x21-\x7e]{1,40}$/.test(id));
    return long !== undefined ? `tool_calls[].id: ${long} is empty, too long or not printable` : undefined;
  });
  return problem ?? (open.length ? `the calls ${open.join(', ')} have no result` : undefined);
};

export const refusesRoles: StrictRule = ({ messages }) => {
  const history = messages.filter(({ role }) => role !== 'system');
  if (history[0]?.role !== 'user') return `the first message is of role ${history[0]?.role}, not user`;
  if (isAssistant(history.at(-1)!)) return 'the last message is of role assistant';
  return find(messages, (message, i) => {
    if (message.role === 'system') return i ? 'a system message can only be the first message' : undefined;
    if (isBlank(message)) return 'the content is empty';
    if (!isWhole(message)) return 'the content is not UTF-8';
    const before = messages[i - 1]?.role;
    return before === message.role && before !== 'tool' ? `two messages of role ${before} in a row` : undefined;
  });
};

export const refusesCalls: StrictRule = ({ messages }) =>
  find(messages, (message) => {
    for (const { function: called } of callsOf(message)) {
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(called.name)) return `"${called.name}" is not a function name`;
      if (!isObjectText(called.arguments)) return `the arguments of ${called.name} are not a JSON object`;
    }
    return undefined;
  });

export const refusesKeywords =
  (dialect: SchemaDialect): StrictRule =>
  ({ tools = [] }) => {
    for (const [i, tool] of tools.entries()) {
      const problem = parametersProblem(tool.function.parameters, dialect);
      if (problem) return `Invalid schema for function '${tool.function.name}': tools[${i}].${problem}`;
    }
    return isWhole(tools) ? undefined : 'The tools are not UTF-8';
  };

/** Answers "ok", or 400 with the first rule's reason. */
export function createStrictModelServer(...rules: StrictRule[]): Promise<ModelServer> {
  return createModelServer(({ body }) => {
    for (const rule of rules) {
      const message = rule(body);
      if (message) return { status: 400, json: { error: { message, type: 'invalid_request_error' } } };
    }
    return [{ text: 'ok' }];
  });
}
