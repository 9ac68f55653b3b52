import { describe, expect, it } from 'vitest';
import { createModelServer } from '../../src/testing/model-server.ts';
import { createFakeOllama } from '../models/fake-ollama.ts';
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

  it('MODEL-06 a step to a fallback is an event: a sentence for people, from, to and why for programs', async () => {
    await using down = await createModelServer([{ status: 500, json: { error: { message: 'oh' } } }]);
    await using up = await createModelServer([[{ text: 'fine' }]]);
    const hosts = { down: { baseUrl: down.url, models: ['bad'] }, up: { baseUrl: up.url, models: ['good'] } };
    const models = { hosts, retries: 0, fallbacks: { bad: ['good-1'] } };
    await using server = await createTestServer(backend, { config: { models } });
    const body = { conversationId: 'c', query: 'hi', modelName: 'bad-1' };
    const frames = await server.stream('/chat/stream', { body });
    const why = 'down answered 500: oh';
    expect(frames.filter(({ event }) => event === 'warning').map(({ data }) => data)).toEqual([
      {
        code: 'model.fallback',
        message: `bad-1 cannot answer now: ${why} Going on with good-1.`,
        data: { from: 'bad-1', to: 'good-1', why },
      },
    ]);
    expect(frames.find(({ event }) => event === 'usage')?.data).toMatchObject({ model: 'good-1' });
  });

  it('MODEL-06 models.breaker says after how many failures a host is left alone', async () => {
    await using down = await createModelServer([{ status: 500, json: { error: { message: 'oh' } } }]);
    const hosts = { down: { baseUrl: down.url } };
    const models = { hosts, retries: 0, breaker: { failures: 2, coolDownMs: 3_600_000 } };
    await using server = await createTestServer(backend, { config: { models } });
    const codes: (string | undefined)[] = [];
    for (let n = 0; n < 3; n++) {
      const body = { conversationId: `c${n}`, query: 'hi', modelName: 'down/x' };
      codes.push((await server.call('POST', '/chat', { body })).body.error?.code);
    }
    expect(codes).toEqual(['models.unavailable', 'models.unavailable', 'models.host_down']);
    expect(down.requests).toHaveLength(2);
  });

  it('MODEL-11 nothing is configured: a running Ollama answers, else the demo', async () => {
    await using ollama = await createFakeOllama([{ name: 'nomic-embed-text' }, { name: 'llama3.2:latest' }]);
    await using server = await createTestServer(backend, { environment: { OLLAMA_HOST: ollama.host } });
    expect(server.homard).toMatchObject({ isDemo: false, model: 'ollama/llama3.2:latest' });
    const { body } = await server.call('POST', '/chat', { body: { conversationId: 'c', query: 'hi' } });
    expect(body).toMatchObject({ text: 'I am llama3.2:latest.' });
    await server.restart({ environment: {} });
    expect(server.homard).toMatchObject({ isDemo: true, model: 'demo' });
  });
});
