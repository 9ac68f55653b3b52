import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Model, ModelRequest } from '../../src/kernel/model.ts';
import { ollamaBaseUrl, toOllamaUrl } from '../../src/models/ollama.ts';
import type { ModelsConfigInput } from '../../src/models/config.ts';
import { modelsConfig } from '../../src/models/config.ts';
import { createRouter } from '../../src/models/router.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { FakeModel } from './fake-ollama.ts';
import { createFakeOllama } from './fake-ollama.ts';

const request: ModelRequest = {
  system: '',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
};

async function ask(model: Model): Promise<string> {
  let said = '';
  await model.call(request, new AbortController().signal, (part) => {
    if (part.type === 'text') said += part.text;
  });
  return said;
}

/** A router on this environment, and a clock for it. */
function routerOf(env: Record<string, string>, config: ModelsConfigInput = {}) {
  const clock = { now: 0 };
  const demo = createScriptedModel(() => 'demo', { name: 'demo' });
  return { clock, router: createRouter(modelsConfig.parse(config), env, { demo, now: () => clock.now }) };
}

describe('where Ollama is, as people write it', () => {
  it.each([
    ['127.0.0.1:11434', 'http://127.0.0.1:11434'],
    ['0.0.0.0', 'http://127.0.0.1:11434'],
    ['0.0.0.0:80', 'http://127.0.0.1'],
    [':4321', 'http://127.0.0.1:4321'],
    ['box', 'http://box:11434'],
    ['box:80', 'http://box'],
    [' box.lan/ ', 'http://box.lan:11434'],
    ['::', 'http://[::1]:11434'],
    ['::1', 'http://[::1]:11434'],
    ['[::1]:1234', 'http://[::1]:1234'],
    ['http://box:1234', 'http://box:1234'],
    ['http://box:1234/v1', 'http://box:1234'],
    ['http://box:1234/v1/', 'http://box:1234'],
    ['box:1234/api', 'http://box:1234'],
    ['http://box', 'http://box'],
    ['HTTPS://box/ollama/v1?x=1', 'https://box/ollama'],
    ['two words', undefined],
    ['http://', undefined],
    ['box:port', undefined],
  ])('%s -> %s', (text, url) => {
    expect(toOllamaUrl(text)).toBe(url);
  });

  it('is by default its own, and an empty variable is none', () => {
    expect(ollamaBaseUrl({})).toBe('http://127.0.0.1:11434/v1');
    expect(ollamaBaseUrl({ OLLAMA_HOST: ' ', OLLAMA_BASE_URL: '' })).toBe('http://127.0.0.1:11434/v1');
    expect(ollamaBaseUrl({ OLLAMA_HOST: '0.0.0.0', OLLAMA_BASE_URL: 'http://box:1/v1' })).toBe('http://box:1/v1');
  });
});

