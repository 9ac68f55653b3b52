import { describe, expect, it } from 'vitest';
import type { Model, ModelRequest } from '../../src/kernel/model.ts';
import type { BreakerConfig } from '../../src/models/breaker.ts';
import { createBreaker } from '../../src/models/breaker.ts';
import { modelsError, toProviderError } from '../../src/models/errors.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import { createResilientModel } from '../../src/models/resilient.ts';
import type { ScriptedAnswer } from '../../src/models/scripted.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { createModelServer } from '../../src/testing/model-server.ts';

const request: ModelRequest = {
  system: '',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
};
const never = new AbortController().signal;
const down: ScriptedAnswer = { error: modelsError('unavailable', 'host answered 500') };

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : 'bug');
const ask = (model: Model, signal = never) => model.call(request, signal, () => undefined).then(() => 'fine', codeOf);

/** The model says what `say` says; time is `clock.now`. */
function rig(config: Partial<BreakerConfig> = {}) {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const script: { say: string | ScriptedAnswer } = { say: 'fine' };
  const inner = createScriptedModel(() => script.say);
  const breaker = createBreaker({ host: 'host', failures: 3, coolDownMs: 1000, now: () => clock.now, ...config });
  const model = breaker.guard(inner);
  const fail = async (times: number) => {
    script.say = down;
    for (let n = 0; n < times; n++) await ask(model);
  };
  return { clock, script, inner, breaker, model, fail };
}

