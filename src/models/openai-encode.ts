// Neutral messages as the JSON text of a chat-completions request. The kernel hands over the same objects again in the
// next step and the next turn, so the text of each message and of each list of tools is made once.
import type { FilePart, Json, Message, TextPart } from '../kernel/messages.ts';
import { callsOf, textOf } from '../kernel/messages.ts';
import type { ModelRequest, ToolSpec } from '../kernel/model.ts';

const messageTexts = new WeakMap<Message, string>();
const thoughtTexts = new WeakMap<Message, string>();
const toolTexts = new WeakMap<readonly ToolSpec[], string>();

export interface EncodeConfig {
  model: string;
  /** Asks for a last chunk with the usage; some hosts refuse the option. */
  hasUsage: boolean;
  /** Sends the reasoning of this turn's steps back, as some thinking models demand and others forbid. */
  hasReasoning: boolean;
}

/** The request's body. Reasoning of past turns is left out; an assistant message that held nothing else, too. */
export function encodeRequest(request: ModelRequest, { model, hasUsage, hasReasoning }: EncodeConfig): string {
  const messages: string[] = [];
  if (request.system) messages.push(JSON.stringify({ role: 'system', content: request.system.toWellFormed() }));
  const turn = hasReasoning ? request.messages.findLastIndex(({ role }) => role === 'user') : request.messages.length;
  for (const [i, message] of request.messages.entries()) {
    const text = i > turn ? textWithThoughts(message) : messageText(message);
    if (text) messages.push(text);
  }
  const options = hasUsage ? ',"stream_options":{"include_usage":true}' : '';
  const tools = request.tools.length ? `,"tools":${toolsText(request.tools)}` : '';
  return `{"model":${JSON.stringify(model)},"stream":true${options},"messages":[${messages.join(',')}]${tools}}`;
}

function messageText(message: Message): string {
  let text = messageTexts.get(message);
  if (text === undefined) {
    const wire = toWire(message);
    text = wire ? JSON.stringify(wire) : '';
    messageTexts.set(message, text);
  }
  return text;
}

function textWithThoughts(message: Message): string {
  const thoughts = message.role === 'assistant' ? thoughtsOf(message.parts) : '';
  if (!thoughts) return messageText(message);
  let text = thoughtTexts.get(message);
  if (text === undefined) {
    const wire = toWire(message);
    text = wire ? JSON.stringify({ ...wire, reasoning_content: thoughts }) : '';
    thoughtTexts.set(message, text);
  }
  return text;
}

function thoughtsOf(parts: Extract<Message, { role: 'assistant' }>['parts']): string {
  return parts
    .map((part) => (part.type === 'reasoning' ? part.text : ''))
    .join('')
    .toWellFormed();
}

function toolsText(tools: readonly ToolSpec[]): string {
  let text = toolTexts.get(tools);
  if (text === undefined) {
    text = JSON.stringify(tools.map(toWireTool));
    toolTexts.set(tools, text);
  }
  return text;
}

function toWireTool({ name, description, schema }: ToolSpec): Json {
  const parameters = schema.type === undefined ? { type: 'object', properties: {}, ...schema } : schema;
  return { type: 'function', function: { name, description, parameters } };
}

function toWire(message: Message): { [key: string]: Json } | undefined {
  if (message.role === 'user') {
    return { role: 'user', content: message.parts.map(userText).join('\n').toWellFormed() };
  }
  if (message.role === 'tool') {
    const { result, call } = message;
    const content = typeof result === 'string' ? result.toWellFormed() : JSON.stringify(result);
    return { role: 'tool', tool_call_id: call, content };
  }
  const content = textOf(message.parts).toWellFormed();
  const calls = callsOf(message.parts).map(({ id, name, args }) => ({
    id,
    type: 'function',
    function: { name: toLegalName(name), arguments: toArguments(args) },
  }));
  if (calls.length) return { role: 'assistant', content: content || null, tool_calls: calls };
  return content ? { role: 'assistant', content } : undefined;
}

function userText(part: TextPart | FilePart): string {
  if (part.type === 'text') return part.text;
  return `[file ${part.name.replace(/\s+/g, ' ')} (${part.mime}, ${part.bytes} bytes)]`;
}

/** A model may have called what no tool is named; hosts refuse a history with such a name for ever. */
const toLegalName = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64) || 'unknown';

/** Hosts that read arguments expect an object; what the model wrote instead is told by the call's result. */
function toArguments(args: Json): string {
  return typeof args === 'object' && args !== null && !Array.isArray(args) ? JSON.stringify(args) : '{}';
}
