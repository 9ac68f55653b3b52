// What a user would write without Homard: the AI SDK behind Hono. It keeps the talks in memory and nothing else.
//   PORT=... OPENAI_BASE_URL=... node bench/aisdk-server.ts
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { serve } from '@hono/node-server';
import { createUIMessageStreamResponse, isStepCount, streamText, tool, toUIMessageStream, type ModelMessage } from 'ai';
import { Hono } from 'hono';
import { z } from 'zod';

const WINDOW = 50;

const model = createOpenAICompatible({ name: 'mock', baseURL: process.env['OPENAI_BASE_URL']!, apiKey: 'x' })('mock');
const tools = {
  current_time: tool({
    description: 'Tells the current date and time.',
    inputSchema: z.object({ zone: z.string().optional() }),
    execute: ({ zone }) => ({ time: new Date().toISOString(), zone: zone ?? 'UTC' }),
  }),
};
const talks = new Map<string, ModelMessage[]>();

/** The last messages, from a user message on: a tool result without its call is refused by model hosts. */
function windowOf(talk: ModelMessage[]): ModelMessage[] {
  const recent = talk.slice(-WINDOW);
  return recent.slice(recent.findIndex((message) => message.role === 'user'));
}

const app = new Hono();
app.get('/health', (context) => context.text('ok'));
app.post('/chat/stream', async (context) => {
  const { conversationId, query } = await context.req.json<{ conversationId: string; query: string }>();
  const talk = talks.get(conversationId) ?? [];
  talks.set(conversationId, talk);
  talk.push({ role: 'user', content: query });
  const { stream } = streamText({
    model,
    tools,
    instructions: 'You are a helpful assistant.',
    messages: windowOf(talk),
    stopWhen: isStepCount(20),
    onEnd: ({ responseMessages }) => {
      talk.push(...responseMessages);
    },
  });
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) });
});

serve({ fetch: app.fetch, port: Number(process.env['PORT']), hostname: '127.0.0.1' });
process.on('SIGTERM', () => process.exit(0));