describe('a breaker of a host', () => {
  it('opens after failures in a row, and then nobody waits', async () => {
    const { inner, breaker, model, fail, script } = rig();
    await fail(2);
    script.say = 'fine';
    await ask(model);
    await fail(2);
    expect(breaker.state).toBe('closed');
    await fail(1);
    expect(breaker.state).toBe('open');
    const asked = inner.requests.length;
    await expect(model.call(request, never, () => undefined)).rejects.toMatchObject({
      code: 'models.host_down',
      retryable: true,
      message:
        'host has been failing since 2026-01-01T00:00:00.000Z and is not asked again until 2026-01-01T00:00:01.000Z. The last error: host answered 500',
      data: { provider: 'host', retryAfterMs: 1000 },
    });
    expect(inner.requests).toHaveLength(asked);
  });

  it('lets one call through after a while; success closes it', async () => {
    const { clock, script, inner, breaker, model, fail } = rig();
    await fail(3);
    clock.now += 1000;
    expect(breaker.state).toBe('half_open');
    script.say = { text: 'fine', delayMs: 20 };
    const asked = inner.requests.length;
    expect(await Promise.all([ask(model), ask(model), ask(model)])).toEqual([
      'fine',
      'models.host_down',
      'models.host_down',
    ]);
    expect(inner.requests).toHaveLength(asked + 1);
    expect(breaker.state).toBe('closed');
  });

  it('a failed one opens it again, and since when stays true', async () => {
    const { clock, breaker, model, fail } = rig();
    await fail(3);
    clock.now += 1000;
    await fail(1);
    expect(breaker.state).toBe('open');
    await expect(model.call(request, never, () => undefined)).rejects.toMatchObject({
      data: { since: '2026-01-01T00:00:00.000Z', until: '2026-01-01T00:00:02.000Z' },
    });
  });

  it('an aborted call counts for nothing, and the next one finds out', async () => {
    const { clock, script, breaker, model, fail } = rig();
    await fail(3);
    clock.now += 1000;
    script.say = { ...down, delayMs: 1000 };
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('stopped')), 10);
    await ask(model, controller.signal);
    expect(breaker.state).toBe('half_open');
    script.say = 'fine';
    expect(await ask(model)).toBe('fine');
    expect(breaker.state).toBe('closed');
  });

  it('what a host says to an aborted call counts for nothing', async () => {
    const { breaker, fail } = rig();
    await fail(2);
    const closed = breaker.guard({ name: 'm', call: () => Promise.reject(modelsError('network', 'closed')) });
    expect(await ask(closed, AbortSignal.abort())).toBe('models.network');
    expect(breaker.state).toBe('closed');
    expect(await ask(closed)).toBe('models.network');
    expect(breaker.state).toBe('open');
  });

  it('calls from before it opened do not keep it open longer', async () => {
    const { clock, script, breaker, model, fail } = rig();
    script.say = { ...down, delayMs: 20 };
    const slow = ask(model);
    await fail(3);
    clock.now += 900;
    await slow;
    clock.now += 100;
    expect(breaker.state).toBe('half_open');
  });

  it.each(['bad_request', 'context_length', 'not_found', 'auth', 'quota', 'rate_limited'] as const)(
    'C2: %s does not touch the health of its host',
    async (kind) => {
      const { script, inner, breaker, model, clock, fail } = rig();
      await fail(2);
      script.say = { error: modelsError(kind, 'no') };
      for (let n = 0; n < 10; n++) expect(await ask(model)).toBe(`models.${kind}`);
      expect(breaker.state).toBe('closed');
      await fail(1);
      clock.now += 1000;
      script.say = { error: modelsError(kind, 'no') };
      expect(await ask(model)).toBe(`models.${kind}`);
      expect(breaker.state).toBe('half_open');
      expect(inner.requests).toHaveLength(14);
    },
  );

  it('is well again with the first part of a long answer, and a later failure counts anew', async () => {
    const { clock, breaker, fail } = rig();
    await fail(3);
    clock.now += 1000;
    let end: (error?: Error) => void = () => undefined;
    const long = breaker.guard({
      name: 'm',
      call: (_, __, on) =>
        new Promise((_resolve, reject) => {
          on({ type: 'warning', code: 'models.x', message: 'ours' });
          expect(breaker.state).toBe('half_open');
          on({ type: 'text', text: 'a' });
          end = reject;
        }),
    });
    const probe = ask(long);
    expect(breaker.state).toBe('closed');
    const other = breaker.guard(createScriptedModel(() => 'fine'));
    expect(await Promise.all([ask(other), ask(other)])).toEqual(['fine', 'fine']);
    end(modelsError('timeout_idle', 'silence'));
    expect(await probe).toBe('models.timeout_idle');
    expect(breaker.state).toBe('closed');
    await fail(2);
    expect(breaker.state).toBe('open');
  });

  it.each([400, 401, 404, 429])('a host that answers %i lives', async (status) => {
    const { clock, breaker, model, script, fail } = rig();
    await fail(3);
    clock.now += 1000;
    script.say = { error: toProviderError({ provider: 'host', status, body: { error: { message: 'no' } } }) };
    await ask(model);
    expect(breaker.state).toBe('closed');
    script.say = 'fine';
    expect(await Promise.all([ask(model), ask(model)])).toEqual(['fine', 'fine']);
  });

  it('C2 over real sockets: invalid histories of one user do not take the host away from the others', async () => {
    await using server = await createModelServer(({ body }) =>
      body.messages.at(-1)?.content === 'bad'
        ? { status: 400, json: { error: { type: 'invalid_request_error', message: 'orphan tool result' } } }
        : [{ text: 'fine' }],
    );
    const wire = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: server.url });
    const model = createResilientModel(createBreaker({ host: 'host' }).guard(wire), { baseMs: 1 });
    const bad: ModelRequest = { ...request, messages: [{ role: 'user', parts: [{ type: 'text', text: 'bad' }] }] };
    for (let n = 0; n < 10; n++) {
      await expect(model.call(bad, never, () => undefined)).rejects.toMatchObject({ code: 'models.bad_request' });
    }
    expect(await ask(model)).toBe('fine');
    expect(server.requests).toHaveLength(11);
  });

  it('over real sockets: a host that fails is asked no more, for all its models', async () => {
    await using server = await createModelServer([{ status: 500, json: { error: 'oh' } }]);
    const breaker = createBreaker({ host: 'host' });
    const [a, b] = ['a', 'b'].map((name) => {
      const wire = createOpenAIWireModel({ name, model: name, provider: 'host', baseUrl: server.url });
      return createResilientModel(breaker.guard(wire), { baseMs: 1 });
    });
    expect(await ask(a!)).toBe('models.unavailable');
    expect(await ask(b!)).toBe('models.host_down');
    expect(await ask(a!)).toBe('models.host_down');
    expect(server.requests).toHaveLength(5);
  });
});
