// Hosts that refuse files all the same: one bad file must not end a conversation, and what a host does not take is learned.
import { describe, expect, it } from 'vitest';
import type { FilePart, Message } from '../../src/kernel/messages.ts';
import type { Model } from '../../src/kernel/model.ts';
import { createPackageModel } from '../../src/models/ai-sdk.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { ModelServer } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import { begin, createMessagesServer, end, refuse, stream, textBlock } from './messages-server.ts';

const never = new AbortController().signal;
const user = (...parts: (FilePart | string)[]): Message => ({
  role: 'user',
  parts: parts.map((part) => (typeof part === 'string' ? { type: 'text', text: part } : part)),
});
const answer: Message = { role: 'assistant', model: 'm', parts: [{ type: 'text', text: 'ok' }] };
const contents: Record<string, string> = {
  'bad.png': 'BAD',
  'good.png': 'GOOD',
  'paper.pdf': 'PDF',
  'long.txt': 'LONGTEXT',
};
const file = (name: string, mime: string): FilePart => ({
  type: 'file',
  id: name,
  name,
  mime,
  bytes: contents[name]!.length,
});
const bad = file('bad.png', 'image/png');
const good = file('good.png', 'image/png');
const paper = file('paper.pdf', 'application/pdf');
const long = file('long.txt', 'text/plain');
const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Refuses what holds one of the texts, else answers. */
const refusing = (texts: string[], status: number, message: string) =>
  createModelServer(({ body }) =>
    texts.some((text) => JSON.stringify(body).includes(text))
      ? { status, json: { error: { message } } }
      : [{ text: 'fine' }],
  );

const wireOf = (server: ModelServer): Model =>
  createOpenAIWireModel({
    name: 'm-1',
    model: 'm',
    baseUrl: server.url,
    provider: 'other',
    files: ['image', 'pdf'],
    apiKey: 'secret-key-of-mine',
  });

async function call(model: Model, ...messages: Message[]): Promise<string> {
  let text = '';
  const load = ({ id }: FilePart) => Promise.resolve(Buffer.from(contents[id]!));
  await model.call({ system: '', messages, tools: [], load }, never, (part) => {
    if (part.type === 'text') text += part.text;
  });
  return text;
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );
const said = (server: ModelServer, n: number) => JSON.stringify(server.requests.at(n)!.body.messages);

describe('a file of an earlier turn that the host refuses', () => {
  it.each([
    [400, 'image exceeds 5 MB maximum'],
    [400, 'Could not process image'],
    [400, 'something is wrong with this request'],
    [413, 'Payload too large'],
    [422, 'Unprocessable'],
  ])('is left out and the turn goes well: %i %s', async (status, message) => {
    await using server = await refusing([base64('BAD')], status, message);
    const model = wireOf(server);
    expect(await call(model, user('see', bad), answer, user('now', good))).toBe('fine');
    expect(server.requests).toHaveLength(2);
    expect(said(server, 1)).toContain("[file bad.png: left out, as the model's host refused it]");
    expect(said(server, 1)).toContain(base64('GOOD'));
    // It is not sent again, and other images are.
    expect(await call(model, user('see', bad), answer, user('now', good))).toBe('fine');
    expect(server.requests).toHaveLength(3);
    expect(said(server, 2)).toContain(base64('GOOD'));
  });

  it('is left out for a package of the AI SDK, too', async () => {
    const no = refuse(400, 'invalid_request_error', 'messages.0.content.1.image: Could not process image');
    const fine = stream(begin, ...textBlock(0, 'fine'), ...end());
    await using server = await createMessagesServer(no, fine, fine, no);
    const model = createPackageModel({
      kind: 'anthropic',
      name: 'm-1',
      model: 'm',
      provider: 'anthropic',
      baseUrl: server.url,
      apiKey: 'key',
    });
    for (let i = 0; i < 2; i++) expect(await call(model, user('see', bad), answer, user('now', good))).toBe('fine');
    const sent = server.requests.map(({ body }) => JSON.stringify(body.messages));
    expect(sent.map((text) => text.includes(base64('BAD')))).toEqual([true, false, false]);
    expect(sent.map((text) => text.includes(base64('GOOD')))).toEqual([true, true, true]);
    const error = (await failure(call(model, user('see', good)))) as Error;
    expect(error).toMatchObject({ code: 'models.file_unsupported' });
    expect(error.message).toMatch(/"good.png" \(image\/png\).*Could not process image/);
    expect(server.requests).toHaveLength(4);
  });

  it('and texts that are too long are named only', async () => {
    await using server = await refusing(['LONGTEXT'], 400, "This model's maximum context length is 10 tokens.");
    const model = wireOf(server);
    expect(await call(model, user('see', long), answer, user('now'))).toBe('fine');
    expect(said(server, 1)).toContain('[file long.txt: left out');
    expect(server.requests).toHaveLength(2);
    expect(await failure(call(model, user('see', long)))).toMatchObject({ code: 'models.context_length' });
    expect(server.requests).toHaveLength(3);
  });

  it('is no reason to ask again for an error that is not about it', async () => {
    await using server = await refusing([base64('BAD')], 401, 'No such key');
    expect(await failure(call(wireOf(server), user('see', bad), answer, user('now')))).toMatchObject({
      code: 'models.auth',
    });
    await using other = await refusing(['LONGTEXT'], 400, 'bad request');
    expect(await failure(call(wireOf(other), user(long), answer, user('now')))).toMatchObject({
      code: 'models.bad_request',
    });
    expect([server.requests.length, other.requests.length]).toEqual([1, 1]);
  });
});

