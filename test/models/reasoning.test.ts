import { describe, expect, it } from 'vitest';
import type { AgentEvent, Model } from '../../src/kernel/index.ts';
import { allowAll, createAgent } from '../../src/kernel/index.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { ModelServerScript, WireMessage } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import { currentTime } from '../../src/tools/clock.ts';

/** Assistant messages since the last user message, and all before it. */
function thoughts(messages: readonly WireMessage[]) {
  const turn = messages.findLastIndex(({ role }) => role === 'user');
  const hasThoughts = (message: WireMessage) =>
    'reasoning_content' in message && message.reasoning_content !== undefined;
  const assistants = messages
    .map((message, i) => ({ message, i }))
    .filter(({ message }) => message.role === 'assistant');
  return {
    inTurn: assistants.filter(({ i }) => i > turn).map(({ message }) => hasThoughts(message)),
    before: assistants.filter(({ i }) => i < turn).map(({ message }) => hasThoughts(message)),
  };
}

const refusal = (message: string) => ({ status: 400, json: { error: { message, type: 'invalid_request_error' } } });

/** A thinking model that calls a tool and answers; it judges what comes back. */
const host =
  (isRefused: (messages: readonly WireMessage[]) => string | undefined): ModelServerScript =>
  ({ body }) => {
    const problem = isRefused(body.messages);
    if (problem) return refusal(problem);
    if (body.messages.at(-1)?.role === 'tool') return [{ reasoning: 'now I know' }, { text: 'It is late.' }];
    return [{ reasoning: 'I need the time' }, { call: 'current_time', args: {} }];
  };

const demands = host((messages) =>
  thoughts(messages).inTurn.includes(false) ? 'Missing `reasoning_content` field in the assistant message' : undefined,
);
const forbids = host((messages) => {
  const { inTurn, before } = thoughts(messages);
  return [...inTurn, ...before].includes(true) ? 'Unexpected field: reasoning_content' : undefined;
});

async function talk(model: Model): Promise<AgentEvent[]> {
  await using agent = createAgent({ model, tools: [currentTime], policy: allowAll });
  const events: AgentEvent[] = [];
  for (const text of ['time?', 'and now?'])
    for await (const event of agent.run({ conversation: 'c', text })) events.push(event);
  return events;
}

describe.each([['deepseek'], ['some-host']])('reasoning on the wire of %s', (provider) => {
  it.each([
    ['demands it back within a turn', demands],
    ['forbids it', forbids],
  ])(
    'G1 OBS-16 a host that %s is served, after one refusal at most, and old turns are never sent',
    async (_, script) => {
      await using server = await createModelServer(script);
      const events = await talk(createOpenAIWireModel({ name: 'm', model: 'm', baseUrl: server.url, provider }));
      expect(events.filter((event) => event.type === 'run_end')).toHaveLength(2);
      expect(events.filter((event) => event.type === 'error')).toEqual([]);
      expect(server.requests.length).toBeLessThanOrEqual(5); // four answers and one refusal
      for (const { body } of server.requests) expect(thoughts(body.messages).before).not.toContain(true);
    },
  );
});
