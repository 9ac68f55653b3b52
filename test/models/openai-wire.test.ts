import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { allowAll, createAgent, defineTool } from '../../src/kernel/index.ts';
import { AgentError } from '../../src/kernel/errors.ts';
import type { Model, ModelFinish, ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import type { OpenAIWireConfig } from '../../src/models/openai-wire.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { ModelServerReply } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import { calls, delta, plainSamples, text, toBody } from './streams.ts';

const request: ModelRequest = {
  system: 'Be good.',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
};
const KEY = 'sk-verysecret0123456789';

const modelAt = (baseUrl: string, config: Partial<OpenAIWireConfig> = {}): Model =>
  createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', apiKey: KEY, baseUrl, ...config });

interface Asked {
  parts: ModelPart[];
  finish?: ModelFinish;
  error?: unknown;
}

async function ask(model: Model, signal = new AbortController().signal): Promise<Asked> {
  const parts: ModelPart[] = [];
  try {
    return { parts, finish: await model.call(request, signal, (part) => parts.push(part)) };
  } catch (error) {
    return { parts, error };
  }
}

async function failure(reply: ModelServerReply, config: Partial<OpenAIWireConfig> = {}): Promise<AgentError> {
  await using server = await createModelServer([reply]);
  const { error } = await ask(modelAt(server.url, config));
  if (!(error instanceof AgentError)) throw new Error('expected an AgentError', { cause: error });
  return error;
}

describe('a call', () => {
  it('sends the request and hands over parts, calls and usage', async () => {
    await using server = await createModelServer([
      [{ reasoning: 'Hm' }, { text: '你好 there' }, { call: 'time', args: { zone: 'UTC' } }, { call: 'dice' }],
    ]);
    const { parts, finish } = await ask(modelAt(`${server.url}/`, { headers: { 'X-Extra': 'yes' } }));
    expect(parts).toEqual([
      { type: 'reasoning', text: 'Hm' },
      text('你好'),
      text(' there'),
      { type: 'tool_call', id: 'call_0', name: 'time', args: '{"zone":"UTC"}' },
      { type: 'tool_call', id: 'call_1', name: 'dice', args: '{}' },
    ]);
    expect(finish).toMatchObject({ reason: 'tool_calls', model: 'm', usage: { inputTokens: 10, outputTokens: 5 } });
    const [{ body, headers, path }] = [server.requests[0]!];
    expect(body.messages.map(({ role, content }) => [role, content])).toEqual([
      ['system', 'Be good.'],
      ['user', 'hi'],
    ]);
    expect(headers).toMatchObject({ authorization: `Bearer ${KEY}`, 'x-extra': 'yes' });
    expect(path).toBe('/v1/chat/completions');
  });

  it('keeps one connection for calls that follow each other, also after a refusal', async () => {
    await using server = await createModelServer([[{ text: 'a' }], { status: 429, json: {} }, [{ text: 'b' }]]);
    const model = modelAt(server.url);
    for (let i = 0; i < 5; i++) await ask(model);
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1]);
  });

  it('keeps a query string of the base URL', async () => {
    await using server = await createModelServer([[{ text: 'a' }]]);
    await ask(modelAt(`${server.url}?api-version=1`, { apiKey: undefined }));
    expect(server.requests[0]!.path).toBe('/v1/chat/completions?api-version=1');
    expect(server.requests[0]!.headers.authorization).toBeUndefined();
  });

  it('reads characters that packets cut in two', async () => {
    const bytes = Buffer.from(toBody(plainSamples[0]!.events));
    const steps = [...bytes].flatMap((byte, i) =>
      byte > 0x7f ? [{ raw: bytes.subarray(i, i + 1) }, { delayMs: 1 }] : [{ raw: bytes.subarray(i, i + 1) }],
    );
    await using server = await createModelServer([[...steps, { end: true }]]);
    const { parts, finish } = await ask(modelAt(server.url));
    expect(parts).toEqual(plainSamples[0]!.parts);
    expect(finish).toMatchObject(plainSamples[0]!.finish);
  });

  it('is complete at [DONE] although the host keeps the body open', async () => {
    const body = toBody([delta({ content: 'a' }), delta({}, 'stop')]);
    await using server = await createModelServer([[{ raw: body }, { hang: true }]]);
    expect(await ask(modelAt(server.url))).toMatchObject({ parts: [text('a')], finish: { reason: 'stop' } });
  });

  it('is complete after its finish although the host says nothing more', async () => {
    await using server = await createModelServer([[{ text: 'a' }, { finish: 'stop' }, { hang: true }]]);
    const model = modelAt(server.url, { limits: { idleMs: 50 } });
    expect(await ask(model)).toMatchObject({ parts: [text('a')], finish: { reason: 'stop' } });
    await expect.poll(() => server.requests[0]!.isAborted).toBe(true);
  });

  it('G7: a call whose delta has no arguments key runs with {}', async () => {
    const chunk = calls({ index: 0, id: 'a', function: { name: 'time' } });
    await using server = await createModelServer([[{ chunk }, { finish: 'tool_calls' }], [{ text: 'done' }]], {
      isStrict: true,
    });
    const time = defineTool({
      name: 'time',
      description: 'Now',
      parameters: z.strictObject({}),
      effect: 'read',
      run: (args) => ({ args }),
    });
    await using agent = createAgent({ model: modelAt(server.url), tools: [time], policy: allowAll });
    const types: string[] = [];
    for await (const { type } of agent.run({ text: 'now?' })) types.push(type);
    expect(types.at(-1)).toBe('run_end');
    expect(server.requests[1]!.body.messages.at(-1)).toMatchObject({ role: 'tool', content: '{"args":{}}' });
  });

  it('asks again without stream_options where a host refuses them, and remembers', async () => {
    const refusal = { status: 400, json: { error: { message: 'Unknown field: stream_options' } } };
    await using server = await createModelServer(({ body }) => ('stream_options' in body ? refusal : [{ text: 'a' }]));
    const model = modelAt(server.url);
    const both = await Promise.all([ask(model), ask(model)]);
    expect(both.every(({ finish }) => finish)).toBe(true);
    expect((await ask(model)).finish).toBeDefined();
    expect(server.requests.map(({ body }) => 'stream_options' in body)).toEqual([true, true, false, false, false]);
  });

  it('asks again without tools where a model cannot use them, says so, and remembers it for that model', async () => {
    const message = 'registry.ollama.ai/library/gemma3:latest does not support tools';
    const refusal = { status: 400, json: { error: { message, type: 'api_error' } } };
    await using server = await createModelServer(({ body }) =>
      body.model === 'plain' && body.tools ? refusal : [{ text: 'a' }],
    );
    const withTool = { ...request, tools: [{ name: 't', description: '', schema: { type: 'object' } }] };
    const codes = async (model: Model, what = withTool) => {
      const said: string[] = [];
      await model.call(what, new AbortController().signal, (part) =>
        said.push(part.type === 'warning' ? part.code : part.type),
      );
      return said;
    };
    const plain = modelAt(server.url, { name: 'plain', model: 'plain' });
    for (let n = 0; n < 2; n++) expect(await codes(plain)).toEqual(['models.no_tools', 'text']);
    expect(await codes(plain, { ...request, tools: [] })).toEqual(['text']);
    expect(await codes(modelAt(server.url))).toEqual(['text']);
    expect(server.requests.map(({ body }) => body.tools?.length ?? 0)).toEqual([1, 0, 0, 0, 1]);
  });

  it('asks again at once when the host closed the connection that was kept', async () => {
    let hits = 0;
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', (data) => {
        if (!data.includes('POST')) return;
        hits++;
        if (hits === 2) {
          socket.destroy();
          return;
        }
        const body = toBody([delta({ content: 'a' }), delta({}, 'stop')]);
        const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n';
        socket.write(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
      });
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    const model = modelAt(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
    expect((await ask(model)).finish).toBeDefined();
    expect((await ask(model)).finish).toBeDefined();
    expect(hits).toBe(3);
    server.close();
  });
});

