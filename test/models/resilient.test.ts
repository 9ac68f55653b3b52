import { describe, expect, it } from 'vitest';
import type { Model, ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import { modelsError } from '../../src/models/errors.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { ResilientConfig } from '../../src/models/resilient.ts';
import { createResilientModel } from '../../src/models/resilient.ts';
import type { Script } from '../../src/models/scripted.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { createModelServer } from '../../src/testing/model-server.ts';

const request: ModelRequest = {
  system: '',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
};
const never = new AbortController().signal;
const busy = (data = {}) => ({ error: modelsError('overloaded', 'host answered 503: busy', { data }) });

function resilient(script: Script, config: ResilientConfig = {}) {
  const inner = createScriptedModel(script);
  return { inner, model: createResilientModel(inner, { baseMs: 1, ...config }) };
}

async function ask(model: Model, signal = never): Promise<{ parts: ModelPart[]; error?: unknown }> {
  const parts: ModelPart[] = [];
  try {
    await model.call(request, signal, (part) => parts.push(part));
    return { parts };
  } catch (error) {
    return { parts, error };
  }
}

describe('a model around a model', () => {
  it('MODEL-06: asks again before the first part, and tells each retry', async () => {
    const { model, inner } = resilient([busy(), busy(), 'fine']);
    const { parts } = await ask(model);
    expect(parts).toMatchObject([
      { type: 'warning', code: 'models.retry' },
      { type: 'warning', code: 'models.retry' },
      { type: 'text', text: 'fine' },
    ]);
    expect(parts[0]).toMatchObject({ message: expect.stringMatching(/503: busy Trying again in .* s \(1 of 2\)\.$/) });
    expect(inner.requests).toHaveLength(3);
    expect(model.name).toBe('scripted');
  });

  it('gives up after its retries, with the last error', async () => {
    const { model, inner } = resilient(() => busy());
    expect((await ask(model)).error).toMatchObject({ code: 'models.overloaded' });
    expect(inner.requests).toHaveLength(3);
  });

  it('does not repeat what cannot succeed', async () => {
    for (const error of [modelsError('auth', 'no'), modelsError('quota', 'no'), new Error('bug')]) {
      const { model, inner } = resilient(() => ({ error }));
      expect((await ask(model)).error).toBe(error);
      expect(inner.requests).toHaveLength(1);
    }
  });

  it('passes an error after the first part, of text or of reasoning', async () => {
    for (const begun of [{ text: 'a' }, { reasoning: 'a' }]) {
      const { model, inner } = resilient(() => ({ ...begun, ...busy() }));
      expect((await ask(model)).error).toMatchObject({ code: 'models.overloaded' });
      expect(inner.requests).toHaveLength(1);
    }
  });

  it('waits as long as the provider asks, up to a limit', async () => {
    const begun = performance.now();
    const { model } = resilient([busy({ retryAfterMs: 80 }), 'fine']);
    expect((await ask(model)).error).toBeUndefined();
    expect(performance.now() - begun).toBeGreaterThan(75);
    const long = resilient([busy({ retryAfterMs: 20_001 }), 'fine']);
    expect((await ask(long.model)).error).toMatchObject({ code: 'models.overloaded' });
  });

  it('waits a random part of a growing time', async () => {
    const waits: string[] = [];
    const { model } = resilient(() => busy(), { retries: 3, baseMs: 100, random: () => 0.5 });
    await model
      .call(request, never, (part) => waits.push('message' in part ? part.message : ''))
      .catch(() => undefined);
    expect(waits.map((message) => /in ([\d.]+) s/.exec(message)?.[1])).toEqual(['0.1', '0.1', '0.2']);
  });

  it('stops waiting on abort', async () => {
    const { model, inner } = resilient(() => busy({ retryAfterMs: 10_000 }));
    const controller = new AbortController();
    setTimeout(() => controller.abort('stopped'), 20);
    expect((await ask(model, controller.signal)).error).toBe('stopped');
    expect(inner.requests).toHaveLength(1);
  });

  it('over real sockets: 503, a cut before the answer, then an answer', async () => {
    await using server = await createModelServer([
      { status: 503, json: { error: 'busy' } },
      [{ cut: true }],
      [{ text: 'fine' }],
    ]);
    const wire = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: server.url });
    const { parts } = await ask(createResilientModel(wire, { baseMs: 5 }));
    expect(parts.map(({ type }) => type)).toEqual(['warning', 'warning', 'text']);
  });

  it('over real sockets: no second request once text was shown', async () => {
    await using server = await createModelServer([[{ text: 'half' }, { cut: true }]]);
    const wire = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: server.url });
    const { parts, error } = await ask(createResilientModel(wire, { baseMs: 5 }));
    expect(parts).toEqual([{ type: 'text', text: 'half' }]);
    expect(error).toMatchObject({ code: 'models.stream_cut' });
    expect(server.requests).toHaveLength(1);
  });
});
