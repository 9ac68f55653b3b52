import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { ModelRequest } from '../../src/kernel/model.ts';
import type { ModelsConfigInput } from '../../src/models/config.ts';
import { modelsConfig } from '../../src/models/config.ts';
import { createRouter } from '../../src/models/router.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { createModelServer } from '../../src/testing/model-server.ts';

const request: ModelRequest = {
  system: '',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
};
const routerOf = (config: ModelsConfigInput = {}, env: Record<string, string> = {}) =>
  createRouter(modelsConfig.parse(config), env, { demo: createScriptedModel(() => 'demo', { name: 'demo' }) });

/** Asks by name; each host is a server of its own, so the answer tells where the request went. */
async function where(name: string | undefined, config: Omit<ModelsConfigInput, 'hosts'> = {}): Promise<string> {
  await using servers = new AsyncDisposableStack();
  const hosts: Record<string, { baseUrl: string; models?: string[] }> = {};
  for (const host of ['openai', 'anthropic', 'deepseek', 'qwen', 'glm', 'doubao', 'openai-compatible', 'ollama']) {
    const server = servers.use(await createModelServer(({ body }) => [{ text: `${host}|${body.model}` }]));
    hosts[host] = { baseUrl: server.url, ...(host === 'ollama' && { models: ['llama*', 'QWEN3:'] }) };
  }
  let said = '';
  const model = routerOf({ ...config, hosts }).resolve(name);
  await model.call(request, new AbortController().signal, (part) => {
    if (part.type === 'text') said += part.text;
  });
  return said;
}

describe('MODEL-01: the name of a model decides its host, in any case', () => {
  it.each([
    ['claude-sonnet-4', 'anthropic|claude-sonnet-4'],
    ['Claude-X', 'anthropic|Claude-X'],
    ['deepseek-chat', 'deepseek|deepseek-chat'],
    ['DEEPSEEK-reasoner', 'deepseek|DEEPSEEK-reasoner'],
    ['qwen-plus', 'qwen|qwen-plus'],
    ['glm-4.6', 'glm|glm-4.6'],
    ['Doubao-seed', 'doubao|Doubao-seed'],
    ['openai-compatible-x', 'openai-compatible|openai-compatible-x'],
    ['openai-compatible/my/model', 'openai-compatible|my/model'],
    ['gpt-5-mini', 'openai|gpt-5-mini'],
    ['anything', 'openai|anything'],
    ['meta/llama', 'openai|meta/llama'],
    ['deepseek/deepseek-chat', 'deepseek|deepseek-chat'],
    ['Ollama/qwen-plus', 'ollama|qwen-plus'],
    ['llama3', 'ollama|llama3'],
    ['qwen3:8b', 'ollama|qwen3:8b'],
    ['deepseek/', 'deepseek|deepseek/'],
    [' glm-4 ', 'glm|glm-4'],
    [undefined, 'openai|gpt-5-mini'],
    ['', 'openai|gpt-5-mini'],
    ['demo', 'demo'],
  ])('%s -> %s', async (name, expected) => {
    expect(await where(name)).toBe(expected);
  });

  it('the configured table is above the built-in one, and the longest prefix wins', async () => {
    const table = { 'deepseek-r*': 'ollama', glm: 'openai', 'test-': 'demo' };
    expect(await where('deepseek-r1', { table })).toBe('ollama|deepseek-r1');
    expect(await where('deepseek-chat', { table })).toBe('deepseek|deepseek-chat');
    expect(await where('glm-4', { table })).toBe('openai|glm-4');
    expect(await where('test-1', { table })).toBe('demo');
    expect(await where(undefined, { default: 'Qwen-Max' })).toBe('qwen|Qwen-Max');
  });
});

describe('MODEL-04: what is not configured is refused by name', () => {
  it.each([
    ['gpt-5', 'OPENAI_API_KEY'],
    ['deepseek-chat', 'DEEPSEEK_API_KEY'],
    ['qwen-plus', 'DASHSCOPE_API_KEY'],
    ['glm-4', 'ZHIPUAI_API_KEY'],
    ['doubao-x', 'ARK_API_KEY'],
    ['openai-compatible-x', 'OPENAI_COMPATIBLE_API_KEY'],
    ['claude-x', 'ANTHROPIC_API_KEY'],
  ])('%s names %s', (name, variable) => {
    const others = { OPENAI_API_KEY: 'sk-o', DEEPSEEK_API_KEY: 'sk-d', DASHSCOPE_API_KEY: 'sk-q' };
    const env = Object.fromEntries(Object.entries(others).filter(([key]) => key !== variable));
    const message: unknown = expect.stringContaining(variable);
    const error: unknown = expect.objectContaining({ code: 'models.not_configured', status: 400, message });
    expect(() => routerOf({}, env).resolve(name)).toThrow(error);
    expect(() => routerOf({}, { ...env, [variable]: ' ' }).resolve(name)).toThrow(error);
  });

  it('a host of the file needs the variable that it names, and no other', () => {
    const hosts = { own: { baseUrl: 'http://h/v1', apiKeyEnv: 'OWN_KEY' }, free: { baseUrl: 'http://h/v1' } };
    const router = routerOf({ hosts, default: 'own/x' });
    expect(() => router.resolve()).toThrow('OWN_KEY is not set');
    expect(() => router.resolve('own/y')).toThrow('OWN_KEY is not set');
    expect(router.resolve('free/y').name).toBe('y');
    expect(routerOf({ hosts }, { OWN_KEY: 'k' }).resolve('own/y').name).toBe('y');
  });

  it('a key that cannot be a key is named, not shown', () => {
    expect(() => routerOf({}, { OPENAI_API_KEY: '“sk-1”' }).resolve('gpt-5')).toThrow(/^OPENAI_API_KEY is set, but/);
  });
});

