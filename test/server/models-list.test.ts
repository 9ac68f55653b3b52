import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createRouter } from '../../src/models/router.ts';
import { modelsConfig } from '../../src/models/config.ts';
import type { ModelsConfigInput } from '../../src/models/config.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { createFakeOllama } from '../models/fake-ollama.ts';
import { createTestServer, NOBODY } from './harness.ts';

const KEY = 'sk-list-0123456789abcdef';

interface Listing extends AsyncDisposable {
  url: string;
  seen: IncomingMessage[];
}

/** A host that answers GET /v1/models, after a while where one is given. */
async function createHost(answer: { status?: number; body?: unknown; delayMs?: number }): Promise<Listing> {
  const seen: IncomingMessage[] = [];
  const server = createServer((incoming, response) => {
    seen.push(incoming.resume());
    setTimeout(() => {
      response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' });
      response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body ?? {}));
    }, answer.delayMs ?? 0);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await server[Symbol.asyncDispose]();
    },
  };
}

const listOf = (...ids: string[]) => ({ body: { object: 'list', data: ids.map((id) => ({ id, object: 'model' })) } });
const routerOf = (config: ModelsConfigInput, env: Record<string, string> = {}, now = () => 0) =>
  createRouter(modelsConfig.parse(config), { OLLAMA_HOST: NOBODY, ...env }, { now });
const namesOf = (models: { name: string; host: string }[], host: string) =>
  models.filter((each) => each.host === host).map(({ name }) => name);

