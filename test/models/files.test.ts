// Files as model hosts get them: written out, as data, as a line, or refused.
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/kernel/errors.ts';
import type { FilePart, Message } from '../../src/kernel/messages.ts';
import type { ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import { actionOf } from '../../src/models/actions.ts';
import { encodePrompt } from '../../src/models/ai-sdk-encode.ts';
import { toProviderError } from '../../src/models/errors.ts';
import type { FileKind } from '../../src/models/files.ts';
import { defaultFiles, hasFiles, showFiles } from '../../src/models/files.ts';
import { encodeRequest } from '../../src/models/openai-encode.ts';
import { modelsConfig } from '../../src/models/config.ts';
import { createRouter } from '../../src/models/router.ts';
import { createModelServer } from '../../src/testing/model-server.ts';

const never = new AbortController().signal;
const config = { model: 'm', hasUsage: false, hasReasoning: false };
const host = (...takes: FileKind[]) => ({ provider: 'host', name: 'm-1', takes, refused: new WeakSet<FilePart>() });
const quiet = { signal: never, on: () => undefined };
const user = (...parts: (FilePart | string)[]): Message => ({
  role: 'user',
  parts: parts.map((part) => (typeof part === 'string' ? { type: 'text', text: part } : part)),
});
const answer: Message = { role: 'assistant', model: 'm', parts: [{ type: 'text', text: 'ok' }] };
const contents = new Map<string, Uint8Array>();

function file(name: string, mime: string, content: string | Uint8Array = name): FilePart {
  const bytes = Buffer.from(content);
  contents.set(name, bytes);
  return { type: 'file', id: name, name, mime, bytes: bytes.length };
}

const ask = (...messages: Message[]): ModelRequest => ({
  system: '',
  messages,
  tools: [],
  load: ({ id }) => (contents.has(id) ? Promise.resolve(contents.get(id)!) : Promise.reject(new Error('gone'))),
});

async function wire(request: ModelRequest, ...takes: FileKind[]): Promise<unknown[]> {
  const files = await showFiles(request, host(...takes), quiet);
  const body = JSON.parse(encodeRequest(request, { ...config, files })) as { messages: { content: unknown }[] };
  return body.messages.map(({ content }) => content);
}

async function prompt(request: ModelRequest, ...takes: FileKind[]): Promise<unknown[]> {
  const files = await showFiles(request, host(...takes), quiet);
  return encodePrompt(request, 'none', files).map(({ content }) => content);
}

const photo = file('photo.png', 'image/png', Buffer.from([0x89, 0x50, 0, 255]));
const paper = file('paper.pdf', 'application/pdf', '%PDF-1.7');
const url = 'data:image/png;base64,iVAA/w==';

describe('a file', () => {
  it.each([
    'text/plain',
    'text/x-python',
    'application/json',
    'application/ld+json',
    'image/svg+xml',
    'application/yaml',
  ])('of type %s is written out for every host', async (mime) => {
    const request = ask(user('See', file('a b', mime, 'one\ntwo')));
    const text = `See\n[file a b (${mime}, 7 bytes)]\none\ntwo`;
    expect(await wire(request)).toEqual([text]);
    expect(await prompt(request)).toEqual([[{ type: 'text', text }]]);
  });

  it('that is a long text is shown by head and tail, cut in no character', async () => {
    const long = `HEAD${'😀'.repeat(150_000)}TAIL`;
    const [text] = (await wire(ask(user(file('long.txt', 'text/plain', long))))) as string[];
    expect(Buffer.byteLength(text!)).toBeLessThan(200_200);
    expect(text).toMatch(/^\[file long\.txt \(text\/plain, 600008 bytes\)\]\nHEAD😀/);
    expect(text).toMatch(/\n\[\.\.\. 20000\d characters left out \.\.\.\]\n(😀)+TAIL$/u);
    expect(text!.isWellFormed()).toBe(true);
    const exact = 'x'.repeat(200_000);
    expect(await wire(ask(user(file('exact.txt', 'text/plain', exact))))).toEqual([
      `[file exact.txt (text/plain, 200000 bytes)]\n${exact}`,
    ]);
  });

  it('in UTF-16 is read as such, and what is no UTF-8 does not break the request', async () => {
    const utf16 = Buffer.from('\ufeffGrüße', 'utf16le');
    const [text] = await wire(ask(user(file('w.txt', 'text/plain', utf16))));
    expect(text).toContain('\nGrüße');
    const [other] = await wire(ask(user(file('l.txt', 'text/plain', Buffer.from([0x47, 0xfc, 0x62])))));
    expect(other).toContain('\nG\ufffdb');
  });

  it('that is an image goes as data to a host that takes it, in its place between the texts', async () => {
    const request = ask(user('one', photo, 'two', 'three'));
    expect(await wire(request, 'image')).toEqual([
      [
        { type: 'text', text: 'one' },
        { type: 'image_url', image_url: { url } },
        { type: 'text', text: 'two\nthree' },
      ],
    ]);
    expect(await prompt(request, 'image')).toEqual([
      [
        { type: 'text', text: 'one' },
        {
          type: 'file',
          filename: 'photo.png',
          mediaType: 'image/png',
          data: { type: 'data', data: contents.get('photo.png') },
        },
        { type: 'text', text: 'two\nthree' },
      ],
    ]);
    expect(await prompt(ask(user(' ', photo)), 'image')).toMatchObject([[{ type: 'file' }]]);
  });

  it('that is a PDF goes with its name', async () => {
    const data = `data:application/pdf;base64,${Buffer.from('%PDF-1.7').toString('base64')}`;
    expect(await wire(ask(user(paper)), 'pdf')).toEqual([
      [{ type: 'file', file: { filename: 'paper.pdf', file_data: data } }],
    ]);
    expect(await prompt(ask(user(paper)), 'pdf')).toMatchObject([
      [{ type: 'file', filename: 'paper.pdf', mediaType: 'application/pdf' }],
    ]);
  });

  it.each<[FilePart, FileKind[], string]>([
    [photo, ['pdf'], '[image photo.png: this model cannot see images]'],
    [paper, ['image'], '[PDF paper.pdf: this model cannot read PDF files]'],
    [
      file('a.zip', 'application/zip'),
      ['image', 'pdf'],
      '[file a.zip (application/zip): this model cannot read such files]',
    ],
    [file('a.tiff', 'image/tiff'), ['image', 'pdf'], '[file a.tiff (image/tiff): this model cannot read such files]'],
  ])('that the host does not take is refused in its turn, and named later on: $name', async (part, takes, line) => {
    let loads = 0;
    const load = () => Promise.resolve((loads++, new Uint8Array()));
    const now = { ...ask(user('old'), answer, user('see', part)), load };
    await expect(showFiles(now, host(...takes), quiet)).rejects.toMatchObject({
      code: 'models.file_unsupported',
      status: 400,
      retryable: false,
      message: expect.stringContaining(`"${part.name}" (${part.mime})`) as string,
    });
    expect(loads).toBe(0);
    expect(await wire(ask(user('see', part), answer, user('go on')), ...takes)).toEqual([
      `see\n${line}`,
      'ok',
      'go on',
    ]);
    // Steps of a turn are of that turn: its file is refused then, too.
    const step: Message[] = [
      { role: 'assistant', model: 'm', parts: [{ type: 'tool_call', id: 'a', name: 'f', args: {} }] },
      { role: 'tool', call: 'a', name: 'f', result: 'x', isError: false },
    ];
    await expect(wire(ask(user(part), ...step), ...takes)).rejects.toThrow(part.name);
  });

  it('that cannot be loaded is refused by name in its turn, and told with a warning later on', async () => {
    const gone: FilePart = { type: 'file', id: 'nowhere', name: 'gone\n.png', mime: 'image/png', bytes: 3 };
    const text: FilePart = { ...gone, name: 'gone.txt', mime: 'text/plain' };
    for (const part of [gone, text]) {
      const refused: unknown = await wire(ask(user('see', part)), 'image').catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: 'models.file_unsupported', hint: 'Send the file again.' });
      expect((refused as Error).message).toMatch(
        /^The file "gone ?\.(png|txt)" .* cannot be read: gone Send it again\.$/,
      );
      expect((refused as Error).cause).toMatchObject({ message: 'gone' });
    }
    const parts: ModelPart[] = [];
    const showing = { signal: never, on: (part: ModelPart) => void parts.push(part) };
    const later = ask(user('see', gone, text), answer, user('go on'));
    const files = await showFiles(later, host('image'), showing);
    const line = (name: string) => ({ type: 'text', text: `[file ${name}: its content is not available any more]` });
    expect([...files.values()]).toEqual([line('gone .png'), line('gone.txt')]);
    expect(parts).toMatchObject(
      ['gone .png', 'gone.txt'].map((name) => ({ type: 'warning', code: 'models.file_missing', data: { name } })),
    );
    // Told once a turn, not with each of its steps.
    await showFiles({ ...later, messages: [...later.messages, answer] }, host('image'), showing);
    expect(parts).toHaveLength(2);
  });

  it('is not waited for when the call ends: an abort while loading is an abort', async () => {
    const gone: FilePart = { type: 'file', id: 'nowhere', name: 'gone.png', mime: 'image/png', bytes: 3 };
    const controller = new AbortController();
    const request = ask(user(gone));
    request.load = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped reading'))));
    const shown = showFiles(request, host('image'), { ...quiet, signal: controller.signal });
    const reason = new Error('enough');
    controller.abort(reason);
    await expect(shown).rejects.toBe(reason);
  });

  it('is shown by name where nothing can load it', () => {
    const { load: _, ...request } = ask(user('See', photo));
    expect(hasFiles(request)).toBe(false);
    expect(encodeRequest(request, config)).toContain('See\\n[file photo.png (image/png, 4 bytes)]');
  });

  it('and others are too large together: the older ones are named, those of the turn refused', async () => {
    const large = (name: string): FilePart => ({ ...photo, name, bytes: 10_000_000 });
    const [a, b, c] = ['a', 'b', 'c'].map(large);
    const older = '[file a: left out, as the files of this conversation are too large together]';
    const [first, , second] = await wire(ask(user(a!), answer, user(b!), answer, user(c!)), 'image');
    const [, , third, , fourth] = await wire(ask(user(a!), answer, user(b!), answer, user(c!)), 'image');
    expect(first).toBe(older);
    for (const content of [second, third, fourth].slice(1)) expect(content).toMatchObject([{ type: 'image_url' }]);
    await expect(wire(ask(user(a!, b!, c!)), 'image')).rejects.toMatchObject({
      code: 'models.file_unsupported',
      hint: 'Send fewer or smaller files at once.',
    });
  });
});

