// Attachments over HTTP: bytes in, bytes out, and what of them reaches a model.
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from './harness.ts';
import { backends, createTestServer } from './harness.ts';

const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), randomBytes(3000)]);

/** fetch demands it for streams, and its types do not know it. */
const half = { duplex: 'half' };

interface Sent {
  user?: string;
  name?: string;
  type?: string;
  headers?: Record<string, string>;
}

async function upload(server: TestServer, body: BodyInit, { user = 'ann', name, type, headers }: Sent = {}) {
  const path = name === undefined ? '/files' : `/files?name=${encodeURIComponent(name)}`;
  const response = await fetch(server.address + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${user}-token`, ...(type && { 'content-type': type }), ...headers },
    body,
    ...(body instanceof ReadableStream && half),
  });
  const answer = (await response.json()) as {
    id: string;
    name: string;
    mime: string;
    bytes: number;
    error?: { code: string; message: string };
  };
  return { status: response.status, body: answer };
}

const download = (server: TestServer, id: string, init: { user?: string; method?: string; etag?: string } = {}) =>
  fetch(`${server.address}/files/${id}`, {
    method: init.method ?? 'GET',
    headers: {
      authorization: `Bearer ${init.user ?? 'ann'}-token`,
      ...(init.etag !== undefined && { 'if-none-match': init.etag }),
    },
  });

const blobsOf = (server: TestServer) =>
  globSync('files/**', { cwd: server.folder, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

describe.each(backends)('files on %s', (backend) => {
  let server: TestServer;
  beforeAll(async () => {
    const model = createScriptedModel(() => 'fine');
    server = await createTestServer(backend, { model, config: { fileLimitBytes: 100_000 } });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it('come back byte for byte, to their owner only', async () => {
    const sent = await upload(server, png, { name: 'a photo.png', type: 'application/octet-stream' });
    const id = createHash('sha256').update(png).digest('hex');
    expect(sent).toEqual({ status: 201, body: { id, name: 'a photo.png', mime: 'image/png', bytes: png.length } });
    const found = await download(server, id);
    expect(found.status).toBe(200);
    expect(Buffer.from(await found.arrayBuffer()).equals(png)).toBe(true);
    expect(Object.fromEntries(found.headers)).toMatchObject({
      'content-type': 'image/png',
      'content-length': String(png.length),
      'content-disposition': `inline; filename="a photo.png"; filename*=UTF-8''a%20photo.png`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    });
    const again = await download(server, id, { etag: found.headers.get('etag')! });
    expect(again.status).toBe(304);
    const head = await download(server, id, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(png.length)]);

    const foreign = await download(server, id, { user: 'bob' });
    expect(foreign.status).toBe(404);
    expect(await foreign.json()).toMatchObject({ error: { code: 'server.file_not_found' } });
    const named = await server.call('POST', '/chat', { user: 'bob', body: { query: 'x', files: [{ id }] } });
    expect(named).toMatchObject({ status: 404, body: { error: { code: 'server.file_not_found' } } });
    expect((await server.call('GET', '/conversations', { user: 'bob' })).body.conversations).toEqual([]);
    await upload(server, png, { user: 'bob', name: 'mine.png' });
    expect((await download(server, id, { user: 'bob' })).status).toBe(200);
    expect((await download(server, id)).headers.get('content-disposition')).toContain('a photo.png');
  });

  it('are deleted by their owner only, again and again, and can be given again', async () => {
    const { body } = await upload(server, 'to be deleted');
    await upload(server, 'to be deleted', { user: 'bob' });
    const remove = async (user: 'ann' | 'bob' | null) =>
      (await server.call('DELETE', `/files/${body.id}`, { user })).status;
    const states = async () => [
      (await download(server, body.id)).status,
      (await download(server, body.id, { user: 'bob' })).status,
    ];
    expect(await remove(null)).toBe(401);
    expect(await remove('bob')).toBe(204);
    expect(await states()).toEqual([200, 404]);
    expect([await remove('bob'), await remove('ann'), await remove('ann')]).toEqual([204, 204, 204]);
    expect(await states()).toEqual([404, 404]);
    expect(blobsOf(server).filter((path) => path.endsWith(body.id))).toEqual([]);
    const chat = await server.call('POST', '/chat', { body: { query: 'x', files: [{ id: body.id }] } });
    expect(chat).toMatchObject({ status: 404, body: { error: { code: 'server.file_not_found' } } });
    expect((await upload(server, 'to be deleted')).status).toBe(201);
    expect(await states()).toEqual([200, 404]);
  });

  it('the same content twice is one file, under its newer name', async () => {
    const before = blobsOf(server).length;
    const one = await upload(server, 'same', { name: 'one.txt' });
    const two = await upload(server, 'same', { name: 'two.md', type: 'text/markdown' });
    expect(two.body).toEqual({ ...one.body, name: 'two.md', mime: 'text/markdown' });
    expect(blobsOf(server).length).toBe(before + 1);
    expect((await download(server, one.body.id)).headers.get('content-disposition')).toContain('two.md');
  });

  it('what a browser could run is saved, not shown', async () => {
    const { body } = await upload(server, '<script>alert(1)</script>', { name: 'x"\r\n.html', type: 'text/html' });
    expect(body).toMatchObject({ name: 'x".html', mime: 'text/html' });
    const { headers } = await download(server, body.id);
    expect(headers.get('content-disposition')).toBe(`attachment; filename="x_.html"; filename*=UTF-8''x%22.html`);
    expect(headers.get('content-security-policy')).toContain('sandbox');
    const svg = await upload(server, '<svg xmlns="http://www.w3.org/2000/svg"/>', { type: 'image/svg+xml' });
    expect((await download(server, svg.body.id)).headers.get('content-disposition')).toMatch(/^attachment/);
  });

  it.each([
    ['../../x', 'x'],
    ['a\0b.txt', 'ab.txt'],
    [`${'n'.repeat(300)}.txt`, `${'n'.repeat(196)}.txt`],
    ['😀 家.txt', '😀 家.txt'],
    ['..', 'file'],
  ])('a file named %j stays inside', async (given, expected) => {
    const text = `content of ${expected}`;
    const { status, body } = await upload(server, text, { headers: { 'x-file-name': encodeURIComponent(given) } });
    expect([status, body.name, body.mime]).toEqual([201, expected, 'text/plain']);
    expect(await (await download(server, body.id)).text()).toBe(text);
    for (const path of blobsOf(server)) {
      expect(path.slice(server.folder.length)).toMatch(/^\/files\/[0-9a-f]{32}\/[0-9a-f]{2}\/[0-9a-f]{64}$/);
    }
    for (let place = join(server.folder, 'files'); place !== dirname(place); place = dirname(place)) {
      expect(existsSync(join(place, 'x'))).toBe(false);
    }
  });

  it('a file above the limit is refused, told beforehand or found while reading, and leaves nothing', async () => {
    const before = blobsOf(server).length;
    const told = await upload(server, Buffer.alloc(100_001, 'a'));
    const found = await upload(
      server,
      new ReadableStream<Uint8Array>({
        async pull(controller) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          controller.enqueue(Buffer.alloc(20_000, 'a'));
        },
      }),
    );
    for (const { status, body } of [told, found]) {
      expect(status).toBe(413);
      expect(body.error).toMatchObject({
        code: 'server.file_too_large',
        message: 'The file is larger than 100000 bytes.',
      });
    }
    expect((await upload(server, Buffer.alloc(100_000, 'a'))).status).toBe(201);
    expect(blobsOf(server).length).toBe(before + 1);
  });

  it('an upload that breaks off leaves nothing', async () => {
    const before = blobsOf(server).length;
    const leave = new AbortController();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Buffer.from('half of a file')),
    });
    const sending = fetch(`${server.address}/files`, {
      method: 'POST',
      headers: { authorization: 'Bearer ann-token' },
      body,
      signal: leave.signal,
      ...half,
    });
    await expect.poll(() => blobsOf(server).length).toBe(before + 1);
    leave.abort();
    await expect(sending).rejects.toThrow('aborted');
    await expect.poll(() => blobsOf(server).length).toBe(before);
  });

  it.each<[string, BodyInit, Sent, number, string]>([
    ['nothing', '', {}, 400, 'server.invalid_request'],
    ['a form', 'x', { type: 'multipart/form-data; boundary=x' }, 415, 'server.unsupported_media_type'],
    ['a name that is not encoded', 'x', { headers: { 'x-file-name': '100%' } }, 400, 'server.invalid_request'],
    ['nobody', 'x', { user: 'eve' }, 401, 'server.unauthorized'],
  ])('%s is refused', async (_, body, sent, status, code) => {
    const reply = await upload(server, body, sent);
    expect(reply.status).toBe(status);
    expect(reply.body.error).toMatchObject({ code });
  });

  it('a message with an unknown file, or too many, changes nothing', async () => {
    const { body } = await upload(server, 'known');
    const unknown = '0'.repeat(64);
    for (const id of [unknown, '../../etc/passwd', 'a\0b']) {
      const files = [{ id: body.id }, { id }];
      const reply = await server.call('POST', '/chat', { body: { conversationId: 'none', query: 'x', files } });
      expect(reply).toMatchObject({ status: 404, body: { error: { code: 'server.file_not_found' } } });
    }
    const many = Array.from({ length: 21 }, () => ({ id: body.id }));
    const reply = await server.call('POST', '/chat', { body: { conversationId: 'none', query: 'x', files: many } });
    expect(reply).toMatchObject({ status: 400, body: { error: { code: 'server.invalid_request' } } });
    expect((await server.call('GET', '/conversations/none')).status).toBe(404);
    for (const query of [undefined, ' ']) {
      const empty = await server.call('POST', '/chat', { body: { conversationId: 'none', query, files: [] } });
      expect(empty).toMatchObject({ status: 400, body: { error: { code: 'server.invalid_request' } } });
    }
  });

  it('a message may be files alone; the record holds references, and a history is compared by its texts', async () => {
    const { body: file } = await upload(server, png, { name: 'p.png' });
    const id = file.id;
    const say = (body: object) => server.call('POST', '/chat', { body: { conversationId: 'h', ...body } });
    expect((await say({ query: 'look', files: [{ id, name: '../mine.png' }] })).status).toBe(200);
    expect((await say({ files: [{ id }] })).status).toBe(200);
    const { messages } = (await server.call('GET', '/conversations/h/messages')).body as unknown as {
      messages: { kind: string; parts: object[] }[];
    };
    const said = messages.filter(({ kind }) => kind === 'user').map(({ parts }) => parts);
    const part = { type: 'file', id, mime: 'image/png', bytes: png.length };
    expect(said).toEqual([
      [
        { type: 'text', text: 'look' },
        { ...part, name: 'mine.png' },
      ],
      [{ ...part, name: 'p.png' }],
    ]);
    const fine = { role: 'assistant', content: 'fine' };
    const history = [{ role: 'user', content: 'look' }, fine, { role: 'user', content: '' }, fine];
    const next = { role: 'user', content: 'next' };
    expect((await say({ messages: [...history, next] })).status).toBe(200);
    const other = [{ role: 'user', content: 'other' }, ...history.slice(1), next, fine, next];
    expect(await say({ messages: other })).toMatchObject({ status: 409 });
  });

  it('a repeated key with the same files is one run, also after a new name; with other files it is refused', async () => {
    const [one, two] = [await upload(server, 'one', { name: 'one' }), await upload(server, 'two')];
    const say = (id: string) =>
      server.call('POST', '/chat', { body: { query: 'x', files: [{ id }] }, headers: { 'idempotency-key': 'k1' } });
    const first = await say(one.body.id);
    await upload(server, 'one', { name: 'renamed' });
    expect((await say(one.body.id)).body.run).toBe(first.body.run);
    expect((await say(two.body.id)).status).toBe(409);
  });
});
