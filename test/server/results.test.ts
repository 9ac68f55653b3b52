import * as z from 'zod';
import { describe, expect, it } from 'vitest';
import { defineTool, SHOWN_CHARS } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { Frame } from './harness.ts';
import { backends, createTestServer } from './harness.ts';

const key = `ghp_${'a1B2c3D4e5'.repeat(4)}`;
const long = `${'x'.repeat(SHOWN_CHARS)} tail`;

const give = defineTool({
  name: 'give',
  description: 'Gives things.',
  parameters: z.looseObject({}),
  effect: 'read',
  run: (args) => (args.what === 'long' ? long : { args, found: `the key is ${key}`, rest: 'plain' }),
});

const eventsOf = (frames: Frame[], name: string) =>
  frames.filter(({ event }) => event === name).map(({ data }) => data);

describe.each(backends)('what is shown of results on %s', (backend) => {
  it('OBS-10 secrets are masked in arguments and results of events, answers and messages, not for tools and the model', async () => {
    const model = createScriptedModel([
      { calls: [{ name: 'give', args: { password: 'hunter22', text: `see ${key}`, konto: '12345' } }] },
      'done',
    ]);
    await using server = await createTestServer(backend, {
      model,
      tools: [give],
      config: { mask: { names: ['konto'] } },
    });
    const frames = await server.stream('/chat/stream', { body: { conversationId: 'web', query: 'go' } });
    const args = { password: '***', text: 'see ***', konto: '***' };
    const result = { args, found: 'the key is ***', rest: 'plain' };
    expect(eventsOf(frames, 'tool_call')).toMatchObject([{ calls: [{ args }] }]);
    expect(eventsOf(frames, 'tool_result')).toMatchObject([{ results: [{ result }] }]);
    const { run } = eventsOf(frames, 'run_start')[0] as { run: string };
    const shown = await Promise.all([
      server.call('GET', `/runs/${run}`),
      server.call('GET', '/conversations/web/messages'),
      server.call('GET', `/runs/${run}/results/call_0`),
    ]);
    const replayed = await server.stream(`/runs/${run}/events`);
    expect(eventsOf(replayed, 'tool_result')).toEqual(eventsOf(frames, 'tool_result'));
    for (const text of [
      ...shown.map(({ body }) => JSON.stringify(body)),
      JSON.stringify(replayed),
      JSON.stringify(frames),
    ]) {
      expect(text).toContain('plain');
      expect(text).not.toContain(key);
      expect(text).not.toContain('hunter22');
    }
    // The tool got what the model wrote, and the model what the tool gave.
    expect(JSON.stringify(model.requests[1]!.messages)).toContain(`the key is ${key}`);
    expect(JSON.stringify(model.requests[1]!.messages)).toContain('hunter22');
  });

  it('OBS-11 a long result is shown by head and tail, says so, and is had whole by the id of its call', async () => {
    const model = createScriptedModel([
      { calls: [{ name: 'give', args: { what: 'long' } }, { name: 'give' }] },
      'done',
    ]);
    await using server = await createTestServer(backend, { model, tools: [give] });
    const frames = await server.stream('/chat/stream', { body: { conversationId: 'web', query: 'go' } });
    const results = eventsOf(frames, 'tool_result').flatMap(
      (data) => data.results as { id: string; result: string; truncated?: true }[],
    );
    const cut = results.find(({ id }) => id === 'call_0')!;
    expect(cut.truncated).toBe(true);
    expect(cut.result.length).toBeLessThan(SHOWN_CHARS + 100);
    expect(cut.result).toMatch(/^x+\n\[\.\.\. \d+ characters left out \.\.\.\]\nx* tail$/);
    expect(results.find(({ id }) => id === 'call_1')).not.toHaveProperty('truncated');
    const { run } = eventsOf(frames, 'run_start')[0] as { run: string };
    const { body } = await server.call('GET', '/conversations/web/messages');
    expect(
      (body.messages as unknown as { call?: string; truncated?: true }[]).find(({ call }) => call === 'call_0')
        ?.truncated,
    ).toBe(true);
    expect((await server.call('GET', `/runs/${run}/results/call_0`)).body).toMatchObject({
      name: 'give',
      result: long,
    });
    expect((await server.call('GET', `/runs/${run}/results/call_9`)).body.error?.code).toBe('server.not_found');
    expect((await server.call('GET', `/runs/${run}/results/call_0`, { user: 'bob' })).status).toBe(404);
  });
});
