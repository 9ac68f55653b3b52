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
import type { FilePart, Json, Message, ReasoningPart, TextPart } from '../kernel/messages.ts';
import type { ModelRequest, ToolSpec } from '../kernel/model.ts';
import { isRecord } from './json.ts';

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

const caches: Record<Kept, WeakMap<Message, LanguageModelV4Message | null>> = {
  all: new WeakMap(),
  signed: new WeakMap(),
  none: new WeakMap(),
};
const toolLists = new WeakMap<readonly ToolSpec[], LanguageModelV4FunctionTool[]>();

/** An assistant message of which nothing is left is left out. The result's messages are shared: nobody changes them. */
export function encodePrompt({ system, messages }: ModelRequest, reasoning: ReasoningMode): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  if (system) prompt.push({ role: 'system', content: system.toWellFormed() });
  const turn = messages.findLastIndex(({ role }) => role === 'user');
  for (const [i, message] of messages.entries()) {
    const encoded = encodeMessage(message, reasoning === 'current_turn' ? (i > turn ? 'all' : 'none') : reasoning);
    if (encoded) prompt.push(encoded);
  }
  return prompt;
}

export function encodeTools(tools: readonly ToolSpec[]): LanguageModelV4FunctionTool[] {
  let list = toolLists.get(tools);
  if (!list) {
    list = tools.map(({ name, description, schema }) => ({
      type: 'function',
      name,
      description,
      inputSchema: (schema.type === undefined
        ? { type: 'object', properties: {}, ...schema }
        : schema) as unknown as JSONSchema7,
    }));
    toolLists.set(tools, list);
  }
  return list;
}

function encodeMessage(message: Message, kept: Kept): LanguageModelV4Message | null {
  const cache = caches[message.role === 'assistant' ? kept : 'none'];
  let encoded = cache.get(message);
  if (encoded === undefined) {
    encoded = toPromptMessage(message, kept);
    cache.set(message, encoded);
  }
  return encoded;
}

function toPromptMessage(message: Message, kept: Kept): LanguageModelV4Message | null {
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
  let isSaid = false;
  for (const part of message.parts) {
    if (part.type === 'reasoning') {
      const reasoning = toReasoning(part, kept);
      if (reasoning) content.push(reasoning);
    } else if (part.type === 'tool_call') {
      isSaid = true;
      content.push({
        type: 'tool-call',
        toolCallId: part.id,
        toolName: toLegalName(part.name),
        input: toInput(part.args),
      });
    } else if (part.text.trim()) {
      isSaid = true;
      content.push({ type: 'text', text: part.text.toWellFormed() });
    }
  }
  return isSaid ? { role: 'assistant', content } : null;
}

function toReasoning({ text, metadata }: ReasoningPart, kept: Kept): LanguageModelV4ReasoningPart | undefined {
  const isSigned = isRecord(metadata) && Object.values(metadata).every(isRecord);
  if (kept === 'none' || (kept === 'signed' && !isSigned)) return undefined;
  const providerOptions = metadata as LanguageModelV4ReasoningPart['providerOptions'];
  // What is signed goes back unchanged.
  return isSigned ? { type: 'reasoning', text, providerOptions } : { type: 'reasoning', text: text.toWellFormed() };
}

function toOutput({ result, isError }: Extract<Message, { role: 'tool' }>): LanguageModelV4ToolResultOutput {
  if (typeof result === 'string') return { type: isError ? 'error-text' : 'text', value: result.toWellFormed() };
  return { type: isError ? 'error-json' : 'json', value: result };
}

function userText(part: TextPart | FilePart): string {
  if (part.type === 'text') return part.text.toWellFormed();
  return `[file ${part.name.replace(/\s+/g, ' ').toWellFormed()} (${part.mime}, ${part.bytes} bytes)]`;
}

/** As in openai-encode.ts: a model may have called what no tool is named, and written what is no object. */
const toLegalName = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64) || 'unknown';

const toInput = (args: Json): Json => (isRecord(args) ? args : {});
