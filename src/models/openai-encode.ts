// Neutral messages as the JSON text of a chat-completions request. The kernel hands over the same objects again in the
// next step and the next turn, so the text of each message and of each list of tools is made once.
import type { FilePart, Json, Message, TextPart } from '../kernel/messages.ts';
import { callsOf, textOf } from '../kernel/messages.ts';
import type { ModelRequest, ToolSpec } from '../kernel/model.ts';
import type { FileData, ShownFiles } from './files.ts';
import { contentOf, filesOf, toHeader } from './files.ts';
import { chatRules, toArguments, toJsonText, toLegalHistory, toLegalName } from './dialect.ts';
import type { SchemaDialect } from './schema-dialect.ts';
import { lowerSchema } from './schema-dialect.ts';

const messageTexts = new WeakMap<Message, string>();
const thoughtTexts = new WeakMap<Message, string>();
const toolTexts = new WeakMap<readonly ToolSpec[], Map<SchemaDialect, string>>();

export interface EncodeConfig {
  model: string;
  /** Asks for a last chunk with the usage; some hosts refuse the option. */
  hasUsage: boolean;
  /** Sends the reasoning of this turn's steps back, as some thinking models demand and others forbid. */
  hasReasoning: boolean;
  /** What the host takes of JSON Schema. Default: openai. */
  schemas?: SchemaDialect;
  /** Absent: files are shown by name only. */
  files?: ShownFiles;
}

/** The request's body. Reasoning of past turns is left out; an assistant message that held nothing else, too. */
export function encodeRequest(request: ModelRequest, config: EncodeConfig): string {
  const { model, hasUsage, hasReasoning, schemas = 'openai', files } = config;
  const messages: string[] = [];
  if (request.system.trim()) messages.push(JSON.stringify({ role: 'system', content: request.system.toWellFormed() }));
  const history = toLegalHistory(request.messages, chatRules);
  const turn = hasReasoning ? history.findLastIndex(({ role }) => role === 'user') : history.length;
  for (const [i, message] of history.entries()) {
    if (files && filesOf(message).length) messages.push(textWithFiles(message, files));
    else messages.push(i > turn ? textWithThoughts(message) : messageText(message));
  }
  const options = hasUsage ? ',"stream_options":{"include_usage":true}' : '';
  const tools = request.tools.length ? `,"tools":${toolsText(request.tools, schemas)}` : '';
  return `{"model":${JSON.stringify(model)},"stream":true${options},"messages":[${messages.join(',')}]${tools}}`;
}

function messageText(message: Message): string {
  let text = messageTexts.get(message);
  if (text === undefined) {
    text = JSON.stringify(toWire(message));
    messageTexts.set(message, text);
  }
  return text;
}

/** Calls of another model may come without thoughts; a host that demands the field takes no empty one. */
function textWithThoughts(message: Message): string {
  if (message.role !== 'assistant') return messageText(message);
  const thoughts = thoughtsOf(message.parts) || (callsOf(message.parts).length ? ' ' : '');
  if (!thoughts) return messageText(message);
  let text = thoughtTexts.get(message);
  if (text === undefined) {
    text = JSON.stringify({ ...toWire(message), reasoning_content: thoughts });
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

function toolsText(tools: readonly ToolSpec[], dialect: SchemaDialect): string {
  const texts = toolTexts.get(tools) ?? new Map<SchemaDialect, string>();
  let text = texts.get(dialect);
  if (text === undefined) {
    text = toJsonText(tools.map((tool) => toWireTool(tool, dialect)));
    toolTexts.set(tools, texts.set(dialect, text));
  }
  return text;
}

function toWireTool({ name, description, schema }: ToolSpec, dialect: SchemaDialect): Json {
  const parameters = lowerSchema(schema, dialect);
  // Gemini refuses an object without properties: no arguments are no parameters.
  const isNone = dialect === 'gemini' && parameters.properties === undefined;
  return { type: 'function', function: { name, description, ...(!isNone && { parameters }) } };
}

function toWire(message: Message): { [key: string]: Json } {
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
    function: { name: toLegalName(name), arguments: JSON.stringify(toArguments(args)) },
  }));
  if (calls.length) return { role: 'assistant', content: content || null, tool_calls: calls };
  return { role: 'assistant', content };
}

const userText = (part: TextPart | FilePart): string => (part.type === 'text' ? part.text : toHeader(part));

/** Not kept: the content of files is large. */
function textWithFiles(message: Message, files: ShownFiles): string {
  if (message.role !== 'user') return messageText(message);
  const content = contentOf(message.parts, files);
  const [first] = content;
  const isText = content.length === 1 && first?.type === 'text';
  return JSON.stringify({ role: 'user', content: isText ? first.text.toWellFormed() : content.map(toContentPart) });
}

function toContentPart(part: TextPart | FileData): Json {
  if (part.type === 'text') return { type: 'text', text: part.text.toWellFormed() };
  const url = `data:${part.mime};base64,${Buffer.from(part.data).toString('base64')}`;
  if (part.kind === 'image') return { type: 'image_url', image_url: { url } };
  return { type: 'file', file: { filename: part.name, file_data: url } };
}