describe('MODEL-11: nothing is configured, and Ollama runs', () => {
  it('its model answers without a key, and the description says so', async () => {
    await using ollama = await createFakeOllama([{ name: 'llama3.2:latest' }]);
    const { router } = routerOf({ OLLAMA_HOST: ollama.host });
    await router.findLocal();
    expect(router.describe().default).toBe('ollama/llama3.2:latest');
    for (const name of [undefined, router.describe().default]) {
      expect(await ask(router.resolve(name))).toBe('I am llama3.2:latest.');
    }
    expect(ollama.seen.slice(-2)).toEqual(Array(2).fill('POST /v1/chat/completions llama3.2:latest'));
    expect(ollama.keys).toEqual([]);
  });

  it.each<[string, FakeModel[], string]>([
    ['no model', [], 'demo'],
    ['only embeddings', [{ name: 'nomic-embed-text' }, { name: 'bge-m3', details: { family: 'bert' } }], 'demo'],
    ['an embedding first', [{ name: 'mxbai-embed-large' }, { name: 'qwen3:8b' }], 'ollama/qwen3:8b'],
    ['one that only embeds', [{ name: 'x', capabilities: ['embedding'] }, { name: 'y' }], 'ollama/y'],
    ['one of the cloud', [{ name: 'a:cloud' }, { name: 'b', remote_host: 'https://c' }, { name: 'c' }], 'ollama/c'],
    [
      'one that can use tools',
      [
        { name: 'plain', capabilities: ['completion'] },
        { name: 'able', capabilities: ['completion', 'tools'] },
      ],
      'ollama/able',
    ],
    ['none that can', [{ name: 'plain', capabilities: ['completion'] }, { name: 'old' }], 'ollama/plain'],
  ])('with %s', async (_, models, expected) => {
    await using ollama = await createFakeOllama(models);
    const { router } = routerOf({ OLLAMA_BASE_URL: `http://${ollama.host}/v1` });
    await router.findLocal();
    expect(router.describe().default).toBe(expected);
  });

  it('is asked only where nothing is configured, and only by who was told to', async () => {
    await using ollama = await createFakeOllama([{ name: 'llama3' }]);
    const env = { OLLAMA_HOST: ollama.host };
    const keyed = routerOf({ ...env, OPENAI_API_KEY: 'sk-open' }).router;
    const chosen = routerOf(env, { default: 'demo' }).router;
    await Promise.all([keyed.findLocal(), chosen.findLocal()]);
    expect([keyed, chosen].map((router) => router.describe().default)).toEqual(['gpt-5-mini', 'demo']);
    const { router, clock } = routerOf(env);
    clock.now = 100_000;
    expect(router.resolve().name).toBe('demo');
    expect(ollama.seen).toEqual([]);
  });

  it('"ollama/model" goes there although keys are set, and takes none along', async () => {
    await using ollama = await createFakeOllama([{ name: 'qwen3:8b' }]);
    const { router } = routerOf({ OLLAMA_HOST: ollama.host, OPENAI_API_KEY: 'sk-o', DASHSCOPE_API_KEY: 'sk-q' });
    expect(await ask(router.resolve('Ollama/qwen3:8b'))).toBe('I am qwen3:8b.');
    expect(ollama.keys).toEqual([]);
  });

  it('an address that is none is refused where it is needed', () => {
    const { router } = routerOf({ OLLAMA_HOST: 'two words' });
    expect(() => router.resolve('ollama/x')).toThrow(
      expect.objectContaining({
        code: 'models.not_configured',
        message: 'The model "x" goes to the host "ollama", which is not configured: it needs a base URL.',
        hint: expect.stringContaining('or correct OLLAMA_HOST') as string,
      }),
    );
  });

  it('whoever does not answer in time, or is somebody else, holds nobody up', async () => {
    await using slow = await createFakeOllama([{ name: 'llama3' }], { delayMs: 2000 });
    await using other = createServer((_, response) => response.end('<html>hello</html>'));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    for (const host of [slow.host, `127.0.0.1:${(other.address() as AddressInfo).port}`, '127.0.0.1:1']) {
      const { router } = routerOf({ OLLAMA_HOST: host });
      const begun = performance.now();
      await router.findLocal();
      expect(performance.now() - begun).toBeLessThan(1000);
      expect(router.describe().default).toBe('demo');
    }
  });

  it('one that is slow to tell what its models can do is taken with its first', async () => {
    await using ollama = await createFakeOllama([{ name: 'first' }, { name: 'able', capabilities: ['tools'] }], {
      delayMs: 200,
    });
    const { router } = routerOf({ OLLAMA_HOST: ollama.host });
    await router.findLocal();
    expect(router.describe().default).toBe('ollama/first');
  });

  it('one that starts later is found by requests, at most each 30 s, and none waits for it', async () => {
    await using ollama = await createFakeOllama([]);
    const { router, clock } = routerOf({ OLLAMA_HOST: ollama.host });
    await router.findLocal();
    ollama.models.push({ name: 'llama3' });
    for (clock.now = 0; clock.now < 30_000; clock.now += 1000) expect(router.resolve().name).toBe('demo');
    expect(router.resolve('demo').name).toBe('demo');
    expect(ollama.seen).toHaveLength(1);
    for (let i = 0; i < 3; i++) expect(router.resolve().name).toBe('demo');
    await expect.poll(() => router.resolve().name).toBe('llama3');
    expect(ollama.seen.filter((path) => path === 'GET /api/tags')).toHaveLength(2);
    clock.now += 60_000;
    ollama.models.length = 0;
    expect(router.describe().default).toBe('ollama/llama3');
    expect(ollama.seen.filter((path) => path === 'GET /api/tags')).toHaveLength(2);
  });

  it('a model that is gone is found no more, and another one is', async () => {
    await using ollama = await createFakeOllama([{ name: 'old' }]);
    const { router } = routerOf({ OLLAMA_HOST: ollama.host }, { retries: 0 });
    await router.findLocal();
    ollama.models[0] = { name: 'new' };
    await expect(ask(router.resolve('ollama/other'))).rejects.toMatchObject({ code: 'models.not_found' });
    expect(router.describe().default).toBe('ollama/old');
    await expect(ask(router.resolve())).rejects.toMatchObject({ code: 'models.not_found' });
    await expect.poll(() => router.describe().default).toBe('ollama/new');
    expect(await ask(router.resolve())).toBe('I am new.');
  });

  it('an Ollama that is gone is found no more', async () => {
    const ollama = await createFakeOllama([{ name: 'old' }]);
    const { router } = routerOf({ OLLAMA_HOST: ollama.host }, { retries: 0 });
    await router.findLocal();
    await ollama[Symbol.asyncDispose]();
    await expect(ask(router.resolve())).rejects.toMatchObject({ code: 'models.network' });
    expect(router.resolve().name).toBe('demo');
  });
});
