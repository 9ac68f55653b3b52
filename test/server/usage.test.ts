import { describe, expect, it } from 'vitest';
import { createPriceTable } from '../../src/models/prices.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { backends, createTestServer } from './harness.ts';

describe('prices', () => {
  it('the longest beginning of a name holds, cached tokens have their own price, and no price is no cost', () => {
    const priceOf = createPriceTable({
      gpt: { input: 1, output: 2 },
      'GPT-5': { input: 10, cachedInput: 1, output: 20 },
    });
    const usage = { inputTokens: 1_000_000, cachedTokens: 400_000, outputTokens: 100_000, reasoningTokens: 50_000 };
    expect(priceOf('gpt-4', usage)).toBeCloseTo(1.2);
    expect(priceOf('gpt-5-mini', usage)).toBeCloseTo(6 + 0.4 + 2);
    expect(priceOf('other', usage)).toBeNull();
  });
});

describe.each(backends)('usage on %s', (backend) => {
  it('OBS-17 tokens and cost by model, day, conversation and run, of the caller only', async () => {
    const usage = { inputTokens: 1000, outputTokens: 100, reasoningTokens: 10, cachedTokens: 500 };
    const model = createScriptedModel(() => ({ text: 'ok', usage }), { name: 'priced-1' });
    const prices = { priced: { input: 2, cachedInput: 1, output: 10 } };
    await using server = await createTestServer(backend, { model, config: { prices } });
    for (const [user, conversationId] of [
      ['ann', 'a'],
      ['ann', 'a'],
      ['ann', 'b\0'],
      ['bob', 'a'],
    ] as const) {
      const { body } = await server.call('POST', '/chat', { user, body: { conversationId, query: 'x' } });
      expect(body).toMatchObject({ usage: { inputTokens: 1000 } });
      expect(Number(body.costUsd)).toBeCloseTo(0.0025);
    }
    const read = async (query: string, user: 'ann' | 'bob' = 'ann') =>
      (await server.call('GET', `/usage${query}`, { user })).body;
    expect(await read('')).toMatchObject({
      rows: [
        { model: 'priced-1', steps: 3, inputTokens: 3000, outputTokens: 300, reasoningTokens: 30, cachedTokens: 1500 },
      ],
      total: { inputTokens: 3000 },
    });
    expect((await read('', 'bob')).total).toMatchObject({ inputTokens: 1000, costUsd: 0.0025 });
    const rows = (await read('?by=conversation,day')).rows as unknown as {
      conversation: string;
      day: string;
      steps: number;
    }[];
    expect(rows.map(({ conversation, steps }) => [conversation, steps])).toEqual([
      ['a', 2],
      ['b\0', 1],
    ]);
    expect(rows[0]!.day).toBe(new Date().toISOString().slice(0, 10));
    expect(((await read('?by=run')).rows as unknown as object[]).length).toBe(3);
    expect((await read('?from=2100-01-01T00:00:00Z')).rows).toEqual([]);
    expect((await server.call('GET', '/usage?by=weather')).status).toBe(400);
    expect((await server.call('GET', '/usage?from=yesterday')).status).toBe(400);
  });
});