describe('a refusal', () => {
  it.each([
    [401, { error: { message: 'no' } }, 'models.auth', false],
    [403, { error: { message: 'no' } }, 'models.auth', false],
    [402, { error: { message: 'Insufficient Balance' } }, 'models.quota', false],
    [429, { error: { message: 'slow down' } }, 'models.rate_limited', true],
    [429, { error: { message: 'x', code: 'insufficient_quota' } }, 'models.quota', false],
    [400, { error: { message: 'bad value' } }, 'models.bad_request', false],
    [400, { code: 'Arrearage', message: 'overdue' }, 'models.quota', false],
    [400, { error: { message: 'x', code: 'context_length_exceeded' } }, 'models.context_length', false],
    [400, { error: { message: 'Model Not Exist' } }, 'models.not_found', false],
    [404, { detail: 'Not Found' }, 'models.not_found', false],
    [422, { detail: [{ msg: 'field required' }] }, 'models.bad_request', false],
    [500, { error: { message: 'oops' } }, 'models.unavailable', true],
    [502, '<html>Bad Gateway</html>', 'models.unavailable', true],
    [503, { error: 'busy' }, 'models.overloaded', true],
    [529, { error: { type: 'overloaded_error' } }, 'models.overloaded', true],
    [307, {}, 'models.error', false],
    [200, { error: { message: 'Internal error', code: 500 } }, 'models.unavailable', true],
    [200, '<!doctype html><p>login</p>', 'models.stream_invalid', true],
  ])('%i %j is %s', async (status, json, code, retryable) => {
    const error = await failure({ status, json });
    expect(error).toMatchObject({ code, retryable });
    expect(error.message).toContain('host');
    expect(error.message).not.toContain('<');
  });

  it('MODEL-08: shows what the provider says, without keys and headers', async () => {
    const message = `Incorrect API key provided: ${KEY}; header tenant-42 sk-very****6789`;
    const reply = { status: 401, json: { error: { message } } };
    const error = await failure(reply, { headers: { 'x-tenant': 'tenant-42' } });
    const shown = 'host answered 401: Incorrect API key provided: [masked]; header [masked] [masked]';
    expect(error.message).toBe(shown);
    expect(JSON.stringify([error, error.cause, error.stack])).not.toContain('verysecret');
  });

  it('tells how long the provider asks to wait', async () => {
    const wait = (headers: Record<string, string>) => failure({ status: 429, json: {}, headers });
    expect((await wait({ 'retry-after': '7' })).data?.retryAfterMs).toBe(7000);
    expect((await wait({ 'retry-after-ms': '250' })).data?.retryAfterMs).toBe(250);
    const date = new Date(Date.now() + 5000).toUTCString();
    expect((await wait({ 'retry-after': date })).data?.retryAfterMs).toBeGreaterThan(3000);
    expect((await wait({ 'retry-after': 'soon' })).data?.retryAfterMs).toBeUndefined();
  });

  it('a base URL that is none is not configured', () => {
    for (const url of ['', 'localhost:1', 'file:///etc']) {
      expect(() => modelAt(url)).toThrow(expect.objectContaining({ code: 'models.not_configured', status: 400 }));
    }
  });
});

