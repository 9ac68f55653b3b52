import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { describe, expect, it } from 'vitest';
import type { ModelPart } from '../../src/kernel/model.ts';
import { createOpenAIStream } from '../../src/models/openai-stream.ts';
import { callSamples } from './call-streams.ts';
import { plainSamples, toBody } from './streams.ts';

/** Where we read more than the package, on purpose. */
const ours = [
  /x_groq/,
  /array of thinking/,
  /^Kimi/,
  /spelling of the responses API/,
  /refusal/,
  /half a character/,
  /null, then an object/,
  /name in two pieces/,
  /empty object first/,
  /again at the end/,
  /function_call/,
  /broken and empty/,
];

const folder = join(import.meta.dirname, '../../../shared/streams');
const recorded = existsSync(folder)
  ? readdirSync(folder).filter((name) => name.endsWith('.jsonl') && !name.startsWith('anthropic--'))
  : [];
const bodies = [
  ...[...plainSamples, ...callSamples].filter(({ name }) => !ours.some((words) => words.test(name))),
  ...recorded.map((name) => ({ name, events: readFileSync(join(folder, name), 'utf8').trim().split('\n') })),
].map(({ name, events }) => ({ name, body: toBody(events) }));

function ourReading(body: string) {
  const said = { text: '', reasoning: '', calls: [] as [string, string][] };
  const stream = createOpenAIStream({
    provider: 'host',
    on: (part: ModelPart) => {
      if (part.type === 'text' || part.type === 'reasoning') said[part.type] += part.text;
      if (part.type === 'tool_call') said.calls.push([part.name, part.args]);
    },
  });
  stream.push(body);
  const { reason, usage } = stream.end();
  return { ...said, reason, input: usage.inputTokens, output: usage.outputTokens };
}

async function theirReading(body: string) {
  const said = { text: '', reasoning: '', calls: [] as [string, string][], reason: '', input: 0, output: 0 };
  const model = createOpenAICompatible({
    name: 'host',
    baseURL: 'http://host/v1',
    includeUsage: true,
    fetch: () => Promise.resolve(new Response(body, { headers: { 'content-type': 'text/event-stream' } })),
  })('m');
  const { stream } = await model.doStream({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] });
  for await (const part of stream) {
    if (part.type === 'text-delta') said.text += part.delta;
    if (part.type === 'reasoning-delta') said.reasoning += part.delta;
    if (part.type === 'tool-call') said.calls.push([part.toolName, part.input]);
    if (part.type === 'error') throw part.error;
    if (part.type !== 'finish') continue;
    said.reason = part.finishReason.unified.replace('-', '_');
    if (/^(stop|tool_calls)$/.test(said.reason)) said.reason = said.calls.length ? 'tool_calls' : 'stop';
    said.input = part.usage.inputTokens.total ?? 0;
    said.output = part.usage.outputTokens.total ?? 0;
  }
  return said;
}

describe('the provider package reads the same', () => {
  it.each(bodies)('$name', async ({ name, body }) => {
    const [our, theirs] = [ourReading(body), await theirReading(body)];
    // xAI counts reasoning beside the output; we add it.
    if (/xai/i.test(name)) theirs.output = our.output;
    expect(our).toEqual(theirs);
  });
});
