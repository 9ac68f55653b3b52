// Neutral messages as the prompt of a LanguageModelV4. The kernel hands over the same objects again in the next step and
// the next turn, so what becomes of each message and of each list of tools is made once.
import type {
  JSONSchema7,
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ReasoningPart,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider';
import type { FilePart, Message, ReasoningPart, TextPart } from '../kernel/messages.ts';
import type { ModelRequest, ToolSpec } from '../kernel/model.ts';
import { messagesRules, toArguments, toLegalHistory, toLegalName, toWellFormed } from './dialect.ts';
import type { ShownFiles } from './files.ts';
import { contentOf, filesOf, toHeader } from './files.ts';
import { isRecord } from './json.ts';
import type { SchemaDialect } from './schema-dialect.ts';
import { lowerSchema } from './schema-dialect.ts';

/**
 * Which reasoning of past answers goes back: all of it, all that the provider left metadata with (a signature), that
 * of the answers since the last user message, or none.
 */
export type ReasoningMode = 'all' | 'signed' | 'current_turn' | 'none';

/** Anthropic refuses thinking that it did not sign; DeepSeek wants its own back within a turn; others want none. */
export function defaultReasoning(provider: string): ReasoningMode {
  if (/anthropic/i.test(provider)) return 'signed';
  return /deepseek/i.test(provider) ? 'current_turn' : 'none';
}

type Kept = 'all' | 'signed' | 'none';

const caches: Record<Kept, WeakMap<Message, LanguageModelV4Message>> = {
  all: new WeakMap(),
  signed: new WeakMap(),
  none: new WeakMap(),
};
const toolLists = new WeakMap<readonly ToolSpec[], Map<SchemaDialect, LanguageModelV4FunctionTool[]>>();

/** The result's messages are shared: nobody changes them. Without `files` those are shown by name only. */
export function encodePrompt(
  { system, messages }: ModelRequest,
  reasoning: ReasoningMode,
  files?: ShownFiles,
): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  if (system.trim()) prompt.push({ role: 'system', content: system.toWellFormed() });
  const history = toLegalHistory(messages, messagesRules);
  const turn = history.findLastIndex(({ role }) => role === 'user');
  for (const [i, message] of history.entries()) {
    if (files && message.role === 'user' && filesOf(message).length) prompt.push(encodeFiles(message, files));
    else prompt.push(encodeMessage(message, reasoning === 'current_turn' ? (i > turn ? 'all' : 'none') : reasoning));
  }
  return prompt;
}

/**
 * Marks for Anthropic's prompt cache, at most its four: behind tools and system prompt, at the two newest messages of
 * the user, and at the end, where the next step finds it. Messages that are marked are copies; marks are no part of
 * what the cache compares.
 */
export function withCacheMarks(prompt: LanguageModelV4Prompt): LanguageModelV4Prompt {
  const users = [...prompt.keys()].filter((i) => prompt[i]!.role === 'user');
  const marked = new Set([...users.slice(-2), prompt.length - 1]);
  return prompt.map((message, i) => {
    if (message.role !== 'system' && !marked.has(i)) return message;
    const { anthropic, ...others } = message.providerOptions ?? {};
    return {
      ...message,
      providerOptions: { ...others, anthropic: { ...anthropic, cacheControl: { type: 'ephemeral' } } },
    };
  });
}

export function encodeTools(tools: readonly ToolSpec[], dialect: SchemaDialect): LanguageModelV4FunctionTool[] {
  const lists = toolLists.get(tools) ?? new Map<SchemaDialect, LanguageModelV4FunctionTool[]>();
  let list = lists.get(dialect);
  if (!list) {
    list = tools.map(({ name, description, schema }) => ({
      type: 'function',
      name,
      description: description.toWellFormed(),
      inputSchema: toWellFormed(lowerSchema(schema, dialect)) as unknown as JSONSchema7,
    }));
    toolLists.set(tools, lists.set(dialect, list));
  }
  return list;
}

function encodeMessage(message: Message, kept: Kept): LanguageModelV4Message {
  const cache = caches[message.role === 'assistant' ? kept : 'none'];
  let encoded = cache.get(message);
  if (encoded === undefined) {
    encoded = toPromptMessage(message, kept);
    cache.set(message, encoded);
  }
  return encoded;
}

function toPromptMessage(message: Message, kept: Kept): LanguageModelV4Message {
  if (message.role === 'user') {
    const texts = message.parts.map(userText).filter((text) => text.trim());
    // Providers refuse blank text, and a message of none.
    const content = (texts.length ? texts : ['(empty)']).map((text) => ({ type: 'text' as const, text }));
    return { role: 'user', content };
  }
  if (message.role === 'tool') {
    const { call, name } = message;
    const part = { toolCallId: call, toolName: toLegalName(name), output: toOutput(message) };
    return { role: 'tool', content: [{ type: 'tool-result', ...part }] };
  }
  const content: Extract<LanguageModelV4Message, { role: 'assistant' }>['content'] = [];
  let firstCall: number | undefined;
  for (const part of message.parts) {
    if (part.type === 'reasoning') {
      const reasoning = toReasoning(part, kept);
      // Thinking that stands behind a call is refused.
      if (reasoning) content.splice(firstCall === undefined ? content.length : firstCall++, 0, reasoning);
    } else if (part.type === 'tool_call') {
      firstCall ??= content.length;
      content.push({
        type: 'tool-call',
        toolCallId: part.id,
        toolName: toLegalName(part.name),
        input: toArguments(part.args),
      });
    } else if (part.text.trim()) {
      content.push({ type: 'text', text: part.text.toWellFormed() });
    }
  }
  return { role: 'assistant', content };
}

function toReasoning({ text, metadata }: ReasoningPart, kept: Kept): LanguageModelV4ReasoningPart | undefined {
  const isSigned = isRecord(metadata) && Object.values(metadata).every(isRecord) && text.isWellFormed();
  if (kept === 'none' || (kept === 'signed' && !isSigned)) return undefined;
  const providerOptions = metadata as LanguageModelV4ReasoningPart['providerOptions'];
  // What is signed goes back unchanged.
  return isSigned ? { type: 'reasoning', text, providerOptions } : { type: 'reasoning', text: text.toWellFormed() };
}

function toOutput({ result, isError }: Extract<Message, { role: 'tool' }>): LanguageModelV4ToolResultOutput {
  if (typeof result === 'string') return { type: isError ? 'error-text' : 'text', value: result.toWellFormed() };
  return { type: isError ? 'error-json' : 'json', value: result };
}

const userText = (part: TextPart | FilePart): string =>
  part.type === 'text' ? part.text.toWellFormed() : toHeader(part);

/** Not kept: the content of files is large. */
function encodeFiles(message: Extract<Message, { role: 'user' }>, files: ShownFiles): LanguageModelV4Message {
  const content = contentOf(message.parts, files).map((part) =>
    part.type === 'text'
      ? { type: 'text' as const, text: part.text.toWellFormed() }
      : {
          type: 'file' as const,
          filename: part.name,
          mediaType: part.mime,
          data: { type: 'data' as const, data: part.data },
        },
  );
  return { role: 'user', content: content.filter((part) => part.type === 'file' || part.text.trim()) };
}
