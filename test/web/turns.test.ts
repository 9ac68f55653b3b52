import * as z from 'zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AgentEvent } from '../../src/kernel/index.ts';
import { askForWrites, defineTool } from '../../src/kernel/index.ts';
import type { ScriptedAnswer } from '../../src/models/scripted.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { Entry, Signal } from '../../web/src/api/types.ts';
import type { Timeline } from '../../web/src/chat/timeline.ts';
import { emptyTimeline, reduce } from '../../web/src/chat/timeline.ts';
import type { AssistantTurn, Turn } from '../../web/src/chat/turns.ts';
import { toTurns } from '../../web/src/chat/turns.ts';
import type { Frame, TestServer } from '../server/harness.ts';
import { createTestServer } from '../server/harness.ts';

const look = defineTool({
  name: 'look',
  title: 'Look it up',
  icon: 'search',
  description: 'Looks.',
  parameters: z.object({ what: z.string() }),
  effect: 'read',
  run: ({ what }) => (what === 'nothing' ? Promise.reject(new TypeError('nothing there')) : { found: what }),
});
const write = defineTool({
  name: 'write',
  description: 'Writes.',
  parameters: z.object({ text: z.string() }),
  effect: 'once',
  run: () => 'written',
});

const scripts: Record<string, ScriptedAnswer[]> = {
  plain: [{ reasoning: 'Hm.', text: 'An answer.' }],
  tools: [
    {
      reasoning: 'Two looks.',
      text: 'I look.',
      calls: ['a', 'nothing'].map((what) => ({ name: 'look', args: { what } })),
    },
    { text: 'Found **a**.' },
  ],
  asks: [{ calls: [{ name: 'write', args: { text: 'x' } }] }, { text: 'Done.' }],
  fails: [{ text: 'Half', error: new TypeError('gone') }],
};

const model = createScriptedModel(({ messages }) => {
  const at = messages.findLastIndex(({ role }) => role === 'user');
  const said = messages[at]!;
  const text = said.role === 'user' && said.parts[0]?.type === 'text' ? said.parts[0].text : '';
  return scripts[text]![messages.slice(at).filter(({ role }) => role === 'assistant').length]!;
});

/** Times of thinking are measured where it is watched; a replay has none. */
function shown({ steps, error, usage, model: name }: Timeline) {
  return {
    steps: steps.map((step) => (step.kind === 'reasoning' ? { ...step, from: 0, ms: 0 } : step)),
    error,
    usage,
    name,
  };
}

const isAnswer = (turn: Turn): turn is AssistantTurn => turn.role === 'assistant';

describe('a saved conversation', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await createTestServer('embedded', { model, tools: [look, write], policy: askForWrites });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  async function entriesOf(conversation: string): Promise<Entry[]> {
    const { body } = await server.call('GET', `/conversations/${conversation}/messages`);
    return (body as unknown as { messages: Entry[] }).messages;
  }

  const toSignal = ({ event, data, id }: Frame): Signal => ({
    event: { type: event, ...data } as AgentEvent,
    at: 0,
    ...(id && { epoch: Number(id.split(':').at(-2)) }),
  });

  it.each(['plain', 'tools', 'asks', 'fails'])('shows what its run showed: %s', async (query) => {
    const conversationId = `c-${query}`;
    const reply = await server.call('POST', '/chat', { body: { conversationId, query } });
    const { run } = reply.body as unknown as { run: string };
    if (query === 'asks') {
      const [{ id }] = (reply.body as unknown as { approvals: [{ id: string }] }).approvals;
      await server.call('POST', `/approvals/${id}`, { body: { decision: 'allow', args: { text: 'y' } } });
    }
    const live = reduce(emptyTimeline, (await server.stream(`/runs/${run}/events`)).map(toSignal));
    const turns = toTurns(await entriesOf(conversationId));
    expect(turns.map(({ role, run: of }) => [role, of])).toEqual([
      ['user', run],
      ['assistant', run],
    ]);
    const [answer] = turns.filter(isAnswer);
    expect(shown(answer!.timeline.value)).toEqual(shown(live));
    expect(live.steps.some(({ kind }) => kind === 'notice')).toBe(false);
  });

  it('takes of a run under way only its message: the rest comes as events', async () => {
    const body = { conversationId: 'c-open', query: 'asks' };
    const { run } = (await server.call('POST', '/chat', { body })).body as unknown as { run: string };
    expect(toTurns(await entriesOf('c-open'), run).map(({ role }) => role)).toEqual(['user']);
    await server.call('DELETE', `/runs/${run}`);
    const [said, answer] = toTurns(await entriesOf('c-open'));
    expect(said).toMatchObject({ role: 'user', text: 'asks', seq: 1 });
    expect((answer as AssistantTurn).timeline.value).toMatchObject({
      end: { reason: 'cancelled' },
      steps: [{ kind: 'tool', name: 'write' }, { kind: 'approval' }],
    });
  });
});
