import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { HomardInput } from '../../src/app.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import type { ModelServer, ModelServerScript } from '../../src/testing/model-server.ts';
import { createFakeOllama } from '../models/fake-ollama.ts';
import type { TestServer } from './harness.ts';
import { createTestServer } from './harness.ts';

const KEY = 'sk-right-0123456789abcdef';
const OTHER = 'sk-other-fedcba9876543210';

/** Answers only who has the key, and repeats a wrong one in its refusal, as real hosts do. */
const withKey =
  (key: string, says = 'ok'): ModelServerScript =>
  ({ headers, body }) =>
    headers.authorization === `Bearer ${key}`
      ? [{ text: `${says} from ${body.model}` }]
      : { status: 401, json: { error: { message: `Incorrect API key provided: ${headers.authorization}.` } } };

describe('setting up a model while the server runs', () => {
  const open: AsyncDisposable[] = [];
  const log: unknown[] = [];
  const logger = { warn: (...all: unknown[]) => log.push(all), error: (...all: unknown[]) => log.push(all) };
  /** One owner, as a newcomer has it; between tests it is set up as it was in the beginning. */
  let server: TestServer;
  let isChanged = false;
  beforeAll(async () => {
    server = await createTestServer('embedded', { identity: undefined, token: 'ann-token', logger });
  });
  afterAll(() => server[Symbol.asyncDispose]());
  afterEach(async () => {
    for (const each of open.splice(0).toReversed()) await each[Symbol.asyncDispose]();
    if (isChanged) await restart();
    isChanged = false;
    await server.call('DELETE', '/setup');
    log.length = 0;
  });
  const keep = <T extends AsyncDisposable>(each: T): T => {
    open.push(each);
    return each;
  };
  const startModel = async (script: ModelServerScript): Promise<ModelServer> => keep(await createModelServer(script));
  const restart = async (input: HomardInput = {}) => {
    isChanged = true;
    await server.restart(input);
  };

  const fileOf = () => join(server.folder, 'model.json');
  const savedIn = () => {
    const all = readdirSync(server.folder, { recursive: true, withFileTypes: true });
    return all.filter((file) => file.isFile() && /model|draft|secret/.test(file.name)).map(({ name }) => name);
  };
  const get = async () => (await server.call('GET', '/setup')).body as Record<string, unknown>;
  const post = (body: unknown, path = '/setup') => server.call('POST', path, { body });
  const ask = async (query = 'hi') => {
    const { body } = await server.call('POST', '/chat', { body: { query } });
    return { text: String(body.text), model: String(body.model) };
  };

  it('CHAN-14 a key is tested by one live call, and a test saves nothing', async () => {
    const model = await startModel(withKey(KEY));
    const choice = { provider: 'openai', baseUrl: model.url, model: 'm-1', apiKey: KEY };
    const good = await post(choice, '/setup/test');
    expect(good).toMatchObject({ status: 200, body: { ok: true, text: 'ok from m-1', ms: expect.any(Number) } });
    expect(good.headers.get('cache-control')).toBe('no-store');
    expect(model.requests).toHaveLength(1);
    const bad = await post({ ...choice, apiKey: OTHER }, '/setup/test');
    expect(bad.body).toMatchObject({ ok: false, error: { code: 'models.auth', hint: expect.stringContaining('key') } });
    expect(bad.body.error!.message).toContain('[masked]');
    expect(model.requests).toHaveLength(2);
    expect(await get()).toMatchObject({
      saved: null,
      isDemo: true,
      current: { provider: 'demo', source: 'demo' },
    });
    expect(savedIn()).toEqual(['secret']);
  });

  it('CHAN-14 what answered is saved in one file for this user alone, and used at once and after a restart', async () => {
    const model = await startModel(withKey(KEY));
    expect((await ask()).model).toBe('demo');
    const choice = {
      provider: 'deepseek',
      baseUrl: ` ${model.url}/chat/completions `,
      model: 'm-1',
      apiKey: `${KEY}\n`,
    };
    const { status, body } = await post(choice);
    const state = {
      saved: { provider: 'deepseek', model: 'm-1', baseUrl: model.url, hasKey: true },
      current: { provider: 'deepseek', model: 'm-1', hasKey: true, keySource: 'file', source: 'file' },
      overriddenBy: [],
      isDemo: false,
    };
    expect([status, body]).toMatchObject([200, { ok: true, text: 'ok from m-1', setup: state }]);
    expect(await ask()).toEqual({ text: 'ok from m-1', model: 'm-1' });
    expect(statSync(fileOf()).mode & 0o777).toBe(0o600);
    expect(savedIn().toSorted()).toEqual(['model.json', 'secret']);
    // What the demo alone has is gone with it.
    const tools = model.requests.at(-1)!.body.tools!.map((tool) => tool.function.name);
    expect(tools).toEqual(['current_time']);
    await restart();
    expect(await get()).toMatchObject(state);
    expect(await ask()).toEqual({ text: 'ok from m-1', model: 'm-1' });
  });

  it('CHAN-14 a run that is under way ends with the model that it began with, the next one has the new one', async () => {
    const model = await startModel(withKey(KEY));
    const first = await startModel([[{ text: 'slow ' }, { delayMs: 1500 }, { text: 'answer' }]]);
    await post({ provider: 'openai', baseUrl: (await startModel([[{ text: 'ok' }]])).url, model: 'x' });
    await post({ provider: 'openai-compatible', baseUrl: first.url, model: 'slow' });
    const running = ask();
    await expect.poll(() => first.requests.length).toBe(2);
    expect((await post({ provider: 'openai', baseUrl: model.url, model: 'fast', apiKey: KEY })).status).toBe(200);
    expect(await ask()).toEqual({ text: 'ok from fast', model: 'fast' });
    expect(await running).toEqual({ text: 'slow answer', model: 'slow' });
  });

  it('CHAN-14 what does not answer is not saved: what was there before stays', async () => {
    const model = await startModel(withKey(KEY));
    await post({ provider: 'openai', baseUrl: model.url, model: 'good', apiKey: KEY });
    const before = readFileSync(fileOf(), 'utf8');
    const bad = await post({ provider: 'openai', baseUrl: model.url, model: 'bad', apiKey: OTHER });
    expect(bad).toMatchObject({ status: 422, body: { ok: false, error: { code: 'models.auth', requestId: /./ } } });
    const nobody = await post({
      provider: 'openai',
      baseUrl: 'http://127.0.0.1:1/v1',
      model: 'bad',
      apiKey: KEY,
    });
    expect(nobody).toMatchObject({ status: 422, body: { error: { code: 'models.network' } } });
    expect(readFileSync(fileOf(), 'utf8')).toBe(before);
    expect(await ask()).toEqual({ text: 'ok from good', model: 'good' });
  });

  it('CHAN-15 another provider drops the old key and model', async () => {
    const [one, two] = [await startModel(withKey(KEY)), await startModel(withKey(OTHER))];
    await post({ provider: 'openai', baseUrl: one.url, model: 'm-one', apiKey: KEY });
    await post({ provider: 'deepseek', baseUrl: two.url, model: 'm-two', apiKey: OTHER });
    const text = readFileSync(fileOf(), 'utf8');
    expect(text).not.toContain(KEY);
    expect(text).not.toContain('m-one');
    const { providers } = (await get()) as { providers: { id: string; hasKey: boolean }[] };
    expect(providers.filter(({ hasKey }) => hasKey).map(({ id }) => id)).toEqual(['deepseek']);
    // Without its key: it was really dropped.
    const back = await post({ provider: 'openai', baseUrl: one.url, model: 'm-one' });
    expect(back).toMatchObject({ status: 422, body: { error: { code: 'models.auth' } } });
    expect(one.requests.at(-1)!.headers.authorization).toBeUndefined();
    expect(await ask()).toEqual({ text: 'ok from m-two', model: 'm-two' });
  });

  it('CHAN-15 a key goes to the address that it was given for, and to no other', async () => {
    const environment = { OPENAI_API_KEY: 'sk-of-the-environment-00' };
    await restart({ environment });
    const [one, two] = [await startModel(withKey(KEY)), await startModel(withKey(KEY))];
    await post({ provider: 'deepseek', baseUrl: one.url, model: 'a', apiKey: KEY });
    // Another model at the same address needs the key no more ...
    expect((await post({ provider: 'deepseek', baseUrl: one.url, model: 'b' })).status).toBe(200);
    // ... another address gets none, and the one of the environment is for its own host only.
    for (const provider of ['deepseek', 'openai']) {
      expect((await post({ provider, baseUrl: two.url, model: 'b' })).status).toBe(422);
    }
    expect(two.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
    await restart({ config: { models: { hosts: { deepseek: { baseUrl: two.url } } } } });
    await ask();
    expect(two.requests.at(-1)!.headers.authorization).toBeUndefined();
    expect(await get()).toMatchObject({
      overriddenBy: [
        { setting: 'baseUrl', by: 'models.hosts.deepseek.baseUrl in homard.config.yaml' },
        { setting: 'apiKey', by: 'the other base URL' },
      ],
    });
  });

  it('configuration and environment win, and the answer says so', async () => {
    const model = await startModel(({ headers, body }) => [{ text: `${body.model} ${headers.authorization}` }]);
    const environment = { OPENAI_API_KEY: 'sk-env-0123456789', OPENAI_BASE_URL: model.url, OPENAI_MODEL: 'of-env' };
    await restart({ environment });
    const saved = await post({ provider: 'openai', baseUrl: model.url, model: 'chosen', apiKey: KEY });
    expect(saved.body).toMatchObject({
      setup: {
        saved: { model: 'chosen' },
        current: { provider: 'openai', model: 'of-env', keySource: 'env', source: 'env' },
        overriddenBy: [
          { setting: 'model', by: 'OPENAI_MODEL' },
          { setting: 'apiKey', by: 'OPENAI_API_KEY' },
        ],
      },
    });
    // The test asked with what was to be tested.
    expect(model.requests[0]!.headers.authorization).toBe(`Bearer ${KEY}`);
    expect((await ask()).text).toBe('of-env Bearer sk-env-0123456789');
    await restart({ environment: {}, config: { models: { default: 'openai/of-file' } } });
    expect(await get()).toMatchObject({
      current: { model: 'of-file', source: 'config' },
      overriddenBy: [{ setting: 'model', by: 'models.default in homard.config.yaml' }],
    });
    expect((await ask()).text).toBe(`of-file [masked]`.replace('[masked]', `Bearer ${KEY}`));
    await restart({ environment: {}, config: {} });
    expect((await ask()).text).toBe(`chosen Bearer ${KEY}`);
  });

  it('MODEL-12 no key is in any answer, error, page or line of the log', async () => {
    await restart({ environment: { DASHSCOPE_API_KEY: 'sk-qwen-9876543210abcd' } });
    const model = await startModel(({ headers }) =>
      headers.authorization === `Bearer ${KEY}`
        ? [{ text: `Your key is ${KEY}` }]
        : { status: 500, json: { error: { message: `broken for ${headers.authorization}` } } },
    );
    const choice = { provider: 'openai', baseUrl: model.url, model: 'm', apiKey: KEY };
    const answers: unknown[] = [];
    for (const [method, path, body] of [
      ['POST', '/setup/test', { ...choice, apiKey: OTHER }],
      ['POST', '/setup', { ...choice, apiKey: OTHER }],
      ['POST', '/setup', choice],
      ['POST', '/setup', `{"provider":"openai","apiKey":${KEY}}`],
      ['POST', '/setup', `{"apiKey":"${KEY}"`],
      ['POST', '/setup', { ...choice, apiKey: `${KEY} “`, model: '' }],
      ['POST', '/setup', { ...choice, baseUrl: `http://me:${KEY}@127.0.0.1/v1` }],
      ['POST', '/setup', { ...choice, baseUrl: `http://127.0.0.1/v1?key=${KEY}` }],
      ['POST', '/setup', { ...choice, provider: KEY }],
      ['GET', '/setup'],
      ['GET', '/models'],
      ['GET', '/health'],
      ['GET', '/'],
      ['DELETE', '/setup'],
    ] as const) {
      const { body: said, headers } = await server.call(method, path, { ...(body !== undefined && { body }) });
      answers.push(said, [...headers]);
    }
    expect(JSON.stringify(answers)).toContain('[masked]');
    const all = JSON.stringify([answers, log]) + log.map(String).join('');
    for (const key of [KEY, OTHER, 'sk-qwen-9876543210abcd']) expect(all).not.toContain(key.slice(0, 14));
  });

  it.each([
    [{ provider: 'nobody' }, 'provider'],
    [{ provider: 'toString' }, 'provider'],
    [{ model: ' ' }, 'model'],
    [{ model: 'a\u0000b' }, 'model'],
    [{ apiKey: 'sk-ключ' }, 'apiKey'],
    [{ baseUrl: 'file:///etc/passwd' }, 'baseUrl'],
    [{ baseUrl: 'not an address' }, 'baseUrl'],
    [{ baseUrl: 'http://user:pw@host/v1' }, 'baseUrl'],
    [{ baseUrl: 'http://host/v1?key=1' }, 'baseUrl'],
    [{ provider: 'glm', baseUrl: '' }, 'baseUrl'],
    [{ baseUrl: '', apiKey: '' }, 'apiKey'],
    [{ more: 1 }, 'more'],
  ])('%j is refused by name, before anybody is asked', async (part, named) => {
    const choice = { provider: 'openai', baseUrl: 'http://127.0.0.1:1/v1', model: 'm', apiKey: KEY, ...part };
    const { status, body } = await post(choice, '/setup/test');
    expect([status, body.error?.message]).toEqual([400, expect.stringContaining(named)]);
  });

  it('CHAN-14 an Ollama is taken by its address alone, and a provider of another protocol is asked in it', async () => {
    const ollama = keep(await createFakeOllama([{ name: 'qwen3:8b' }]));
    const local = await post({ provider: 'ollama', baseUrl: ollama.host, model: 'qwen3:8b' });
    expect(local.body).toMatchObject({ ok: true, text: 'I am qwen3:8b.', setup: { current: { source: 'file' } } });
    expect((await server.call('GET', '/models')).body).toMatchObject({ default: 'ollama/qwen3:8b' });
    const seen: IncomingMessage[] = [];
    const anthropic = createServer((incoming, response) => {
      seen.push(incoming.resume());
      response.writeHead(401, { 'content-type': 'application/json', connection: 'close' });
      response.end(
        JSON.stringify({
          type: 'error',
          error: { type: 'x', message: `no: ${String(incoming.headers['x-api-key'])}` },
        }),
      );
    });
    keep(anthropic);
    await new Promise<void>((resolve) => anthropic.listen(0, '127.0.0.1', resolve));
    const baseUrl = `http://127.0.0.1:${(anthropic.address() as AddressInfo).port}/v1/messages`;
    const refused = await post({ provider: 'anthropic', baseUrl, model: 'claude-x', apiKey: KEY });
    expect(refused).toMatchObject({
      status: 422,
      body: { error: { message: 'anthropic answered 401: no: [masked]' } },
    });
    expect(seen.map(({ url, headers }) => [url, headers['x-api-key']])).toEqual([['/v1/messages', KEY]]);
  });

  it('one test at a time', async () => {
    const model = await startModel([[{ delayMs: 500 }, { text: 'ok' }]]);
    const choice = { provider: 'openai', baseUrl: model.url, model: 'm' };
    const all = await Promise.all([1, 2, 3].map(() => post(choice, '/setup/test')));
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 429, 429]);
    expect(model.requests).toHaveLength(1);
    expect((await post(choice, '/setup/test')).status).toBe(200);
  });

  it('DELETE goes back to what there was, as often as one likes', async () => {
    const model = await startModel(withKey(KEY));
    await post({ provider: 'openai', baseUrl: model.url, model: 'm', apiKey: KEY });
    for (let i = 0; i < 2; i++) {
      expect(await server.call('DELETE', '/setup')).toMatchObject({ status: 200, body: { saved: null, isDemo: true } });
    }
    expect(savedIn()).toEqual(['secret']);
    expect((await ask()).model).toBe('demo');
  });

  it.each([
    ['half a file', `{"provider":"openai","apiKey":"${KEY}`],
    ['an unknown provider', JSON.stringify({ provider: 'x', model: 'm', baseUrl: 'http://h/v1', apiKey: KEY })],
    ['something else', '[]'],
  ])('a file that holds %s stops no start; it is told without its content, and set up anew', async (_, text) => {
    writeFileSync(fileOf(), text);
    await restart();
    const { saved, problem } = await get();
    expect([saved, problem]).toEqual([null, expect.stringContaining('model.json')]);
    expect(JSON.stringify([problem, log])).not.toContain(KEY);
    expect(JSON.stringify(log)).toContain('model.json');
    const model = await startModel(withKey(KEY));
    await post({ provider: 'openai', baseUrl: model.url, model: 'm', apiKey: KEY });
    expect(await get()).toMatchObject({ saved: { model: 'm' }, problem: null });
  });

  it('CHAN-13 only the owner may; with users of a host nobody, or whom the host names', async () => {
    expect((await server.call('GET', '/setup', { user: 'bob' })).status).toBe(401);
    expect((await server.call('POST', '/setup/test', { user: null, body: {} })).status).toBe(401);
    const foreign = await server.call('GET', '/setup', { headers: { origin: 'https://evil.example' } });
    expect(foreign.status).toBe(403);
    const hosted = keep(await createTestServer('embedded'));
    for (const [method, path] of [
      ['GET', '/setup'],
      ['POST', '/setup'],
      ['POST', '/setup/test'],
      ['DELETE', '/setup'],
    ] as const) {
      expect((await hosted.call(method, path, { body: method === 'GET' ? undefined : {} })).status).toBe(404);
    }
    expect((await hosted.call('GET', '/models')).body).toMatchObject({ canSetUp: false });
    const named = keep(await createTestServer('embedded', { maySetUp: ({ owner }) => owner === 'ann' }));
    expect((await named.call('GET', '/setup')).status).toBe(200);
    expect((await named.call('GET', '/setup', { user: 'bob' })).status).toBe(404);
    expect((await named.call('GET', '/models')).body).toMatchObject({ canSetUp: true });
    expect((await named.call('GET', '/models', { user: 'bob' })).body).toMatchObject({ canSetUp: false });
  });
});