describe('a file of the current turn that the host refuses', () => {
  it.each([
    [400, 'image exceeds 5 MB maximum, secret-key-of-mine'],
    [400, 'messages[0]: bad image_url secret-key-of-mine'],
    [413, 'Payload too large secret-key-of-mine'],
  ])("is named with the host's masked message: %i %s", async (status, message) => {
    await using server = await refusing([base64('BAD')], status, message);
    const old = [user('see', good), answer];
    for (const before of [[], old]) {
      const error = (await failure(call(wireOf(server), ...before, user('now', bad)))) as Error;
      expect(error).toMatchObject({
        code: 'models.file_unsupported',
        status: 400,
        data: { file: 'bad.png', httpStatus: status },
      });
      expect(error.message).toContain('"bad.png" (image/png)');
      expect(error.message).toContain(message.replace('secret-key-of-mine', '[masked]'));
      expect(error.message).not.toContain('good.png');
    }
    expect(server.requests).toHaveLength(3);
  });

  it('does not hide what is wrong for another reason', async () => {
    await using server = await refusing(['"stream"'], 400, 'temperature must be 1');
    const error = await failure(call(wireOf(server), user('see', { ...good }), answer, user('now', good)));
    expect(error).toMatchObject({ code: 'models.bad_request' });
    expect(server.requests).toHaveLength(2);
  });
});

describe('a kind of files that the host turns out not to take', () => {
  const message = 'unknown variant `image_url`, expected `text`';

  it('is learned: later calls are asked once, and other kinds still go out', async () => {
    await using server = await refusing(['image_url'], 400, message);
    const model = wireOf(server);
    const history = [user('see', good, paper), answer];
    expect(await call(model, ...history, user('go on'))).toBe('fine');
    expect(server.requests).toHaveLength(2);
    expect(said(server, 1)).toContain('[image good.png: this model cannot see images]');
    const other: Message[] = [user('see', { ...good }, { ...paper }), answer, user('go on')];
    expect(await call(model, ...other)).toBe('fine');
    expect(server.requests).toHaveLength(3);
    expect(said(server, 2)).toContain('[image good.png: this model cannot see images]');
    expect(said(server, 2)).toContain(base64('PDF'));
    // Refused before it is sent.
    expect(await failure(call(model, user('see', good)))).toMatchObject({ code: 'models.file_unsupported' });
    expect(server.requests).toHaveLength(3);
  });

  it('is not learned of one bad image, nor of another model', async () => {
    await using server = await refusing([base64('BAD')], 400, 'Could not process image');
    const model = wireOf(server);
    expect(await call(model, user('see', bad), answer, user('go on'))).toBe('fine');
    expect(await call(model, user('see', good))).toBe('fine');
    expect(said(server, -1)).toContain(base64('GOOD'));
    await using blind = await refusing(['image_url'], 400, message);
    expect(await call(wireOf(blind), user('see', good), answer, user('go on'))).toBe('fine');
    expect(await call(wireOf(blind), user('see', good), answer, user('go on'))).toBe('fine');
    expect(blind.requests).toHaveLength(4);
  });

  it('ends a turn that has one', async () => {
    await using server = await refusing(['image_url'], 400, message);
    const error = await failure(call(wireOf(server), user('see', good)));
    expect(error).toMatchObject({ code: 'models.file_unsupported' });
    expect((error as Error).message).toContain('"good.png" (image/png)');
    expect(server.requests).toHaveLength(1);
  });
});
