import { describe, expect, it } from 'vitest';
import { createAgent } from '../../src/kernel/agent.ts';
import { isTerminal } from '../../src/kernel/events.ts';
import type { Model, ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import { modelsError } from '../../src/models/errors.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { ResilientConfig } from '../../src/models/resilient.ts';
import { createResilientModel } from '../../src/models/resilient.ts';
import type { Script } from '../../src/models/scripted.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { ModelServerReply } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import { shownText, turn } from './turns.ts';

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

/** One turn of the conversation, to its end. */
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

  it('MODEL-06: after the first part, of text or of reasoning, the answer begins anew, once', async () => {
    for (const begun of [{ text: 'a' }, { reasoning: 'a' }]) {
      const { model, inner } = resilient(() => ({ ...begun, ...busy() }));
      const { parts, error } = await ask(model);
      expect(parts.map((part) => ('code' in part ? part.code : part.type))).toEqual([
        Object.keys(begun)[0],
        'models.restarted',
        'restart',
        Object.keys(begun)[0],
      ]);
      expect(error).toMatchObject({ code: 'models.overloaded' });
      expect(inner.requests).toHaveLength(2);
    }
    const off = resilient(() => ({ text: 'a', ...busy() }), { restarts: 0 });
    expect((await ask(off.model)).parts).toEqual([{ type: 'text', text: 'a' }]);
  });

  it('B18: what was shown stays when the new attempt shows nothing', async () => {
    const { model, inner } = resilient([{ text: 'half', ...busy() }, busy(), busy(), busy()]);
    const { parts, error } = await ask(model);
    expect(parts.map(({ type }) => type)).toEqual(['text', 'warning', 'warning', 'warning']);
    expect(error).toMatchObject({ code: 'models.overloaded' });
    expect(inner.requests).toHaveLength(4);
  });

  it('an empty second answer voids the first half, too', async () => {
    const { model } = resilient([{ text: 'half', ...busy() }, '']);
    expect((await ask(model)).parts.map(({ type }) => type)).toEqual(['text', 'warning', 'restart']);
  });

  it('does not begin anew after what would come again', async () => {
    const { model, inner } = resilient(() => ({ text: 'a', error: modelsError('timeout_total', 'too long') }));
    expect((await ask(model)).error).toMatchObject({ code: 'models.timeout_total' });
    expect(inner.requests).toHaveLength(1);
  });

  it('G9: a failed attempt that speaks later is not heard, and a restart from below passes once', async () => {
    let late: ((part: ModelPart) => void) | undefined;
    const usage = { inputTokens: 0, outputTokens: 0, reasoningTokens: 0, cachedTokens: 0 };
    const odd: Model = {
      name: 'odd',
      call(_request, _signal, on) {
        if (!late) {
          late = on;
          // Not even a promise.
          throw busy().error;
        }
        late({ type: 'text', text: 'late' });
        on({ type: 'restart' });
        on({ type: 'text', text: 'a' });
        on({ type: 'restart' });
        on({ type: 'text', text: 'b' });
        return Promise.resolve({ reason: 'stop', usage });
      },
    };
    const { parts } = await ask(createResilientModel(odd, { baseMs: 1 }));
    expect(parts.slice(1)).toEqual([{ type: 'text', text: 'a' }, { type: 'restart' }, { type: 'text', text: 'b' }]);
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

  it('over real sockets: a cut after text gives the whole text once', async () => {
    await using server = await createModelServer([
      [{ text: 'one two' }, { cut: true }],
      { status: 503, json: { error: 'busy' } },
      [{ text: 'one two three' }],
    ]);
    const wire = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: server.url });
    await using agent = createAgent({ model: createResilientModel(wire, { baseMs: 5 }) });
    const events = await turn(agent, 'hi');
    expect(events.filter((event) => event.type === 'step_restart')).toHaveLength(1);
    expect(shownText(events)).toBe('one two three');
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
    await turn(agent, 'again');
    expect(server.requests.at(-1)?.body.messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', 'one two three'],
      ['user', 'again'],
    ]);
  });

  it('B12 over real sockets: two 429 and then an answer are one user turn', async () => {
    const refused = { status: 429, json: { error: { message: 'slow down' } } };
    await using server = await createModelServer([refused, refused, [{ text: 'fine' }]]);
    const wire = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: server.url });
    await using agent = createAgent({ model: createResilientModel(wire, { baseMs: 5 }) });
    const events = await turn(agent, 'hi');
    expect(events.filter((event) => event.type === 'warning')).toHaveLength(2);
    expect(events.filter((event) => event.type === 'run_start')).toHaveLength(1);
    await turn(agent, 'again');
    expect(server.requests.map(({ body }) => body.messages.map(({ content }) => content))).toEqual([
      ['hi'],
      ['hi'],
      ['hi'],
      ['hi', 'fine', 'again'],
    ]);
  });

  const odd: Record<string, ModelServerReply> = {
    'a body without a finish': [{ text: 'half' }, { end: true }],
    'an empty body': [{ end: true }],
    'a finish that nobody knows': [{ text: 'whole' }, { finish: 'because' }],
    'a finish and no end': [{ text: 'whole' }, { finish: 'stop' }, { hang: true }],
    'broken chunks': [{ text: 'half' }, { raw: 'data: {"choices": [\n\n' }, { end: true }],
    'an error inside a 200': { json: { error: { message: 'server overloaded' } } },
    'a web page': { json: '<html>no</html>' },
    'nothing, then silence': [{ hang: true }],
    'a half, then silence': [{ text: 'half' }, { hang: true }],
    'a filtered answer': [{ text: 'half' }, { finish: 'content_filter' }],
  };
  it.each(Object.entries(odd))('G9 over real sockets: %s; the run ends, and the next one runs', async (_, reply) => {
    let isOdd = true;
    await using server = await createModelServer(() => (isOdd ? reply : [{ text: 'fine' }]));
    const limits = { firstTokenMs: 60, idleMs: 60 };
    const wire = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: server.url, limits });
    await using agent = createAgent({ model: createResilientModel(wire, { baseMs: 5 }) });
    const events = await turn(agent, 'hi');
    expect(events.filter(isTerminal)).toEqual([events.at(-1)]);
    expect(['', 'half', 'whole']).toContain(shownText(events));
    expect(server.requests.length).toBeLessThanOrEqual(3);
    isOdd = false;
    const after = await turn(agent, 'again');
    expect(shownText(after)).toBe('fine');
    expect(after.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
  });
});
