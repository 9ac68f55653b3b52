import { describe, expect, it } from 'vitest';
import { createModelServer } from '../../src/testing/model-server.ts';
import { backends, createTestServer } from './harness.ts';

describe.each(backends)('models by request on %s', (backend) => {
  it('MODEL-02 MODEL-03 the model changes in mid-conversation, to another host, with the whole history and no restart', async () => {
    await using one = await createModelServer([[{ reasoning: 'private' }, { text: 'from one' }]]);
    await using two = await createModelServer([[{ text: 'from two' }]]);
    const hosts = {
      one: { baseUrl: one.url, models: ['one-'], apiKeyEnv: 'ONE_KEY' },
      two: { baseUrl: two.url, models: ['two-'] },
    };
    const environment = { ONE_KEY: 'sk-one-0123456789' };
    await using server = await createTestServer(backend, { config: { models: { hosts } }, environment });
    const say = (query: string, modelName: string) =>
      server.call('POST', '/chat', { body: { conversationId: 'c', query, modelName } });
    expect((await say('first', 'one-a')).body).toMatchObject({ model: 'one-a', text: 'from one' });
    expect((await say('second', 'TWO-b')).body).toMatchObject({ text: 'from two' });
    expect((await say('third', 'one-a')).body).toMatchObject({ text: 'from one' });
    const told = (messages: { role: string; content?: unknown }[]) =>
      messages.filter(({ role }) => role !== 'system').map(({ content }) => content);
    expect(told(two.requests[0]!.body.messages)).toEqual(['first', 'from one', 'second']);
    expect(told(one.requests[1]!.body.messages)).toEqual(['first', 'from one', 'second', 'from two', 'third']);
    expect(one.requests.map(({ headers }) => headers.authorization)).toEqual(Array(2).fill('Bearer sk-one-0123456789'));
    expect(two.requests[0]!.headers.authorization).toBeUndefined();
    expect(JSON.stringify(two.requests[0]!.body)).not.toContain('private');
  });

  it("MODEL-08 a host's refusal is told without key or headers, and the message stays", async () => {
    const key = 'sk-secret-0123456789abcdef';
    const json = { error: { message: `Incorrect API key provided: ${key}. Bearer ${key}`, type: 'auth' } };
    await using host = await createModelServer([{ status: 401, json }]);
    const environment = { OPENAI_API_KEY: key, OPENAI_BASE_URL: host.url };
    await using server = await createTestServer(backend, { environment });
    const { status, body } = await server.call('POST', '/chat', {
      body: { conversationId: 'c', query: 'hi', modelName: 'gpt-x' },
    });
    expect(status).toBe(502);
    expect(body.error).toMatchObject({ code: 'models.auth' });
    const all = JSON.stringify([
      body,
      (await server.call('GET', '/conversations/c/messages')).body,
      (await server.call('GET', '/health')).body,
    ]);
    expect(all).not.toContain(key);
    expect(all).not.toContain('secret');
  });
});
