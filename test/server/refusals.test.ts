// Bad input: each a clear error with code and hint, and nothing changed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { CallOptions, TestServer } from './harness.ts';
import { backends, createTestServer } from './harness.ts';

describe.each(backends)('refusals on %s', (backend) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await createTestServer(backend, {
      model: createScriptedModel(() => 'fine'),
      config: { bodyLimitBytes: 1_000_000 },
    });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const cases: [string, string, string, CallOptions, number, string, RegExp][] = [
    ['malformed JSON', 'POST', '/chat', { body: '{"query": "hi"' }, 400, 'server.invalid_json', /not JSON/],
    [
      'no JSON type',
      'POST',
      '/chat',
      { body: 'hi', headers: { 'content-type': 'text/plain' } },
      415,
      'server.unsupported_media_type',
      /text\/plain/,
    ],
    ['a wrong type', 'POST', '/chat', { body: { query: 7 } }, 400, 'server.invalid_request', /query: .*string/],
    ['an array', 'POST', '/chat', { body: [] }, 400, 'server.invalid_request', /object/],
    ['null', 'POST', '/chat/stream', { body: 'null' }, 400, 'server.invalid_request', /object/],
    ['nothing to say', 'POST', '/chat', { body: {} }, 400, 'server.invalid_request', /"query" or "messages"/],
    ['an empty message', 'POST', '/chat', { body: { query: ' \n ' } }, 400, 'server.invalid_request', /empty/],
    ['an unknown key', 'POST', '/chat', { body: { query: 'x', qeury: 'y' } }, 400, 'server.invalid_request', /qeury/],
    ['10 MB', 'POST', '/chat', { body: { query: 'x'.repeat(10_000_000) } }, 413, 'server.body_too_large', /1 MB/],
    [
      'an id of 300 characters',
      'POST',
      '/chat',
      { body: { query: 'x', conversationId: 'i'.repeat(300) } },
      400,
      'server.invalid_request',
      /conversationId/,
    ],
    [
      'an empty id',
      'POST',
      '/chat',
      { body: { query: 'x', conversationId: '' } },
      400,
      'server.invalid_request',
      /conversationId/,
    ],
    [
      'two names of one conversation',
      'POST',
      '/chat',
      { body: { query: 'x', conversationId: 'a', sessionId: 'b' } },
      400,
      'server.invalid_request',
      /two conversations/,
    ],
    [
      'an unknown agent',
      'POST',
      '/chat',
      { body: { query: 'x', agent: 'nobody' } },
      400,
      'agents.unknown',
      /assistant/,
    ],
    ['an unknown run', 'GET', '/runs/nope', {}, 404, 'journal.run_not_found', /nope/],
    ['events of an unknown run', 'GET', '/runs/..%2Fx/events', {}, 404, 'journal.run_not_found', /\.\.\/x/],
    ['ending an unknown run', 'DELETE', '/runs/nope', {}, 404, 'journal.run_not_found', /nope/],
    ['an unknown conversation', 'GET', '/conversations/nope', {}, 404, 'server.conversation_not_found', /nope/],
    [
      'an unknown approval',
      'POST',
      '/approvals/x:1',
      { body: { decision: 'allow' } },
      409,
      'journal.not_awaiting',
      /x:1/,
    ],
    ['a malformed approval', 'POST', '/approvals/x', { body: { decision: 'allow' } }, 409, 'journal.not_awaiting', /x/],
    ['an unknown route', 'GET', '/nothing/here', {}, 404, 'server.not_found', /nothing/],
    ['a bad page size', 'GET', '/conversations?limit=100000', {}, 400, 'server.invalid_request', /limit/],
    ['nobody', 'GET', '/conversations', { user: null }, 401, 'server.unauthorized', /token/],
    [
      'a wrong token',
      'GET',
      '/conversations',
      { user: null, headers: { authorization: 'Bearer x' } },
      401,
      'server.unauthorized',
      /token/,
    ],
  ];

  it.each(cases)('%s', async (_, method, path, options, status, code, message) => {
    const reply = await server.call(method, path, options);
    expect(reply.status).toBe(status);
    expect(reply.body.error).toMatchObject({ code });
    expect(reply.body.error!.message).toMatch(message);
    expect(reply.body.error!.hint.length).toBeGreaterThan(10);
    expect(Object.keys(reply.body)).toEqual(['error']);
    expect((await server.call('GET', '/conversations')).body.conversations).toEqual([]);
  });

  it('a request id names each failure, and no stack is shown', async () => {
    const reply = await server.call('GET', '/runs/nope');
    expect((reply.body.error as unknown as { requestId: string }).requestId).toBe(reply.headers.get('x-request-id'));
    expect(JSON.stringify(reply.body)).not.toMatch(/at .*\.ts/);
  });

  it('a Last-Event-ID of another run', async () => {
    const { body } = await server.call('POST', '/chat', { body: { query: 'x', conversationId: 'cursor' } });
    const path = `/runs/${String(body.run)}/events`;
    const reply = await server.call('GET', path, { headers: { 'last-event-id': 'other:1:1:1' } });
    expect(reply.body.error).toMatchObject({ code: 'server.invalid_request' });
    await server.call('DELETE', '/conversations/cursor');
  });

  it('the parser of chat-completions messages takes only what is new', async () => {
    const first = { role: 'user', content: 'hello' };
    const asked = await server.call('POST', '/chat', {
      body: { conversationId: 'list', messages: [{ role: 'system', content: 's' }, first] },
    });
    expect(asked.status).toBe(200);
    const messages = [first, { role: 'assistant', content: 'fine' }, { role: 'user', content: 'and?' }];
    expect((await server.call('POST', '/chat', { body: { conversationId: 'list', messages } })).status).toBe(200);
    const changed = [first, { role: 'assistant', content: 'not what was said' }, { role: 'user', content: 'and?' }];
    const refused = await server.call('POST', '/chat', { body: { conversationId: 'list', messages: changed } });
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'server.history_differs' } } });
    const open = await server.call('POST', '/chat', {
      body: { conversationId: 'list', messages: messages.slice(0, 2) },
    });
    expect(open.body.error?.message).toMatch(/last message must be from the user/);
    const kept = await server.call('GET', '/conversations/list/messages');
    expect((kept.body.messages as unknown as object[]).length).toBe(4);
    await server.call('DELETE', '/conversations/list');
  });
});
