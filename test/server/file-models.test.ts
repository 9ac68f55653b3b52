// What of a conversation's files reaches model hosts, over runs, restarts and changes of model.
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ModelServerScript } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import type { TestServer } from './harness.ts';
import { backends, createTestServer } from './harness.ts';

const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), randomBytes(3000)]);
const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } };

async function upload(server: TestServer, body: BodyInit, name: string): Promise<{ id: string }> {
  const response = await fetch(`${server.address}/files?name=${encodeURIComponent(name)}`, {
    method: 'POST',
    headers: { authorization: 'Bearer ann-token' },
    body,
  });
  return (await response.json()) as { id: string };
}

async function createHosts(backend: (typeof backends)[number], see: ModelServerScript, fallbacks = {}) {
  const stack = new AsyncDisposableStack();
  const seeing = stack.use(await createModelServer(see));
  const blind = stack.use(await createModelServer([[{ text: 'blind' }]]));
  const hosts = {
    seeing: { baseUrl: seeing.url, models: ['see-'] },
    blind: { baseUrl: blind.url, models: ['blind-'], files: [] },
  };
  const server = stack.use(await createTestServer(backend, { config: { models: { hosts, fallbacks } } }));
  const say = (query: string, modelName: string, files: object[] = []) =>
    server.call('POST', '/chat', { body: { conversationId: 'c', query, modelName, files } });
  const told = (host: typeof seeing, n = -1) =>
    host.requests
      .at(n)!
      .body.messages.filter(({ role }) => role === 'user')
      .map(({ content }) => content);
  return { server, seeing, blind, say, told, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

describe.each(backends)('files to models on %s', (backend) => {
  it('an image reaches the host byte for byte, in this turn and the next, and a text is written out', async () => {
    await using hosts = await createHosts(backend, [[{ text: 'a cat' }]]);
    const { server, seeing, say, told } = hosts;
    const files = [await upload(server, png, 'cat.png'), await upload(server, '# 家\nhi', 'notes.md')];
    expect(await say('What is it?', 'see-1', files)).toMatchObject({ status: 200, body: { text: 'a cat' } });
    const parts = [
      { type: 'text', text: 'What is it?' },
      image,
      { type: 'text', text: '[file notes.md (text/plain, 8 bytes)]\n# 家\nhi' },
    ];
    expect(told(seeing)).toEqual([parts]);
    await say('And now?', 'see-1');
    expect(told(seeing)).toEqual([parts, 'And now?']);
  });

  it('a host that takes no images is not asked; the turn is refused, the conversation goes on', async () => {
    await using hosts = await createHosts(backend, [[{ text: 'a cat' }]]);
    const { server, blind, seeing, say, told } = hosts;
    const file = await upload(server, png, 'cat.png');
    const refused = await say('look', 'blind-1', [file]);
    expect(refused.status).toBe(400);
    expect(refused.body.error).toMatchObject({ code: 'models.file_unsupported' });
    expect(refused.body.error!.message).toBe(
      'The model blind-1 of blind cannot take the file "cat.png" (image/png). It takes: text.',
    );
    expect(refused.body.error!.hint).toContain('Choose a model');
    expect(blind.requests).toHaveLength(0);

    expect((await say('hello', 'blind-1')).body).toMatchObject({ text: 'blind' });
    expect(JSON.stringify(told(blind))).toContain('look\\n[image cat.png: this model cannot see images]');
    expect((await say('again', 'see-1', [file])).body).toMatchObject({ text: 'a cat' });
    expect((await say('go on', 'blind-1')).body).toMatchObject({ text: 'blind' });
    expect(told(blind).slice(-2)).toEqual(['again\n[image cat.png: this model cannot see images]', 'go on']);
    expect(JSON.stringify([seeing.requests[0]!.body.messages]).split('image_url":{').length - 1).toBe(2);
  });

  it('a fallback that takes images answers instead', async () => {
    await using hosts = await createHosts(backend, [[{ text: 'a cat' }]], { 'blind-': ['see-1'] });
    const { server, say, told, seeing, blind } = hosts;
    const { status, body } = await say('look', 'blind-1', [await upload(server, png, 'cat.png')]);
    expect([status, body.text]).toEqual([200, 'a cat']);
    expect(told(seeing)).toEqual([[{ type: 'text', text: 'look' }, image]]);
    expect(blind.requests).toHaveLength(0);
  });

  it('a fallback that takes none does not hide the refusal', async () => {
    await using hosts = await createHosts(backend, [[{ text: 'a cat' }]], { 'blind-': ['blind-2'] });
    const { server, say, blind } = hosts;
    const { status, body } = await say('look', 'blind-1', [await upload(server, png, 'cat.png')]);
    expect([status, body.error!.code]).toEqual([400, 'models.file_unsupported']);
    expect(body.error!.message).toMatch(/^The model blind-1 of blind cannot take the file "cat.png"/);
    expect(blind.requests).toHaveLength(0);
  });

  it("a host's own refusal of images is the same error; later turns go on without the image", async () => {
    const message = 'Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`';
    await using hosts = await createHosts(backend, ({ body }) =>
      JSON.stringify(body).includes('image_url') ? { status: 400, json: { error: { message } } } : [{ text: 'fine' }],
    );
    const { server, say, told, seeing } = hosts;
    const refused = await say('look', 'see-1', [await upload(server, png, 'cat.png')]);
    expect(refused).toMatchObject({ status: 400, body: { error: { code: 'models.file_unsupported' } } });
    expect(refused.body.error!.message).toContain('"cat.png" (image/png)');
    expect(seeing.requests).toHaveLength(1);
    expect((await say('then not', 'see-1')).body).toMatchObject({ text: 'fine' });
    expect(JSON.stringify(told(seeing))).toContain('[image cat.png: this model cannot see images]');
  });

  it('a file whose content is gone is refused by name; in later turns it is told with a warning', async () => {
    await using hosts = await createHosts(backend, [[{ text: 'fine' }]]);
    const { server, seeing, say, told } = hosts;
    const file = await upload(server, png, 'cat.png');
    expect(await say('look', 'see-1', [file])).toMatchObject({ status: 200 });
    rmSync(join(server.folder, 'files'), { recursive: true });
    const refused = await say('look', 'see-1', [file]);
    expect(refused.body.error).toMatchObject({ code: 'models.file_unsupported', hint: 'Send the file again.' });
    expect(refused.body.error!.message).toContain('"cat.png" (image/png)');
    const frames = await server.stream('/chat/stream', {
      body: { conversationId: 'c', query: 'go on', modelName: 'see-1' },
    });
    const warnings = frames.filter(({ event }) => event === 'warning').map(({ data }) => data);
    expect(warnings).toMatchObject(
      Array.from({ length: 2 }, () => ({ code: 'models.file_missing', data: { name: 'cat.png' } })),
    );
    const line = 'look\n[file cat.png: its content is not available any more]';
    expect(told(seeing)).toEqual([line, `${line}\ngo on`]);
    const found = await server.call('GET', `/files/${file.id}`);
    expect(found).toMatchObject({ status: 404, body: { error: { code: 'store.file_gone' } } });
  });

  it('a text is shown within the window', async () => {
    await using host = await createModelServer([[{ text: 'fine' }]]);
    const config = { models: { hosts: { other: { baseUrl: host.url, models: ['m'] } } }, window: { tokens: 2000 } };
    await using server = await createTestServer(backend, { config });
    const files = [await upload(server, 'x'.repeat(50_000), 'long.txt')];
    const { status } = await server.call('POST', '/chat', { body: { query: 'look', modelName: 'm', files } });
    expect(status).toBe(200);
    const content = String(host.requests[0]!.body.messages.at(-1)!.content);
    expect(content).toMatch(/^look\n\[file long\.txt .*\]\nx+\n\[\.\.\. \d+ characters left out \.\.\.\]\nx+$/s);
    expect(content.length).toBeGreaterThan(4000);
    expect(content.length).toBeLessThan(6000);
  });

  it('a deleted file is not sent any more, and the conversation goes on', async () => {
    await using hosts = await createHosts(backend, [[{ text: 'fine' }]]);
    const { server, seeing, say, told } = hosts;
    const file = await upload(server, png, 'cat.png');
    await say('look', 'see-1', [file]);
    expect((await server.call('DELETE', `/files/${file.id}`)).status).toBe(204);
    expect(await say('go on', 'see-1')).toMatchObject({ status: 200, body: { text: 'fine' } });
    expect(told(seeing)).toEqual(['look\n[file cat.png: its content is not available any more]', 'go on']);
  });

  it('a run that goes on after a restart sends the image again', async () => {
    await using hosts = await createHosts(backend, (_, n) => (n === 0 ? [{ hang: true }] : [{ text: 'a cat' }]));
    const { server, seeing, told } = hosts;
    const files = [await upload(server, png, 'cat.png')];
    const body = { conversationId: 'c', query: 'look', modelName: 'see-1', files };
    const frames = await server.stream('/chat/stream', { body, until: ({ event }) => event === 'run_start' });
    await expect.poll(() => seeing.requests.length).toBe(1);
    await server.restart();
    const run = String(frames[0]!.data.run);
    await expect
      .poll(async () => (await server.call('GET', `/runs/${run}`)).body, { timeout: 15_000 })
      .toMatchObject({ status: 'done', text: 'a cat' });
    expect(told(seeing, 0)).toEqual([[{ type: 'text', text: 'look' }, image]]);
    expect(told(seeing, 1)).toEqual(told(seeing, 0));
  });
});
