import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { inspect } from 'node:util';
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { allowAll, createAgent, defineTool } from '../../src/kernel/index.ts';
import type { AssistantBody, Json, Message } from '../../src/kernel/messages.ts';
import type { Model, ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import type { ReasoningMode } from '../../src/models/ai-sdk-encode.ts';
import { encodePrompt } from '../../src/models/ai-sdk-encode.ts';
import type { AiSdkConfig } from '../../src/models/ai-sdk.ts';
import { createAiSdkModel, createPackageModel } from '../../src/models/ai-sdk.ts';
import type { PackageKind } from '../../src/models/ai-sdk-packages.ts';
import type { Event, Reply } from './messages-server.ts';
import { begin, block, createMessagesServer, end, open, refuse, stream, textBlock } from './messages-server.ts';

const KEY = 'sk-ant-verysecret0123456789';
const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] });
const request: ModelRequest = { system: 'Be good.', messages: [user('hi')], tools: [] };

async function ask(model: Model, what = request, signal = new AbortController().signal) {
  const parts: ModelPart[] = [];
  try {
    return { parts, finish: await model.call(what, signal, (part) => parts.push(part)), error: undefined };
  } catch (error: unknown) {
    return { parts, finish: undefined, error };
  }
}

const modelAt = (baseUrl: string, limits: AiSdkConfig['limits'] = {}, kind: PackageKind = 'anthropic'): Model =>
  createPackageModel({ kind, name: 'm', model: 'claude-sonnet-4-5', provider: kind, apiKey: KEY, baseUrl, limits });

const none = z.strictObject({});
const said = (parts: ModelPart[]): string => parts.map((part) => ('text' in part ? part.text : '')).join('');
const says = (...texts: string[]): ModelPart[] => texts.map((text) => ({ type: 'text', text }));