describe('no model named', () => {
  it.each([
    [{ OPENAI_API_KEY: 'k', DEEPSEEK_API_KEY: 'k' }, 'gpt-5-mini'],
    [{ OPENAI_API_KEY: 'k', OPENAI_MODEL: 'gpt-x' }, 'gpt-x'],
    [{ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', OPENAI_MODEL: 'qwen3:8b' }, 'qwen3:8b'],
    [{ DEEPSEEK_API_KEY: 'k', DASHSCOPE_API_KEY: 'k' }, 'deepseek-chat'],
    [{ DASHSCOPE_API_KEY: 'k' }, 'qwen-plus'],
    [{ ANTHROPIC_API_KEY: 'k' }, 'claude-sonnet-4-5'],
    [{ ANTHROPIC_API_KEY: 'k', DEEPSEEK_API_KEY: 'k' }, 'claude-sonnet-4-5'],
    [{ ZHIPUAI_API_KEY: 'k' }, 'demo'],
    [{}, 'demo'],
  ])('%j -> %s', (env, name) => {
    const router = routerOf({}, { ...env });
    expect(router.resolve().name).toBe(name);
    expect(router.resolve(null).name).toBe(name);
    const { default: shown } = router.describe();
    // "qwen3:8b" alone would lead to the host of qwen*.
    expect(shown).toBe(name === 'qwen3:8b' ? 'openai/qwen3:8b' : name);
    expect(router.resolve(shown)).toBe(router.resolve());
  });

  it.each<[ModelsConfigInput['hosts'], Record<string, string>, string]>([
    [{ glm: { baseUrl: 'http://h/v1' } }, { ZHIPUAI_API_KEY: 'k' }, 'glm-4.6'],
    [{ gate: { baseUrl: 'http://h/v1', models: ['llama*', 'my-', 'my-7b'] } }, {}, 'my-7b'],
    [{ a: { baseUrl: 'http://h/v1' }, b: { baseUrl: 'http://h/v1', models: ['b1', 'b2'] } }, {}, 'b1'],
    [{ gate: { baseUrl: 'http://h/v1', models: ['m'], apiKeyEnv: 'K' } }, {}, 'demo'],
    [{ gate: { baseUrl: 'http://h/v1', models: ['m'], apiKeyEnv: 'K' } }, { K: 'k' }, 'm'],
    [{ gate: { baseUrl: 'http://h/v1', models: ['m'] } }, { DEEPSEEK_API_KEY: 'k' }, 'deepseek-chat'],
    [{ gate: { baseUrl: 'http://h/v1', models: ['llama*'] } }, {}, 'demo'],
  ])('the file says %j, the environment %j -> %s', (hosts, env, name) => {
    expect(routerOf({ hosts }, env).resolve().name).toBe(name);
  });

  it('MODEL-11: nothing configured is the demo model', async () => {
    expect(await where('demo')).toBe('demo');
    expect(createRouter(modelsConfig.parse(undefined), {}).resolve().name).toBe('demo');
  });

  it('a local server needs no key, and gets none', async () => {
    await using server = await createModelServer([[{ text: 'local' }]]);
    const model = routerOf({}, { OPENAI_BASE_URL: server.url }).resolve('anything');
    await model.call(request, new AbortController().signal, () => undefined);
    expect(server.requests[0]!.headers.authorization).toBeUndefined();
  });
});

describe('MODEL-12: keys', () => {
  const env = {
    OPENAI_API_KEY: 'sk-open-secret',
    OWN_KEY: 'own-secret',
    OPENAI_BASE_URL: 'http://u:pw-secret@h/v1?k=secret',
  };
  const hosts = { own: { baseUrl: 'https://own.example/v1', apiKeyEnv: 'OWN_KEY', models: ['my'] } };

  it('come from the environment and go only to their own host', async () => {
    await using own = await createModelServer([[{ text: 'a' }]]);
    await using other = await createModelServer([[{ text: 'a' }]]);
    const router = routerOf(
      { hosts: { own: { baseUrl: own.url, apiKeyEnv: 'OWN_KEY' }, other: { baseUrl: other.url } } },
      env,
    );
    for (const name of ['own/x', 'other/x']) {
      await router.resolve(name).call(request, new AbortController().signal, () => undefined);
    }
    expect(own.requests[0]!.headers.authorization).toBe('Bearer own-secret');
    expect(other.requests[0]!.headers.authorization).toBeUndefined();
  });

  it('are in no description', () => {
    const router = routerOf({ hosts }, env);
    const description = router.describe();
    expect(JSON.stringify(description)).not.toContain('secret');
    expect(JSON.stringify([router, router.resolve('own/x')])).not.toContain('secret');
    expect(description.hosts.find(({ name }) => name === 'own')).toEqual({
      name: 'own',
      baseUrl: 'https://own.example/v1',
      isConfigured: true,
      apiKeyEnv: 'OWN_KEY',
      hasKey: true,
      prefixes: ['my'],
    });
    expect(description.hosts.find(({ name }) => name === 'deepseek')).toMatchObject({
      isConfigured: false,
      hasKey: false,
    });
  });

  it.each([
    ['a key', { hosts: { own: { baseUrl: 'http://h/v1', apiKey: 'sk-1' } } }, 'apiKeyEnv'],
    ['a header that is a key', { hosts: { own: { baseUrl: 'http://h', headers: { 'Api-Key': 'x' } } } }, 'apiKeyEnv'],
    ['a password in the address', { hosts: { own: { baseUrl: 'http://u:p@h/v1' } } }, 'password'],
    ['an address that is none', { hosts: { own: { baseUrl: 'file:///x' } } }, 'http(s)'],
    ['an unknown host in the table', { table: { x: 'nowhere' } }, 'There is no host "nowhere"'],
    ['a name of JavaScript in the table', { table: { x: 'constructor' } }, 'There is no host "constructor"'],
    ['an unknown key', { hots: {} }, 'hots'],
    ['a limit of nothing', { limits: { idleMs: 0 } }, 'idleMs'],
  ])('the file may not hold %s', (_, config, message) => {
    const result = modelsConfig.safeParse(config);
    expect(result.success).toBe(false);
    expect(result.error && z.prettifyError(result.error)).toContain(message);
  });
});

describe('models', () => {
  it('are kept by name, but not without bound', () => {
    const router = routerOf({}, { OPENAI_API_KEY: 'k' });
    const model = router.resolve('gpt-a');
    expect(router.resolve('openai/gpt-a')).toBe(model);
    for (let i = 0; i < 100; i++) router.resolve(`gpt-${i}`);
    expect(router.resolve('gpt-a')).not.toBe(model);
  });

  it('have the limits of their host, then the general ones', async () => {
    await using server = await createModelServer([[{ hang: true }]]);
    const own = { baseUrl: server.url, limits: { firstTokenMs: 30 } };
    const router = routerOf({ retries: 0, limits: { firstTokenMs: 60_000, idleMs: 1 }, hosts: { own } });
    const call = router.resolve('own/x').call(request, new AbortController().signal, () => undefined);
    await expect(call).rejects.toMatchObject({ code: 'models.timeout_first' });
  });
});

describe('a host by its kind', () => {
  it.each<['anthropic' | 'openai' | 'deepseek' | 'alibaba' | 'openai-compatible', string, string]>([
    ['anthropic', '/v1/messages', 'x-api-key'],
    ['openai', '/v1/responses', 'authorization'],
    ['deepseek', '/v1/chat/completions', 'authorization'],
    ['alibaba', '/v1/chat/completions', 'authorization'],
    ['openai-compatible', '/v1/chat/completions', 'authorization'],
  ])('%s is asked in its own protocol, with its own key', async (kind, path, header) => {
    const seen: IncomingMessage[] = [];
    await using server = createServer((incoming, response) => {
      seen.push(incoming.resume());
      response.writeHead(401, { 'content-type': 'application/json', connection: 'close' });
      response.end('{"type":"error","error":{"type":"x","message":"Wrong: own-secret"}}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    const router = routerOf({ hosts: { own: { kind, baseUrl, apiKeyEnv: 'OWN_KEY' } } }, { OWN_KEY: 'own-secret' });
    const call = router.resolve('own/x').call(request, new AbortController().signal, () => undefined);
    await expect(call).rejects.toMatchObject({ code: 'models.auth', message: 'own answered 401: Wrong: [masked]' });
    expect(seen.map(({ url }) => url)).toEqual([path]);
    expect(seen[0]!.headers[header]).toMatch(/^(Bearer )?own-secret$/);
  });

  it('claude* with a key is configured, and so is its kind without an address', () => {
    const env = { ANTHROPIC_API_KEY: 'sk-a' };
    for (const router of [routerOf({}, env), routerOf({ hosts: { anthropic: { kind: 'anthropic' } } }, env)]) {
      expect(router.resolve('claude-x').name).toBe('claude-x');
      const description = router.describe().hosts.find(({ name }) => name === 'anthropic');
      expect(description).toMatchObject({ isConfigured: true, baseUrl: 'https://api.anthropic.com/v1' });
    }
    const bare = routerOf({ hosts: { anthropic: { kind: 'anthropic' } } });
    expect(() => bare.resolve('claude-x')).toThrow('ANTHROPIC_API_KEY is not set');
  });

  it.each([{}, { kind: 'openai-compatible' }, { kind: 'other', baseUrl: 'http://h' }])('%j is refused', (own) => {
    expect(modelsConfig.safeParse({ hosts: { own } }).success).toBe(false);
  });
});