describe('texts that are long together', () => {
  const long = (name: string) => file(name, 'text/plain', 'x'.repeat(90_000));
  const [a, b, c] = ['a', 'b', 'c'].map(long);
  const left = '[file a: left out, as the files of this conversation are too large together]';
  const lengths = (contents: unknown[]) => contents.map((content) => (content as string).length);

  it('are shown within one limit in their turn, and within another one later on, the newest first', async () => {
    const [all] = lengths(await wire(ask(user(a!, b!, c!))));
    expect(all).toBeGreaterThan(199_000);
    expect(all).toBeLessThan(200_500);
    const old = await wire(ask(user(a!), answer, user(b!), answer, user(c!), answer, user('go on')));
    expect(old[0]).toBe(left);
    const [, , second, , third] = lengths(old);
    expect(third).toBe(90_035);
    expect(second).toBeGreaterThan(30_000);
    expect(second).toBeLessThan(30_200);
  });

  it.each([1000, 20_000, 100_000])('stay within a window of %i tokens together with the messages', async (tokens) => {
    for (const said of [0, 0.1, 0.3, 0.6, 0.74, 0.9]) {
      const text = 'y'.repeat(Math.floor(tokens * 3 * said));
      for (const messages of [
        [user(text), answer, user('now', a!, b!, c!)],
        [user(a!), answer, user(b!, text), answer, user('now', c!)],
        [user(text, a!), answer, user(b!, c!), answer, user('go on')],
      ]) {
        const sizes = lengths(await wire({ ...ask(...messages), windowTokens: tokens }));
        expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(tokens * 3);
      }
    }
  });

  it('are shown to the same length while a turn goes on', async () => {
    const steps = Array.from({ length: 6 }, () => ({
      ...answer,
      parts: [{ type: 'text' as const, text: 'z'.repeat(5000) }],
    }));
    const shown = async (n: number) => {
      const request = { ...ask(user(a!, b!, c!), ...steps.slice(0, n)), windowTokens: 50_000 };
      return (await wire(request))[0];
    };
    const first = await shown(0);
    for (let n = 1; n <= 6; n++) expect(await shown(n)).toBe(first);
  });
});