describe('Anthropic, through its package', () => {
  it('says text, with usage and the model that answered, over one connection', async () => {
    const answer = [begin, { type: 'ping' }, ...textBlock(0, '你好', ' there'), ...end()];
    await using server = await createMessagesServer(stream(...answer));
    const model = modelAt(server.url);
    for (let i = 0; i < 3; i++) {
      const { parts, finish, error } = await ask(model);
      expect(error).toBeUndefined();
      expect(parts).toEqual(says('你好', ' there'));
      const usage = { inputTokens: 10, outputTokens: 5, reasoningTokens: 0, cachedTokens: 3 };
      expect(finish).toEqual({ reason: 'stop', model: 'claude-x-1', usage });
    }
    const [first] = server.requests;
    expect(first).toMatchObject({ path: '/v1/messages', headers: { 'x-api-key': KEY } });
    expect(first!.body.messages).toMatchObject([{ role: 'user', content: [{ type: 'text', text: 'hi' }] }]);
    expect(first!.body.system).toMatchObject([{ type: 'text', text: 'Be good.' }]);
    expect(new Set(server.requests.map(({ port }) => port)).size).toBe(1);
  });

  it('thinks: the signature goes back with the thinking, unsigned thinking does not', async () => {
    const deltas = ['Hm', '...'].map((thinking) => ({ type: 'thinking_delta', thinking }));
    const signature = { type: 'signature_delta', signature: 'SIG==' };
    const thinking = block(0, { type: 'thinking', thinking: '', signature: '' }, ...deltas, signature);
    const redacted = block(1, { type: 'redacted_thinking', data: 'SECRETLY' });
    const tool = block(2, { type: 'tool_use', id: 'toolu_1', name: 'time', input: {} });
    await using server = await createMessagesServer(
      stream(begin, ...thinking, ...redacted, ...tool, ...end('tool_use')),
      stream(begin, ...textBlock(0, 'Noon.'), ...end()),
    );
    const time = defineTool({ name: 'time', description: 'Now', parameters: none, effect: 'read', run: () => 'noon' });
    await using agent = createAgent({ model: modelAt(server.url), tools: [time], policy: allowAll });
    let text = '';
    for await (const event of agent.run({ text: 'now?' })) if (event.type === 'token') text += event.text;
    expect(text).toBe('Noon.');
    expect(server.requests[0]!.body.tools).toMatchObject([{ name: 'time', input_schema: { type: 'object' } }]);
    const content = [
      { type: 'thinking', thinking: 'Hm...', signature: 'SIG==' },
      { type: 'redacted_thinking', data: 'SECRETLY' },
      { type: 'tool_use', name: 'time', input: {} },
    ];
    const results = [{ type: 'tool_result', content: 'noon' }];
    const expected = [{ role: 'user' }, { role: 'assistant', content }, { role: 'user', content: results }];
    expect(server.requests[1]!.body.messages).toMatchObject(expected);
  });

  it('calls a tool without arguments', async () => {
    const none = { type: 'input_json_delta', partial_json: '' };
    const tool = block(0, { type: 'tool_use', id: 'toolu_1', name: 'dice', input: {} }, none);
    await using server = await createMessagesServer(stream(begin, ...tool, ...end('tool_use')));
    const { parts, finish } = await ask(modelAt(server.url));
    expect(parts).toEqual([{ type: 'tool_call', id: 'toolu_1', name: 'dice', args: '{}' }]);
    expect(finish).toMatchObject({ reason: 'tool_calls' });
  });

  const half = [begin, ...textBlock(0, 'a')];
  const cut: Reply = (response) => {
    open(response, half);
    setTimeout(() => response.destroy(), 20);
  };
  const silent: Reply = (response) => open(response, [begin]);
  const hang: Reply = (response) => open(response, half);
  const limited = { code: 'models.rate_limited', retryable: true, data: { httpStatus: 429, retryAfterMs: 3000 } };
  const overload: Event = { type: 'error', error: { type: 'overloaded_error', message: `Overloaded ${KEY}` } };

  it.each<[string, Reply, object]>([
    ['a wrong key', refuse(401, 'authentication_error', `invalid x-api-key ${KEY}`), { code: 'models.auth' }],
    ['a limit', refuse(429, 'rate_limit_error', KEY, { 'retry-after': '3' }), limited],
    ['an overload', refuse(529, 'overloaded_error', KEY), { code: 'models.overloaded', retryable: true }],
    ['a refusal', refuse(400, 'invalid_request_error', `bad ${KEY}`), { code: 'models.bad_request', retryable: false }],
    ['an error event first', stream(overload), { code: 'models.overloaded', retryable: true }],
    ['an error event later', stream(...half, overload), { code: 'models.overloaded' }],
    ['a stream without an end', stream(...half), { code: 'models.stream_cut', retryable: true }],
    ['an empty body', stream(), { retryable: true }],
    ['a cut stream', cut, { code: 'models.stream_cut', retryable: true }],
    ['a reason nobody knows', stream(...half, ...end('whim')), { code: 'models.error' }],
    ['silence', silent, { code: 'models.timeout_first' }],
    ['silence in the middle', hang, { code: 'models.timeout_idle' }],
  ])('tells %s, without the key', async (_, reply, expected) => {
    await using server = await createMessagesServer(reply);
    const { error } = await ask(modelAt(server.url, { firstTokenMs: 200, idleMs: 100 }));
    expect(error).toMatchObject({ name: 'AgentError', ...expected });
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('verysecret');
  });

  it('nobody there is an error of the network', async () => {
    const { url, ...server } = await createMessagesServer(hang);
    await server[Symbol.asyncDispose]();
    const message = 'anthropic cannot be reached: nothing listens there.';
    expect((await ask(modelAt(url))).error).toMatchObject({ code: 'models.network', message, retryable: true });
  });

  it.each<[string, Reply]>([
    ['before the answer', () => undefined],
    ['in the middle of it', hang],
  ])('an abort %s closes the socket', async (_, reply) => {
    await using server = await createMessagesServer(reply);
    const controller = new AbortController();
    const asked = ask(modelAt(server.url), request, controller.signal);
    await expect.poll(() => server.requests.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const reason = new Error('enough');
    controller.abort(reason);
    expect((await asked).error).toBe(reason);
    await expect.poll(() => server.requests[0]!.isClosed).toBe(true);
    expect((await ask(modelAt(server.url), request, controller.signal)).error).toBe(reason);
    expect(server.requests).toHaveLength(1);
  });

  const folder = '/work/shared/streams';
  const samples = existsSync(folder) ? globSync(`${folder}/anthropic--*.jsonl`) : [];
  it.skipIf(!samples.length).each(samples.map((path) => [basename(path), path]))('replays %s', async (name, path) => {
    const lines = readFileSync(path, 'utf8').trim().split('\n');
    const sample = lines.map((line) => JSON.parse(line) as Event);
    await using server = await createMessagesServer(stream(...sample));
    const { parts, finish, error } = await ask(modelAt(server.url));
    if (error) expect(error).toMatchObject({ code: expect.stringMatching(/^models\./) as string });
    else expect(finish!.usage.outputTokens).toBeGreaterThan(0);
    if (!/text|no-args|thinking/.test(name)) return;
    const deltas = sample.map(({ delta }) => (delta ?? {}) as { text?: string; thinking?: string });
    expect(said(parts)).toBe(deltas.map(({ text, thinking }) => text ?? thinking ?? '').join(''));
    expect(error).toBeUndefined();
  });
});

it.each<PackageKind>(['deepseek', 'alibaba'])('%s, through its package', async (kind) => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const call = { index: 0, id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } };
  const deltas = [{ reasoning_content: 'Hm' }, { content: 'a' }, { tool_calls: [call] }].map((delta) => chunk(delta));
  await using server = await createMessagesServer((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`${deltas.join('')}${chunk({}, 'tool_calls')}data: [DONE]\n\n`);
  });
  const { parts, finish } = await ask(modelAt(server.url, {}, kind));
  const made: ModelPart = { type: 'tool_call', id: 'x', name: 'f', args: '{}' };
  expect(parts.filter(({ type }) => type !== 'reasoning')).toEqual([...says('a'), made]);
  expect(said(parts)).toBe('Hma');
  expect(finish).toMatchObject({ reason: 'tool_calls' });
});

