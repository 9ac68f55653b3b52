// /openapi.json says what the server does: the same routes, and shapes that its real answers have.
import * as z from 'zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askForWrites, defineTool } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { ServerParts } from '../../src/server/context.ts';
import { createHttpApp } from '../../src/server/http.ts';
import { catalogues, routes } from '../../src/server/openapi.ts';
import { toOpenApi } from '../../src/server/openapi-document.ts';
import type { AnswerName } from '../../src/server/shapes.ts';
import { answers } from '../../src/server/shapes.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import type { CallOptions, TestServer } from './harness.ts';
import { createTestServer } from './harness.ts';

/** Any part of a server: building the routes calls none of it. */
const part: ServerParts = new Proxy((() => part) as unknown as ServerParts, { get: () => part });
/** Serves the page's own files, which are no interface. */
const PAGE = 'get *';

describe('the table of routes', () => {
  it('names every route of the server, and no other', () => {
    const served = createHttpApp(part)
      .routes.filter(({ method }) => method !== 'ALL')
      .map(({ method, path }) => `${method.toLowerCase()} ${path.replace(/^\/\*$/, '*')}`);
    const known = routes.map(({ method, path }) => `${method} ${path}`);
    expect(known.toSorted()).toEqual([...new Set(served)].filter((name) => name !== PAGE).toSorted());
  });

  it('names only errors that there are', () => {
    const all = catalogues.flatMap(({ folder, kinds }) => Object.keys(kinds).map((kind) => `${folder}.${kind}`));
    expect(routes.flatMap(({ errors = [] }) => errors).filter((code) => !all.includes(code))).toEqual([]);
  });

  it('makes a document whose references lead somewhere, with one name for each operation', () => {
    const document = toOpenApi('1.2.3') as {
      paths: Record<string, Record<string, { operationId: string; responses: object }>>;
      components: { schemas: object };
    };
    const text = JSON.stringify(document);
    for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      expect(Object.keys(document.components.schemas)).toContain(name);
    }
    const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
    expect(operations).toHaveLength(routes.length);
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(routes.length);
    expect(document.paths['/runs/{id}/events']!.get!.operationId).toBe('getRunsIdEvents');
    expect(Object.keys(document.paths['/chat']!.post!.responses)).toContain('409');
    expect(text).not.toContain('__shared');
  });
});

