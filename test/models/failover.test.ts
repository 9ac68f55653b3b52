import { describe, expect, it } from 'vitest';
import { createAgent } from '../../src/kernel/agent.ts';
import type { Message } from '../../src/kernel/messages.ts';
import type { Model, ModelFinish, ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import { modelsError } from '../../src/models/errors.ts';
import { createFailoverModel } from '../../src/models/failover.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import { createResilientModel } from '../../src/models/resilient.ts';
import type { ModelsConfigInput } from '../../src/models/config.ts';
import { modelsConfig } from '../../src/models/config.ts';
import { createRouter } from '../../src/models/router.ts';
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
const refuses = (kind: keyof typeof modelsError.kinds, name = 'a') =>
  createScriptedModel(() => ({ error: modelsError(kind, `${name} says ${kind}.`) }), { name });

interface Told {
  parts: ModelPart[];
  finish?: ModelFinish;
  error?: unknown;
}

async function ask(model: Model, signal = never): Promise<Told> {
  const parts: ModelPart[] = [];
  try {
    const finish = await model.call(request, signal, (part) => parts.push(part));
    return { parts, finish };
  } catch (error) {
    return { parts, error };
  }
}

function wireOf(name: string, baseUrl: string, apiKey?: string): Model {
  const limits = { firstTokenMs: 60, idleMs: 60 };
  const wire = { name, model: name, provider: name, baseUrl, limits, ...(apiKey && { apiKey }) };
  return createResilientModel(createOpenAIWireModel(wire), { baseMs: 1 });
}

/** One turn of the conversation, to its end. */
describe('models in order', () => {
  it('MODEL-06: the next one answers, with a warning that says from where to where and why', async () => {
    const b = createScriptedModel(['fine'], { name: 'b' });
    const { parts, finish } = await ask(createFailoverModel([refuses('rate_limited'), b]));
    expect(parts).toEqual([
      {
        type: 'warning',
        code: 'model.fallback',
        message: 'a cannot answer now: a says rate_limited. Going on with b.',
        data: { from: 'a', to: 'b', why: 'a says rate_limited.' },
      },
      { type: 'text', text: 'fine' },
    ]);
    expect(finish).toMatchObject({ reason: 'stop', model: 'b' });
  });

  it.each([
    ['bad_request', false],
    ['context_length', false],
    ['timeout_total', false],
    ['not_found', true],
    ['auth', true],
    ['quota', true],
    ['overloaded', true],
    ['network', true],
    ['stream_invalid', true],
    ['error', true],
  ] as const)('G10: after %s the next model is asked: %s', async (kind, isAsked) => {
    const b = createScriptedModel(() => 'fine', { name: 'b' });
    const { error } = await ask(createFailoverModel([refuses(kind), b]));
    expect(b.requests).toHaveLength(isAsked ? 1 : 0);
    if (!isAsked) expect(error).toMatchObject({ code: `models.${kind}`, message: `a says ${kind}.` });
  });

  it('when none answers, the error is that of the chosen model and tells of the others', async () => {
    const model = createFailoverModel([refuses('quota'), refuses('not_configured', 'b'), refuses('auth', 'c')]);
    const { error } = await ask(model);
    expect(error).toMatchObject({
      code: 'models.quota',
      message: 'a says quota. Fallbacks failed, too. b: b says not_configured. c: c says auth.',
      hint: modelsError.kinds.quota.hint,
    });
  });

  it('a bug and an abort pass as they are', async () => {
    const b = createScriptedModel(() => 'fine', { name: 'b' });
    const bug = new Error('bug');
    expect((await ask(createFailoverModel([createScriptedModel([{ error: bug }]), b]))).error).toBe(bug);
    const controller = new AbortController();
    controller.abort('stopped');
    expect((await ask(createFailoverModel([refuses('auth'), b]), controller.signal)).error).toBe('stopped');
    const late: Model = { name: 'late', call: () => Promise.reject(modelsError('network', 'closed')) };
    expect((await ask(createFailoverModel([late, b]), controller.signal)).parts).toEqual([]);
    expect(b.requests).toHaveLength(0);
  });

  it('a filtered answer is an answer', async () => {
    const b = createScriptedModel(() => 'fine', { name: 'b' });
    const a = createScriptedModel([{ text: 'I', reason: 'content_filter' }], { name: 'a' });
    expect((await ask(createFailoverModel([a, b]))).finish).toMatchObject({ reason: 'content_filter', model: 'a' });
    expect(b.requests).toHaveLength(0);
  });

  it('B18: the half that was shown stays when no other model shows anything', async () => {
    const a = createScriptedModel([{ text: 'half', error: modelsError('stream_cut', 'cut') }], { name: 'a' });
    const { parts, error } = await ask(createFailoverModel([a, refuses('auth', 'b')]));
    expect(parts.map(({ type }) => type)).toEqual(['text', 'warning']);
    expect(error).toMatchObject({ code: 'models.stream_cut' });
  });

  it('G2: each model compiles its own request from the neutral history', async () => {
    await using refusing = await createModelServer([{ status: 429, json: { error: { message: 'slow down' } } }]);
    const messages: Message[] = [
      { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
      {
        role: 'assistant',
        model: 'a',
        parts: [
          { type: 'reasoning', text: 'hmm', metadata: { signature: 's' } },
          { type: 'tool_call', id: 'c1', name: 't', args: { x: 1 } },
        ],
      },
      { role: 'tool', call: 'c1', name: 't', result: 'r', isError: false },
    ];
    const whole: ModelRequest = { system: 'S', messages, tools: [] };
    const before = JSON.stringify(whole);
    // Refuses a history whose calls came without their reasoning, as DeepSeek's thinking mode does.
    const b = createScriptedModel(
      ({ messages }) => {
        const isWhole = messages.every(
          ({ role, ...rest }) =>
            role !== 'assistant' || ('parts' in rest && rest.parts.some(({ type }) => type === 'reasoning')),
        );
        return isWhole ? 'fine' : { error: modelsError('bad_request', 'reasoning_content is missing') };
      },
      { name: 'b' },
    );
    const said: ModelPart[] = [];
    await createFailoverModel([wireOf('a', refusing.url), b]).call(whole, never, (part) => said.push(part));
    expect(said.at(-1)).toEqual({ type: 'text', text: 'fine' });
    expect(b.requests[0]).toBe(whole);
    expect(JSON.stringify(whole)).toBe(before);
    expect(JSON.stringify(refusing.requests[0]?.body)).not.toContain('hmm');
  });
});

describe('models in order, over real sockets', () => {
  const failures: [string, ModelServerReply, number][] = [
    ['429', { status: 429, json: { error: { message: 'slow down' } } }, 3],
    ['500', { status: 500, json: { error: { message: 'oh' } } }, 3],
    ['503 with a long wait', { status: 503, json: { error: 'busy' }, headers: { 'retry-after': '600' } }, 1],
    ['silence', [{ hang: true }], 3],
    ['a cut before the answer', [{ cut: true }], 3],
    ['401', { status: 401, json: { error: { message: 'no' } } }, 1],
    ['a cut in the answer', [{ text: 'one two' }, { cut: true }], 2],
    ['silence in the answer', [{ text: 'one two' }, { hang: true }], 2],
    ['a call, then a cut', [{ text: 'one' }, { call: 'nothing' }, { cut: true }], 2],
  ];
  it.each(failures)('MODEL-06, B12: %s, then the fallback answers in the same turn', async (_, reply, times) => {
    await using a = await createModelServer([reply]);
    await using b = await createModelServer([[{ text: 'one two three' }]]);
    await using agent = createAgent({ model: createFailoverModel([wireOf('a', a.url), wireOf('b', b.url)]) });
    const events = await turn(agent, 'hi');
    expect(a.requests).toHaveLength(times);
    const told = events.filter((event) => event.type === 'warning' && event.code === 'model.fallback');
    expect(told).toMatchObject([{ data: { from: 'a', to: 'b' } }]);
    expect(shownText(events)).toBe('one two three');
    expect(events.filter(({ type }) => type === 'tool_call')).toEqual([]);
    expect(events.find(({ type }) => type === 'usage')).toMatchObject({ model: 'b' });
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
    await turn(agent, 'again');
    expect(b.requests.at(-1)?.body.messages.map(({ content }) => content)).toEqual(['hi', 'one two three', 'again']);
  });

  it('MODEL-08: no key in any warning or error, whatever the hosts repeat', async () => {
    const keys = ['key-of-a-0123456789', 'key-of-b-9876543210'];
    const [a, b] = keys.map((key) => [{ status: 401, json: { error: { message: `Incorrect API key: ${key}` } } }]);
    await using first = await createModelServer(a);
    await using second = await createModelServer(b);
    const models = [wireOf('a', first.url, keys[0]), wireOf('b', second.url, keys[1])] as const;
    const { parts, error } = await ask(createFailoverModel(models));
    const said = JSON.stringify([parts, error, String(error), error instanceof Error && String(error.cause)]);
    expect(said).toContain('[masked]');
    for (const key of keys) expect(said).not.toContain(key);
  });
});

describe('models.fallbacks', () => {
  async function route(name: string, config: Omit<ModelsConfigInput, 'hosts'>): Promise<Told> {
    await using down = await createModelServer([{ status: 500, json: { error: 'oh' } }]);
    await using up = await createModelServer(({ body }) => [{ text: body.model }]);
    const hosts = { down: { baseUrl: down.url, models: ['bad'] }, up: { baseUrl: up.url, models: ['good'] } };
    const parsed = modelsConfig.parse({ retries: 0, hosts, ...config });
    return await ask(createRouter(parsed, {}).resolve(name));
  }

  it.each([
    ['bad-1', { bad: ['good-1'] }, 'good-1'],
    ['BAD-1', { 'Bad-*': ['up/x'] }, 'x'],
    ['bad-1', { 'down/': ['good-2'] }, 'good-2'],
    ['bad-1', { '*': ['good-3'], bad: ['good-1'], 'bad-1': ['good-2'] }, 'good-2'],
    ['bad-1', { '*': ['bad-1', 'bad-2', 'good-3'] }, 'good-3'],
    ['bad-1', { '*': ['deepseek-chat', ' good-1'] }, 'good-1'],
    ['good-1', { '*': ['good-2'] }, 'good-1'],
  ] as [string, Record<string, string[]>, string][])(
    'MODEL-06: %s with %j is answered by %s',
    async (name, fallbacks, model) => {
      const { parts, finish } = await route(name, { fallbacks });
      expect(parts.at(-1)).toEqual({ type: 'text', text: model });
      expect(finish?.model).toBe(model);
    },
  );

  it('MODEL-04: a chosen model that is not configured is refused, fallbacks or not', async () => {
    await expect(route('deepseek-chat', { fallbacks: { '*': ['good-1'] } })).rejects.toThrow('DEEPSEEK_API_KEY');
  });

  it('other models have none, and the error is their own', async () => {
    const { parts, error } = await route('bad-1', { fallbacks: { good: ['bad-2'] } });
    expect(parts).toEqual([]);
    expect(error).toMatchObject({ code: 'models.unavailable' });
  });

  it('a host that is down is skipped at once, for every model it has', async () => {
    await using down = await createModelServer([{ status: 500, json: { error: 'oh' } }]);
    await using up = await createModelServer([[{ text: 'fine' }]]);
    const hosts = { down: { baseUrl: down.url, models: ['bad'] }, up: { baseUrl: up.url, models: ['good'] } };
    const router = createRouter(modelsConfig.parse({ retries: 0, hosts, fallbacks: { bad: ['good'] } }), {});
    for (let n = 0; n < 8; n++) {
      const { parts } = await ask(router.resolve(`bad-${n % 2}`));
      expect(parts.at(-1)).toEqual({ type: 'text', text: 'fine' });
    }
    expect(down.requests).toHaveLength(5);
  });
});