type Part = LanguageModelV4StreamPart;
const delta = (delta: string): Part => ({ type: 'text-delta', id: 't', delta });
const finishPart = (unified: 'stop' | 'tool-calls' | 'error' | 'other', raw?: string): Part => ({
  type: 'finish',
  finishReason: { unified, raw },
  usage: {
    inputTokens: { total: 4, noCache: undefined, cacheRead: 1, cacheWrite: undefined },
    outputTokens: { total: 2, text: 1, reasoning: 1 },
  },
});
const base = { specificationVersion: 'v4', provider: 'own', modelId: 'own-1', supportedUrls: {} } as const;
const doGenerate = () => Promise.reject(new Error('not used'));

/** Written by hand, as anybody may. Each call gives the next parts. */
function createOwn(...answers: (Part[] | Error)[]) {
  const calls: LanguageModelV4CallOptions[] = [];
  const doStream: LanguageModelV4['doStream'] = (options) => {
    calls.push(options);
    const answer = answers[calls.length - 1] ?? [];
    const start = (controller: ReadableStreamDefaultController<Part>) => {
      if (answer instanceof Error) return controller.error(answer);
      for (const part of answer) controller.enqueue(part);
      controller.close();
    };
    return Promise.resolve({ stream: new ReadableStream<Part>({ start }) });
  };
  const model = { ...base, doGenerate, doStream };
  return { calls, model: createAiSdkModel({ model, name: 'own', provider: 'own', secrets: [KEY] }) };
}

