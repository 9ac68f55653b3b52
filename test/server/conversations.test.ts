import { readdirSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from './harness.ts';
import { backends, createTestServer } from './harness.ts';

interface Message {
  id: number;
  kind: string;
  parts: { type: string; text: string }[];
  at: string;
  model?: string;
  usage?: object;
}

describe.each(backends)('conversations on %s', (backend) => {
  let server: TestServer;
  const model = createScriptedModel((request) => {
    const last = request.messages.at(-1);
    return { text: last?.role === 'user' && last.parts[0]?.type === 'text' ? `echo ${last.parts[0].text}` : 'x' };
  });
  beforeAll(async () => {
    server = await createTestServer(backend, { model });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const say = (conversationId: string, query: string, more: object = {}) =>
    server.call('POST', '/chat', { body: { conversationId, query, ...more } });
  const read = async (id: string, query = '', user: 'ann' | 'bob' = 'ann') =>
    (await server.call('GET', `/conversations/${encodeURIComponent(id)}/messages${query}`, { user })).body
      .messages as unknown as Message[];

  it('MEM-04 a message sent twice is there twice, in order, and the last one of the request', async () => {
    await say('twice', 'yes');
    await say('twice', 'yes');
    const request = model.requests.at(-1)!;
    expect(
      request.messages.map((m) => [m.role, m.role === 'tool' ? '' : (m.parts[0] as { text: string }).text]),
    ).toEqual([
      ['user', 'yes'],
      ['assistant', 'echo yes'],
      ['user', 'yes'],
    ]);
  });

  it('MEM-07 50 messages at once are 50 runs, one after another, none lost', async () => {
    const texts = Array.from({ length: 50 }, (_, i) => `m${i}`);
    const replies = await Promise.all(texts.map((text) => say('parallel', text)));
    expect(replies.map((reply) => reply.status)).toEqual(texts.map(() => 200));
    expect(replies.map((reply) => String(reply.body.text))).toEqual(texts.map((text) => `echo ${text}`));
    const messages = await read('parallel', '?limit=1000');
    expect(messages.map((message) => message.id)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
    const said = messages.filter((message) => message.kind === 'user').map((message) => message.parts[0]!.text);
    expect(said.toSorted()).toEqual(texts.toSorted());
    for (let i = 0; i < 100; i += 2)
      expect(messages[i + 1]!.parts[0]!.text).toBe(`echo ${messages[i]!.parts[0]!.text}`);
  });

  it('MEM-13 every message has id, time, model and usage, and can be asked for since an instant', async () => {
    await say('dated', 'one');
    const since = new Date().toISOString();
    await say('dated', 'two');
    const all = await read('dated');
    expect(all[1]).toMatchObject({
      id: 2,
      kind: 'assistant',
      model: 'scripted',
      usage: { outputTokens: expect.any(Number) },
    });
    expect(all.every((message) => !Number.isNaN(Date.parse(message.at)))).toBe(true);
    expect((await read('dated', `?since=${encodeURIComponent(since)}`)).map((message) => message.id)).toEqual([3, 4]);
    expect((await read('dated', '?last=1')).map((message) => message.id)).toEqual([4]);
  });

  it('MEM-14 GOV-79 ids with any characters are conversations of their own', async () => {
    const hostile = [
      '../x',
      '/abs',
      'a/b',
      'C:\\x',
      '中文',
      'a',
      'A',
      '%00',
      '\0',
      'a:b',
      'a#b',
      '__anon__',
      'é',
      'e\u0301',
      '\ud800',
      '%d800',
      ' a',
      'i'.repeat(200),
    ];
    for (const id of hostile) expect((await say(id, `mine ${JSON.stringify(id)}`)).status).toBe(200);
    for (const name of readdirSync(server.folder))
      expect(['db', 'db.lock', 'db.lock-journal', 'secret', 'workspace']).toContain(name);
    const list = (await server.call('GET', '/conversations?limit=500')).body.conversations as unknown as {
      id: string;
    }[];
    for (const id of hostile) expect(list.filter((conversation) => conversation.id === id)).toHaveLength(1);
    for (const id of hostile.filter((name) => name.isWellFormed())) {
      const messages = await read(id);
      expect(messages.map((message) => message.parts[0]!.text)).toEqual([
        `mine ${JSON.stringify(id)}`,
        `echo mine ${JSON.stringify(id)}`,
      ]);
    }
  });

  it('any text comes back byte for byte', { timeout: 60_000 }, async () => {
    const unit = fc.string({
      unit: fc.oneof(
        fc.string({ unit: 'binary', maxLength: 1 }),
        fc.constantFrom('\0', '\ud800', '\udc00', '\u2028', '\ufeff', '\r\n', '"', '\\', '𠮷', '---', '%'),
      ),
    });
    const property = fc.asyncProperty(
      unit.filter((text) => text.trim() !== ''),
      async (text) => {
        const id = crypto.randomUUID();
        await say(id, text);
        expect((await read(id))[0]!.parts[0]!.text).toBe(text);
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });

  it("MEM-23 another user's conversations and runs are not there: not to list, read, cancel, answer, fork or delete", async () => {
    const { body } = await say('web', 'a secret of ann');
    const run = String(body.run);
    await server.call('POST', '/chat', { user: 'bob', body: { conversationId: 'web', query: 'bob here' } });
    const asBob = (method: string, path: string, more?: unknown) =>
      server.call(method, path, { user: 'bob', ...(more !== undefined && { body: more }) });
    expect(JSON.stringify((await asBob('GET', '/conversations')).body)).not.toContain('secret');
    expect((await read('web', '', 'bob')).map((message) => message.parts[0]!.text)).toEqual([
      'bob here',
      'echo bob here',
    ]);
    expect(model.requests.at(-1)!.messages).toHaveLength(1);
    for (const [method, path, more] of [
      ['GET', `/runs/${run}`],
      ['GET', `/runs/${run}/events`],
      ['DELETE', `/runs/${run}`],
      ['GET', '/conversations/twice'],
      ['GET', '/conversations/twice/messages'],
      ['POST', '/conversations/twice/fork', { after: 1 }],
    ] as const) {
      expect((await asBob(method, path, more)).status).toBe(404);
    }
    expect((await asBob('POST', `/approvals/${run}:1`, { decision: 'allow' })).status).toBe(409);
    expect((await asBob('DELETE', '/conversations/twice')).status).toBe(204);
    expect(await read('twice')).toHaveLength(4);
  });

  it('GOV-74 expectedVersion: 0 creates only, n compares, and a conflict says the version', async () => {
    expect((await say('cas', 'one', { expectedVersion: 0 })).status).toBe(200);
    const conflict = await say('cas', 'again', { expectedVersion: 0 });
    expect(conflict).toMatchObject({
      status: 409,
      body: { error: { code: 'journal.version_conflict', data: { version: 2 } } },
    });
    expect((await say('cas', 'two', { expectedVersion: 2 })).status).toBe(200);
    expect((await say('nothing here', 'x', { expectedVersion: 5 })).status).toBe(409);
    expect(await read('cas')).toHaveLength(4);
  });

  it('Idempotency-Key: the same message again is the same run; another one is refused', async () => {
    const send = (query: string, headers = { 'idempotency-key': 'k1' }) =>
      server.call('POST', '/chat', { body: { query }, headers });
    const [first, second] = await Promise.all([send('pay'), send('pay')]);
    expect(second.body.run).toBe(first.body.run);
    expect((await send('pay')).body.run).toBe(first.body.run);
    expect(await send('pay twice')).toMatchObject({
      status: 409,
      body: { error: { code: 'journal.idempotency_key_reused' } },
    });
    expect(await read(String(first.body.conversation))).toHaveLength(2);
  });

  it('a fork shares what came before and goes its own way; deleting either leaves the other whole', async () => {
    await say('tree', 'one');
    await say('tree', 'two');
    const forked = await server.call('POST', '/conversations/tree/fork', { body: { id: 'branch', after: 2 } });
    expect(forked).toMatchObject({ status: 201, body: { version: 2, fork: { parent: 'tree', seq: 2 } } });
    await say('branch', 'other');
    const grand = await server.call('POST', '/conversations/branch/fork', { body: { id: 'twig', after: 3 } });
    expect(grand.status).toBe(201);
    const texts = async (id: string) => (await read(id)).map((message) => message.parts[0]!.text);
    expect(await texts('branch')).toEqual(['one', 'echo one', 'other', 'echo other']);
    expect(model.requests.at(-1)!.messages).toHaveLength(3);
    expect((await server.call('POST', '/conversations/tree/fork', { body: { id: 'branch', after: 1 } })).status).toBe(
      409,
    );
    expect((await server.call('POST', '/conversations/tree/fork', { body: { after: 99 } })).status).toBe(404);
    await server.call('DELETE', '/conversations/branch');
    expect(await texts('twig')).toEqual(['one', 'echo one', 'other']);
    await server.call('DELETE', '/conversations/tree');
    expect(await texts('twig')).toEqual(['one', 'echo one', 'other']);
    await say('tree', 'anew');
    expect(await texts('tree')).toEqual(['anew', 'echo anew']);
    expect((await server.call('DELETE', '/conversations/tree')).status).toBe(204);
    expect((await server.call('DELETE', '/conversations/tree')).status).toBe(204);
    expect((await server.call('GET', '/conversations/tree')).status).toBe(404);
  });

  it('every conversation is on exactly one page, also of those that changed in the same instant', async () => {
    await Promise.all(Array.from({ length: 23 }, (_, i) => say(`page ${i}`, 'x')));
    const seen: string[] = [];
    for (let before = ''; ;) {
      const { body } = await server.call('GET', `/conversations?limit=5${before && `&before=${before}`}`);
      seen.push(...(body.conversations as unknown as { id: string }[]).map(({ id }) => id));
      if (body.next === null) break;
      before = String(body.next);
    }
    expect(new Set(seen).size).toBe(seen.length);
    for (let i = 0; i < 23; i++) expect(seen).toContain(`page ${i}`);
    expect((await server.call('GET', '/conversations?before=nonsense')).body.error?.code).toBe('store.invalid_cursor');
  });

  it('Idempotency-Key holds for messages too, and a bad key is refused', async () => {
    const body = { conversationId: 'again', messages: [{ role: 'user', content: 'one' }] };
    const headers = { 'idempotency-key': 'list-1' };
    const first = await server.call('POST', '/chat', { body, headers });
    const history = [...body.messages, { role: 'assistant', content: 'echo one' }, { role: 'user', content: 'two' }];
    const second = { body: { ...body, messages: history }, headers: { 'idempotency-key': 'list-2' } };
    const [next, same] = [await server.call('POST', '/chat', second), await server.call('POST', '/chat', second)];
    expect([first.status, next.status, same.status]).toEqual([200, 200, 200]);
    expect(same.body.run).toBe(next.body.run);
    for (const key of ['k'.repeat(300), 'a b']) {
      expect((await server.call('POST', '/chat', { body, headers: { 'idempotency-key': key } })).status).toBe(400);
    }
  });

  it('the list has titles and pages', async () => {
    await say('titled', '  What is the weather in Beijing?\nsecond line');
    const { body } = await server.call('GET', '/conversations?limit=1');
    expect(body.conversations).toMatchObject([
      { id: 'titled', title: 'What is the weather in Beijing?', activeRun: null, queued: 0 },
    ]);
    const next = await server.call('GET', `/conversations?limit=1&before=${String(body.next)}`);
    expect((next.body.conversations as unknown as { id: string }[])[0]!.id).not.toBe('titled');
  });
});
