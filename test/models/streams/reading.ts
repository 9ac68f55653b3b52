// What we and two packages of the AI SDK make of a body, in lines that can be compared.
import { StringDecoder } from 'node:string_decoder';
import { createDeepSeek } from '@ai-sdk/deepseek';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { LanguageModelV4, LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { AgentError } from '../../../src/kernel/errors.ts';
import type { ModelFinish, ModelPart } from '../../../src/kernel/model.ts';
import { createOpenAIStream } from '../../../src/models/openai-stream.ts';
import type { PackageName } from './differences.ts';

/** What is read, in the words of `HostStream.reads`. */
function createReading(body: string) {
  const lines: string[] = [];
  const ids = new Set<string>();
  let last = '';
  return {
    lines,
    said(type: 'text' | 'reasoning', text: string): void {
      if (!text) return;
      if (type === last) lines[lines.length - 1] += text;
      else lines.push(`${type} ${text}`);
      last = type;
    },
    /** An id that the host did not write, or wrote twice, is "?": the loop or the package makes it up. */
    called(id: string, name: string, args: string): void {
      const isHosts = id !== '' && !ids.has(id) && body.includes(JSON.stringify(id));
      ids.add(id);
      lines.push(`call ${isHosts ? id : '?'} ${name} ${args}`);
      last = '';
    },
    ended(reason: string, counts: readonly (number | undefined)[]): string[] {
      const hasCalls = lines.some((line) => line.startsWith('call '));
      const isWhole = reason === 'stop' || reason === 'tool_calls';
      const said = isWhole ? (hasCalls ? 'tool_calls' : 'stop') : reason;
      return [...lines, [said, ...counts.map((count) => count ?? 0)].join(' ')];
    },
    /** Who fails says no call: they are not to be run. */
    failed: (): string[] => [...lines.filter((line) => !line.startsWith('call ')), 'error'],
  };
}

export async function ourReading(
  body: string,
  read: (on: (part: ModelPart) => void) => ModelFinish | Promise<ModelFinish>,
) {
  const reading = createReading(body);
  try {
    const { reason, usage } = await read((part) => {
      if (part.type === 'text' || part.type === 'reasoning') reading.said(part.type, part.text);
      if (part.type === 'tool_call') reading.called(part.id, part.name, part.args);
    });
    const { inputTokens, outputTokens, reasoningTokens, cachedTokens } = usage;
    return { lines: reading.ended(reason, [inputTokens, outputTokens, reasoningTokens, cachedTokens]) };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { lines: reading.failed(), code: error.code };
  }
}

/** The parser alone, fed as node feeds it. */
export const parse = (body: string, chunks: readonly Buffer[]) =>
  ourReading(body, (on) => {
    const stream = createOpenAIStream({ provider: 'host', on });
    const decoder = new StringDecoder('utf8');
    for (const chunk of chunks) {
      const text = decoder.write(chunk);
      if (text) stream.push(text);
    }
    return stream.end();
  });

export const headers = { 'content-type': 'text/event-stream' };
export const packages: Record<PackageName, (fetch: typeof globalThis.fetch) => LanguageModelV4> = {
  compatible: (fetch) =>
    createOpenAICompatible({ name: 'host', baseURL: 'http://host/v1', includeUsage: true, fetch })('m'),
  deepseek: (fetch) => createDeepSeek({ apiKey: 'none', baseURL: 'http://host/v1', fetch })('m'),
};

export async function theirReading(name: PackageName, body: string, chunks: readonly Buffer[]): Promise<string[]> {
  const reading = createReading(body);
  const source = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const model = packages[name](() => Promise.resolve(new Response(source, { headers })));
  try {
    const { stream } = await model.doStream({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] });
    for await (const part of stream) {
      if (part.type === 'text-delta') reading.said('text', part.delta);
      if (part.type === 'reasoning-delta') reading.said('reasoning', part.delta);
      if (part.type === 'tool-call') reading.called(part.toolCallId, part.toolName, part.input);
      if (part.type === 'error') return reading.failed();
      if (part.type === 'finish') return theirEnd(reading, part);
    }
    return reading.failed();
  } catch (error) {
    // A package fails in its own words: a TypeError would be a fault of this test.
    if (error instanceof TypeError) throw error;
    return reading.failed();
  }
}

/** Whoever uses a package must take any reason but these four for an error. */
function theirEnd(
  reading: ReturnType<typeof createReading>,
  { finishReason, usage }: Extract<LanguageModelV4StreamPart, { type: 'finish' }>,
): string[] {
  const reason = finishReason.unified.replace('-', '_');
  if (!['stop', 'tool_calls', 'length', 'content_filter'].includes(reason)) return reading.failed();
  const { inputTokens, outputTokens } = usage;
  return reading.ended(reason, [inputTokens.total, outputTokens.total, outputTokens.reasoning, inputTokens.cacheRead]);
}