describe('a request without files', () => {
  it('asks nothing of the loader and is encoded at once, to the same bytes', () => {
    const request = { ...ask(user('a'), answer, user('b')), load: () => Promise.reject(new Error('not asked')) };
    expect(hasFiles(request)).toBe(false);
    const { load: _, ...plain } = request;
    expect(encodeRequest(request, config)).toBe(encodeRequest(plain, config));
  });

  it('is encoded to the same bytes beside one that has files', async () => {
    const first = user('a');
    const alone = encodeRequest(ask(first, answer), config);
    const files = await showFiles(ask(first, answer, user(photo)), host('image'), quiet);
    const both = encodeRequest(ask(first, answer, user(photo)), { ...config, files });
    const messages = (text: string) => (JSON.parse(text) as { messages: unknown[] }).messages;
    expect(messages(both)[0]).toEqual(messages(alone)[0]);
    expect(encodeRequest(ask(first, answer), config)).toBe(alone);
  });
});

describe('a refusal of images by the host', () => {
  it.each([
    'Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text`',
    'Invalid content type. image_url is only supported by certain models.',
    'This model does not support image input.',
    'No endpoints found that support image input',
    'deepseek-chat is not a multimodal model',
    'At most 0 image(s) may be provided in one request.',
    'Image inputs are not supported by this model.',
    'Unsupported content type "image_url" in messages[1]',
    'messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes',
    'Could not process image',
    'You uploaded an unsupported image. Please make sure your image is valid.',
    'Invalid image data',
    'The image data you provided does not represent a valid image.',
    'A maximum of 100 PDF pages may be provided.',
    'messages.0.content.0.pdf: The PDF specified was not valid.',
    'The PDF specified is password protected.',
    'Unable to process input image. Please retry.',
  ])('%s', (message) => {
    const error = toProviderError({ provider: 'h', status: 400, body: { error: { message } } });
    expect(error).toMatchObject({ code: 'models.file_unsupported', status: 400, retryable: false });
    expect(actionOf(error, false)).toBe('next');
  });

  it.each([
    [500, 'image exceeds 5 MB maximum'],
    [400, 'The image of the tool schema is missing'],
    [400, 'tool_choice is not supported'],
    [400, 'This model does not support tools'],
    [500, 'This model does not support image input.'],
    [429, 'Too many images'],
  ])('is not: %i %s', (status, message) => {
    const error = toProviderError({ provider: 'h', status, body: { error: { message } } });
    expect(error.code).not.toBe('models.file_unsupported');
  });
});