describe('MODEL-05: any LanguageModelV4', () => {
  it('is a model of an agent: tools, memory and events as with any other', async () => {
    const { model, calls } = createOwn(
      [
        { type: 'stream-start', warnings: [] },
        delta('Let me see. '),
        { type: 'tool-call', toolCallId: 'c', toolName: 'add', input: '{"a":1,"b":2}' },
        finishPart('tool-calls'),
      ],
      [delta('Three.'), finishPart('stop')],
      [delta('I said three.'), finishPart('stop')],
    );
    const parameters = z.strictObject({ a: z.number(), b: z.number() });
    const run = ({ a, b }: { a: number; b: number }) => ({ sum: a + b });
    const add = defineTool({ name: 'add', description: 'Adds', parameters, effect: 'read', run });
    await using agent = createAgent({ model, tools: [add], policy: allowAll, system: 'Count.' });
    const types: string[] = [];
    for await (const { type } of agent.run({ conversation: 'c1', text: '1 + 2?' })) types.push(type);
    expect(types).toEqual(expect.arrayContaining(['token', 'tool_call', 'tool_result']));
    for await (const { type } of agent.run({ conversation: 'c1', text: 'what?' })) types.push(type);
    expect(calls).toHaveLength(3);
    expect(calls[2]!.prompt).toMatchObject([
      { role: 'system', content: 'Count.' },
      { role: 'user', content: [{ type: 'text', text: '1 + 2?' }] },
      { role: 'assistant', content: [{ type: 'text' }, { type: 'tool-call', input: { a: 1, b: 2 } }] },
      { role: 'tool', content: [{ type: 'tool-result', output: { type: 'json', value: { sum: 3 } } }] },
      { role: 'assistant', content: [{ type: 'text', text: 'Three.' }] },
      { role: 'user', content: [{ type: 'text', text: 'what?' }] },
    ]);
  });

  it('hands over each part: metadata wherever it comes, characters that were cut in two', async () => {
    const { model } = createOwn([
      { type: 'reasoning-start', id: 'r', providerMetadata: { own: { a: 1 } } },
      { type: 'reasoning-delta', id: 'r', delta: 'Hm' },
      { type: 'reasoning-end', id: 'r', providerMetadata: { own: { b: 2 } } },
      delta('a\ud83e'),
      delta('\udd9e'),
      { type: 'tool-call', toolCallId: 'x', toolName: 'search', input: '{}', providerExecuted: true },
      { type: 'response-metadata', modelId: 'own-2' },
      finishPart('stop'),
    ]);
    const { parts, finish } = await ask(model);
    const metadata = { own: { a: 1, b: 2 } };
    expect(parts[0]).toEqual({ type: 'reasoning', text: 'Hm' });
    expect(parts.slice(1)).toEqual([{ type: 'reasoning', text: '', metadata }, ...says('a', '🦞')]);
    const usage = { inputTokens: 4, outputTokens: 2, reasoningTokens: 1, cachedTokens: 1 };
    expect(finish).toEqual({ reason: 'stop', model: 'own-2', usage });
  });

  const one = delta('a');
  const plain: Part = { type: 'error', error: { message: `quota: billing ${KEY}` } };
  const apiError = (statusCode: number, more = {}) =>
    Object.assign(new Error(KEY), { name: 'AI_APICallError', statusCode, ...more });
  it.each<[string, Part[] | Error, string]>([
    ['finish "error"', [one, finishPart('error')], 'models.unavailable'],
    ['finish "other" of a full host', [one, finishPart('other', 'insufficient_system_resource')], 'models.overloaded'],
    ['finish "other" for no reason', [one, finishPart('other')], 'models.stream_cut'],
    ['no finish', [one], 'models.stream_cut'],
    ['nothing at all', [], 'models.stream_cut'],
    ['an error part that is a plain object', [plain], 'models.quota'],
    ['an error part that is text', [{ type: 'error', error: `rate limit ${KEY}` }], 'models.rate_limited'],
    ['an error of its own', new Error(`broken ${KEY}`), 'models.error'],
    ['a missing key', Object.assign(new Error(KEY), { name: 'AI_LoadAPIKeyError' }), 'models.auth'],
    ['an APICallError of another copy', apiError(503, { responseHeaders: {}, responseBody: '' }), 'models.overloaded'],
    ['a body that is not of the protocol', apiError(200), 'models.stream_invalid'],
  ])('%s', async (_, answer, code) => {
    const { error } = await ask(createOwn(answer).model);
    expect(error).toMatchObject({ name: 'AgentError', code });
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('verysecret');
  });

  it('is let go of although it does not listen', async () => {
    let isCancelled = false;
    const stream = new ReadableStream<Part>({ cancel: () => void (isCancelled = true) });
    const model = { ...base, doGenerate, doStream: () => Promise.resolve({ stream }) };
    const limits = { firstTokenMs: 30 };
    const { error } = await ask(createAiSdkModel({ model, name: 'deaf', provider: 'deaf', limits }));
    expect(error).toMatchObject({ code: 'models.timeout_first' });
    await expect.poll(() => isCancelled).toBe(true);
  });

  it('says which package is missing, and looks again with the next call', async () => {
    let attempts = 0;
    const error = new Error("Cannot find package '@ai-sdk/anthropic' imported from /x");
    const missing = Object.assign(error, { code: 'ERR_MODULE_NOT_FOUND' });
    const load = () => (attempts++, Promise.reject(missing));
    const model = createAiSdkModel({ model: load, name: 'm', provider: 'anthropic' });
    const hint: unknown = expect.stringMatching(/npm install @ai-sdk\/anthropic@\d+\.\d+\.\d+`/);
    for (let i = 1; i < 3; i++) {
      expect((await ask(model)).error).toMatchObject({ code: 'models.package_missing', hint });
      expect(attempts).toBe(i);
    }
  });
});

describe('a prompt', () => {
  const said = (parts: AssistantBody['parts']): Message => ({ role: 'assistant', parts, model: 'm' });
  const thought = (text: string, metadata?: Json) => ({ type: 'reasoning' as const, text, metadata });
  const messages: Message[] = [
    user('a'),
    said([thought('old', { anthropic: { signature: 's' } }), thought('half'), { type: 'text', text: 'b' }]),
    user('c'),
    said([
      thought('new'),
      { type: 'tool_call', id: '1', name: 'no such', args: null, raw: '{' },
      { type: 'tool_call', id: '2', name: 'f', args: {} },
    ]),
    { role: 'tool', call: '1', name: 'no such', result: 'bad', isError: true },
    { role: 'tool', call: '2', name: 'f', result: { bad: true }, isError: true },
    said([thought('only')]),
  ];
  const file = { type: 'file', id: 'f', name: 'x\ny', mime: 'text/plain', bytes: 3 } as const;

  it.each<[ReasoningMode, string[]]>([
    ['all', ['old', 'half', 'new']],
    ['signed', ['old']],
    ['current_turn', ['new']],
    ['none', []],
  ])('holds the reasoning of past answers: %s', (mode, expected) => {
    const parts = encodePrompt({ system: '', messages, tools: [] }, mode).flatMap<object | string>((m) => m.content);
    const found = parts.filter((part) => typeof part === 'object' && 'type' in part && part.type === 'reasoning');
    expect(found).toMatchObject(expected.map((text) => ({ text })));
  });

  it('keeps names and arguments legal, tells errors and files, and is made once', () => {
    const sent: Message = { role: 'user', parts: [file] };
    const encode = () => encodePrompt({ system: 's', messages: [...messages, sent], tools: [] }, 'none');
    const prompt = encode();
    const result = { type: 'tool-result', toolCallId: '1', toolName: 'no_such' };
    expect(prompt.slice(4).map(({ content }) => content)).toMatchObject([
      [{ type: 'tool-call', toolCallId: '1', toolName: 'no_such', input: {} }, { toolCallId: '2' }],
      [{ ...result, output: { type: 'error-text', value: 'bad' } }],
      [{ toolCallId: '2', output: { type: 'error-json', value: { bad: true } } }],
      [{ type: 'text', text: '[file x y (text/plain, 3 bytes)]' }],
    ]);
    for (const [i, message] of encode().entries()) if (i) expect(message).toBe(prompt[i]);
  });
});