describe('GET /models', () => {
  it('MODEL-12 lists what the configured hosts have, asked with their own key, which no answer holds', async () => {
    await using own = await createHost(listOf('my-1', 'qwen-own', 'text-embedding-3', 'a/b'));
    await using server = await createTestServer('embedded', {
      environment: { OWN_KEY: KEY, DEEPSEEK_API_KEY: '' },
      config: {
        models: { default: 'own/my-1', hosts: { own: { baseUrl: own.url, apiKeyEnv: 'OWN_KEY', models: ['my'] } } },
      },
    });
    const { status, body } = await server.call('GET', '/models');
    expect(status).toBe(200);
    const { models, hosts } = body as unknown as Awaited<ReturnType<ReturnType<typeof routerOf>['list']>>;
    expect(body).toMatchObject({ default: 'my-1', isDemo: false, canSetUp: false });
    expect(namesOf(models, 'own')).toEqual(['my-1', 'own/qwen-own', 'own/a/b']);
    expect(hosts.find(({ name }) => name === 'own')).toEqual({
      name: 'own',
      baseUrl: own.url,
      isConfigured: true,
      apiKeyEnv: 'OWN_KEY',
      hasKey: true,
      prefixes: ['my'],
      isReachable: true,
    });
    expect(hosts.find(({ name }) => name === 'openai')).toMatchObject({ isConfigured: false, isReachable: null });
    expect(namesOf(models, 'openai')).toEqual([]);
    expect(own.seen.map(({ url, headers }) => [url, headers.authorization])).toEqual([['/v1/models', `Bearer ${KEY}`]]);
    expect(JSON.stringify(body)).not.toContain(KEY);
    expect((await server.call('GET', '/models', { user: null })).status).toBe(401);
  });

  it('every name leads to the host that it is listed for', async () => {
    await using own = await createHost(listOf('deepseek-chat', 'openai/gpt-5', 'own/x', 'Qwen/Qwen3'));
    const router = routerOf({ hosts: { own: { baseUrl: own.url } } }, { DEEPSEEK_API_KEY: 'k', OPENAI_API_KEY: 'k' });
    const { models } = await router.list();
    expect(namesOf(models, 'own')).toEqual(['own/deepseek-chat', 'own/openai/gpt-5', 'own/own/x', 'own/Qwen/Qwen3']);
    expect(namesOf(models, 'deepseek')).toEqual(['deepseek-chat']);
    expect(namesOf(models, 'openai')).toEqual(['gpt-5-mini']);
    for (const name of namesOf(models, 'own')) expect(router.resolve(name).name).toBe(name.slice('own/'.length));
  });

  it.each<[string, Parameters<typeof createHost>[0], boolean]>([
    ['does not list', { status: 404 }, true],
    ['refuses the key', { status: 401, body: { error: 'x' } }, true],
    ['answers something else', { body: '<html>' }, true],
    ['answers another shape', { body: { models: [] } }, true],
    ['fails', { status: 503 }, false],
    ['does not answer in time', { delayMs: 4000 }, false],
  ])('a host that %s holds nobody up and keeps the names that are configured', async (_, answer, isReachable) => {
    await using own = await createHost(answer);
    const router = routerOf({ hosts: { own: { baseUrl: own.url, models: ['my-model', 'other*'] } } });
    const begun = performance.now();
    const { models, hosts } = await router.list();
    expect(performance.now() - begun).toBeLessThan(3500);
    expect(namesOf(models, 'own')).toEqual(['my-model']);
    expect(hosts.find(({ name }) => name === 'own')!.isReachable).toBe(isReachable);
  });

  it('names of the table and of fallbacks are choices; a prefix is none where its models are listed', async () => {
    await using own = await createHost(listOf('big-1', 'big-2'));
    const { models } = await routerOf(
      {
        hosts: { own: { baseUrl: own.url } },
        table: { big: 'own', 'small-1': 'own' },
        fallbacks: { '*': ['own/spare'] },
      },
      {},
    ).list();
    expect(namesOf(models, 'own')).toEqual(['big-1', 'big-2', 'small-1', 'own/spare']);
  });

  it('a host is asked once in five minutes, one that failed again after a quarter of one', async () => {
    let now = 0;
    await using good = await createHost(listOf('m'));
    await using bad = await createHost({ status: 500 });
    const router = routerOf({ hosts: { good: { baseUrl: good.url }, bad: { baseUrl: bad.url } } }, {}, () => now);
    await Promise.all([router.list(), router.list(), router.list()]);
    expect([good.seen.length, bad.seen.length]).toEqual([1, 1]);
    now = 16_000;
    await router.list();
    expect([good.seen.length, bad.seen.length]).toEqual([1, 2]);
    now = 5 * 60_000 + 1;
    await router.list();
    expect(good.seen.length).toBe(2);
  });

  it('an Ollama tells its models by itself; those that only embed are no choice', async () => {
    await using ollama = await createFakeOllama([
      { name: 'qwen3:8b' },
      { name: 'nomic-embed-text' },
      { name: 'big:cloud' },
    ]);
    const { models, hosts } = await routerOf({}, { OLLAMA_HOST: ollama.host }).list();
    expect(namesOf(models, 'ollama')).toEqual(['ollama/qwen3:8b', 'ollama/big:cloud']);
    expect(hosts.find(({ name }) => name === 'ollama')!.isReachable).toBe(true);
    const none = await routerOf({}).list();
    expect(none).toMatchObject({ default: 'demo', isDemo: true, models: [{ name: 'demo', host: 'demo' }] });
    expect(none.hosts.find(({ name }) => name === 'ollama')!.isReachable).toBe(false);
  });

  it('Anthropic is asked as it wants to be', async () => {
    await using host = await createHost(listOf('claude-x'));
    const hosts = { anthropic: { kind: 'anthropic' as const, baseUrl: host.url, apiKeyEnv: 'A_KEY' } };
    const { models } = await routerOf({ hosts, default: 'demo' }, { A_KEY: KEY }).list();
    expect(namesOf(models, 'anthropic')).toEqual(['claude-x']);
    const { headers } = host.seen[0]!;
    expect(headers).toMatchObject({ 'x-api-key': KEY, 'anthropic-version': expect.stringMatching(/./) as string });
    expect(headers.authorization).toBeUndefined();
  });

  it('where a host of ours gives the model it is the only one', async () => {
    await using server = await createTestServer('embedded', {
      model: createScriptedModel(() => 'x', { name: 'mine' }),
    });
    const { body } = await server.call('GET', '/models');
    expect(body).toEqual({
      default: 'mine',
      isDemo: false,
      models: [{ name: 'mine', host: 'embedded' }],
      hosts: [],
      canSetUp: false,
    });
  });
});