describe('a connection that fails', () => {
  it('nothing listens', async () => {
    const server = await createModelServer();
    const { url } = server;
    await server[Symbol.asyncDispose]();
    const { error } = await ask(modelAt(url));
    expect(error).toMatchObject({ code: 'models.network', retryable: true, data: { reason: 'ECONNREFUSED' } });
  });

  it('a cut before the answer is a network error', async () => {
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    const { error } = await ask(modelAt(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`));
    expect(error).toMatchObject({ code: 'models.network', retryable: true });
    server.close();
  });

  it('a cut in the middle is models.stream_cut, and what came stays', async () => {
    await using server = await createModelServer([[{ text: 'a b' }, { cut: true }]]);
    const { parts, error } = await ask(modelAt(server.url));
    expect(parts).toEqual([text('a'), text(' b')]);
    expect(error).toMatchObject({ code: 'models.stream_cut', retryable: true });
  });

  it('an end without a finish reason is models.stream_cut', async () => {
    expect(await failure([{ text: 'a' }, { end: true }])).toMatchObject({ code: 'models.stream_cut' });
  });

  it('a cut after the finish reason loses nothing', async () => {
    await using server = await createModelServer([[{ text: 'a' }, { finish: 'stop' }, { cut: true }]]);
    expect(await ask(modelAt(server.url))).toMatchObject({ parts: [text('a')], finish: { reason: 'stop' } });
  });
});

describe('time limits', () => {
  const pings = Array.from({ length: 20 }, () => [
    { raw: ': ping\n\ndata: {"choices":[]}\n\n' },
    { delayMs: 20 },
  ]).flat();

  it.each<[string, ModelServerReply, Partial<OpenAIWireConfig['limits']>, string]>([
    ['first token, silence', [{ hang: true }], { firstTokenMs: 60 }, 'models.timeout_first'],
    ['first token, pings only', pings, { firstTokenMs: 60 }, 'models.timeout_first'],
    ['idle, silence', [{ text: 'a' }, { hang: true }], { idleMs: 60 }, 'models.timeout_idle'],
    ['idle, pings only', [{ text: 'a' }, ...pings], { idleMs: 60 }, 'models.timeout_idle'],
    [
      'total',
      Array.from({ length: 50 }, () => [{ text: 'a' }, { delayMs: 10 }]).flat(),
      { totalMs: 80 },
      'models.timeout_total',
    ],
  ])('%s', async (_, reply, limits, code) => {
    await using server = await createModelServer([reply]);
    const begun = performance.now();
    const { error } = await ask(modelAt(server.url, { limits }));
    expect(error).toMatchObject({ code, status: 504 });
    expect(performance.now() - begun).toBeLessThan(3000);
    await expect.poll(() => server.requests[0]!.isAborted).toBe(true);
  });

  it('idle counts from the last part, not from the call', async () => {
    const steps = Array.from({ length: 8 }, () => [{ text: 'a' }, { delayMs: 50 }]).flat();
    await using server = await createModelServer([steps]);
    const { finish } = await ask(modelAt(server.url, { limits: { idleMs: 300, firstTokenMs: 300 } }));
    expect(finish).toBeDefined();
  });
});

describe('abort', () => {
  it('closes the connection at once and rejects with the reason', async () => {
    await using server = await createModelServer([[{ text: 'a b c' }, { hang: true }]]);
    const controller = new AbortController();
    const reason = new Error('stopped by a person');
    const parts: ModelPart[] = [];
    const call = modelAt(server.url).call(request, controller.signal, (part) => {
      parts.push(part);
      if (parts.length === 2) controller.abort(reason);
    });
    await expect(call).rejects.toBe(reason);
    expect(parts).toHaveLength(2);
    await expect.poll(() => server.requests[0]!.isAborted).toBe(true);
  });

  it('before the call sends nothing', async () => {
    await using server = await createModelServer();
    const { error } = await ask(modelAt(server.url), AbortSignal.abort('early'));
    expect(error).toBe('early');
    expect(server.requests).toHaveLength(0);
  });

  it('before the first byte', async () => {
    await using server = await createModelServer([[{ hang: true }]]);
    const controller = new AbortController();
    setTimeout(() => controller.abort('late'), 30);
    expect((await ask(modelAt(server.url), controller.signal)).error).toBe('late');
    await expect.poll(() => server.requests[0]!.isAborted).toBe(true);
  });
});