describe('answers have the shapes that are documented', () => {
  let server: TestServer;
  const checked = new Set<AnswerName>();
  type Body = { run: string; approvals: { id: string }[]; total: object };

  beforeAll(async () => {
    const note = defineTool({
      name: 'note',
      icon: 'pen',
      description: 'Notes something.',
      parameters: z.object({ text: z.string() }),
      effect: 'once',
      run: ({ text }, { output }) => (output('noting'), { noted: text }),
    });
    const model = createScriptedModel(({ messages }) => {
      const last = messages.at(-1)!;
      if (last.role === 'tool') return 'Noted.';
      const [part] = last.role === 'user' ? last.parts : [];
      const said = part?.type === 'text' ? part.text : '';
      if (said === 'fail') return { error: new Error('broken') };
      return { reasoning: 'Hm.', text: 'So:', calls: [{ name: 'note', args: { text: said } }] };
    });
    const sandbox = { kind: 'local', local: { iKnowThisIsNoSandbox: true } } as const;
    const logger = { warn: () => undefined, error: () => undefined };
    server = await createTestServer('embedded', {
      model,
      tools: [note],
      policy: askForWrites,
      config: { sandbox },
      logger,
    });
  });
  afterAll(async () => await server[Symbol.asyncDispose]());

  function hold(shape: AnswerName, value: unknown): void {
    checked.add(shape);
    const { error } = answers[shape].safeParse(value);
    expect(error?.issues ?? [], `${shape}: ${JSON.stringify(value).slice(0, 500)}`).toEqual([]);
  }

  async function call(shape: AnswerName, method: string, path: string, options?: CallOptions): Promise<Body> {
    const { body } = await server.call(method, path, options);
    hold(shape, body);
    return body as unknown as Body;
  }

  it('of a run that asks, is allowed and ends', async () => {
    const { run, approvals } = await call('Run', 'POST', '/chat', { body: { query: 'this', conversationId: 'a' } });
    await call('ConversationWithRuns', 'GET', '/conversations/a');
    await call('RunWithSteps', 'GET', `/runs/${run}`);
    const { id } = approvals[0]!;
    const watching = server.stream(`/runs/${run}/events`);
    await call('Decided', 'POST', `/approvals/${id}`, { body: { decision: 'allow', args: { text: 'that' } } });
    const events = await watching;
    for (const { event, data } of events) hold('RunEvent', { type: event, ...data });
    expect(events.map(({ event }) => event)).toEqual(
      expect.arrayContaining(['run_start', 'reasoning', 'token', 'tool_call', 'approval_request', 'approval_decision']),
    );
    await call('RunWithSteps', 'GET', `/runs/${run}`);
    await call('Result', 'GET', `/runs/${run}/results/call_0`);
    await call('RunStatus', 'DELETE', `/runs/${run}`);
    await call('Run', 'POST', '/chat', { body: { query: 'fail', conversationId: 'fails' } });
  });

  it('of files of a conversation', async () => {
    await call('Sandbox', 'GET', '/sandbox');
    const path = '/conversations/a/files';
    await call('WorkspaceFiles', 'GET', path);
    await call('WorkspaceFile', 'PUT', `${path}/content?path=a/b.txt`, { body: 'text' });
    await call('WorkspaceFiles', 'GET', `${path}?recursive=true`);
    await call('Error', 'GET', `${path}?path=../x`);
  });

  it('of what is kept', async () => {
    await call('Conversations', 'GET', '/conversations');
    await call('Messages', 'GET', '/conversations/a/messages');
    await call('Conversation', 'POST', '/conversations/a/fork', { body: { after: 1, id: 'fork' } });
    await call('Conversations', 'GET', '/conversations');
    await call('Conversation', 'PATCH', '/conversations/fork', { body: { title: 'Another' } });
    await call('File', 'POST', '/files?name=a.txt', { body: 'text', headers: { 'content-type': 'text/plain' } });
    const leave = new AbortController();
    const following = server.stream('/events', {
      headers: { 'last-event-id': '2020-01-01T00:00:00Z' },
      signal: leave.signal,
      until: ({ data }) => data.title === 'Another',
    });
    for (const { event, data } of await following) {
      hold('FeedEvent', data);
      if (event === 'run') hold('RunChange', data);
    }
    leave.abort();
    for (const by of ['model', 'day,run', 'conversation']) {
      const { total } = await call('UsageReport', 'GET', `/usage?by=${by}`);
      const { costUsd: _, ...usage } = total as { costUsd: null };
      hold('Usage', usage);
    }
    await call('Deleted', 'DELETE', '/conversations?confirm=all');
  });

  it('of models, health and refusals', async () => {
    await call('Models', 'GET', '/models');
    await call('Health', 'GET', '/health');
    await call('Health', 'GET', '/health', { user: null });
    await call('Error', 'GET', '/runs/none');
    await call('Error', 'GET', '/conversations', { user: null });
    await call('Error', 'POST', '/chat', { body: { query: 1 } });
    const { status, body } = await server.call('GET', '/openapi.json');
    expect(status).toBe(200);
    expect(body).toMatchObject({ openapi: '3.1.0', info: { title: 'Homard' } });
    expect((await server.call('GET', '/openapi.json', { user: null })).status).toBe(401);
  });

  it('of the set-up', async () => {
    await using host = await createModelServer(({ body }) =>
      body.model === 'none' ? { status: 404, json: { error: { message: 'no such model' } } } : [{ text: 'ok' }],
    );
    await using fresh = await createTestServer('embedded', { maySetUp: ({ owner }) => owner === 'ann' });
    const call = async (shape: AnswerName, method: string, path: string, options?: CallOptions) =>
      hold(shape, (await fresh.call(method, path, options)).body);
    const choice = { provider: 'openai-compatible', model: 'm', baseUrl: host.url };
    await call('Setup', 'GET', '/setup');
    await call('Trial', 'POST', '/setup/test', { body: choice });
    await call('Trial', 'POST', '/setup/test', { body: { ...choice, model: 'none' } });
    await call('TrialFailed', 'POST', '/setup', { body: { ...choice, model: 'none' } });
    await call('TrialSaved', 'POST', '/setup', { body: choice });
    await call('Models', 'GET', '/models');
    await call('Setup', 'DELETE', '/setup');
    await call('Error', 'GET', '/setup', { user: 'bob' });
  });

  it('all of them', () => {
    expect(Object.keys(answers).filter((name) => !checked.has(name as AnswerName))).toEqual([]);
  });
});