it('what a host takes is configured, or known by its name and address', async () => {
  await using server = await createModelServer([[{ text: 'fine' }]]);
  const hosts = {
    deepseek: { baseUrl: server.url },
    other: { baseUrl: server.url, models: ['other'] },
    papers: { baseUrl: server.url, models: ['papers'], files: ['pdf' as const] },
  };
  const router = createRouter(modelsConfig.parse({ hosts }), { OPENAI_BASE_URL: server.url });
  const takes = async (name: string, part: FilePart) => {
    const asked = router.resolve(name).call(ask(user(part)), never, () => undefined);
    return await asked.then(
      () => true,
      (error: unknown) => (error as AgentError).code,
    );
  };
  const no = 'models.file_unsupported';
  expect(await Promise.all([takes('deepseek-chat', photo), takes('deepseek-chat', paper)])).toEqual([no, no]);
  expect(await Promise.all([takes('other', photo), takes('other', paper)])).toEqual([true, no]);
  expect(await Promise.all([takes('papers', photo), takes('papers', paper)])).toEqual([no, true]);
  // An address of one's own speaks OpenAI's protocol, and need not know its PDF files.
  expect(await Promise.all([takes('gpt-x', photo), takes('gpt-x', paper)])).toEqual([true, no]);
});

it.each<[string, readonly FileKind[]]>([
  ['deepseek', []],
  ['openai', ['image', 'pdf']],
  ['anthropic', ['image', 'pdf']],
  ['qwen', ['image']],
  ['anything', ['image']],
])('by default %s takes %j', (name, expected) => expect(defaultFiles(name)).toEqual(expected));
