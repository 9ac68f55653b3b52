// Anthropic's prompt cache, and files, as they go over its wire.
import { describe, expect, it } from 'vitest';
import type { FilePart, Message } from '../../src/kernel/messages.ts';
import type { ModelRequest } from '../../src/kernel/model.ts';
import { encodePrompt, withCacheMarks } from '../../src/models/ai-sdk-encode.ts';
import { createPackageModel } from '../../src/models/ai-sdk.ts';
import type { PackageKind } from '../../src/models/ai-sdk-packages.ts';
import { begin, createMessagesServer, end, refuse, stream, textBlock } from './messages-server.ts';

const fine = stream(begin, ...textBlock(0, 'fine'), ...end());
const user = (text: string, ...files: FilePart[]): Message => ({
  role: 'user',
  parts: [{ type: 'text', text }, ...files],
});
const says = (text: string): Message => ({ role: 'assistant', model: 'm', parts: [{ type: 'text', text }] });
const calls = (...ids: string[]): Message[] => [
  { role: 'assistant', model: 'm', parts: ids.map((id) => ({ type: 'tool_call', id, name: 'f', args: {} })) },
  ...ids.map((call): Message => ({ role: 'tool', call, name: 'f', result: `of ${call}`, isError: false })),
];
const tools = [{ name: 'f', description: 'F', schema: {} }];
const ask = (messages: Message[], more: Partial<ModelRequest> = {}): ModelRequest => ({
  system: 'Be good.',
  messages,
  tools,
  ...more,
});

interface Wire {
  system?: Block[];
  messages: { role: string; content: Block[] }[];
}
type Block = { type: string; text?: string; cache_control?: object; source?: object; title?: string };

async function send(requests: ModelRequest[], kind: PackageKind = 'anthropic', reply = fine): Promise<Wire[]> {
  await using server = await createMessagesServer(reply);
  const model = createPackageModel({ kind, name: 'm', model: 'm', provider: kind, apiKey: 'k', baseUrl: server.url });
  for (const request of requests) {
    // What the host says is of no concern here.
    await model.call(request, new AbortController().signal, () => undefined).catch(() => undefined);
  }
  return server.requests.map(({ body }) => body as Wire);
}

/** Message and block of each mark; the system prompt is message -1. */
function marksOf({ system = [], messages }: Wire): string[] {
  const blocks = [{ content: system }, ...messages].flatMap(({ content }, m) =>
    content.map((block, b) => ({ ...block, at: `${m - 1}.${b}` })),
  );
  for (const { cache_control: mark } of blocks) if (mark) expect(mark).toEqual({ type: 'ephemeral' });
  return blocks.filter((block) => block.cache_control).map(({ at }) => at);
}

const blocksOf = ({ messages }: Wire) =>
  messages.flatMap(({ role, content }) =>
    content.map((block) => JSON.stringify({ role, ...block, cache_control: undefined })),
  );

describe('marks for the prompt cache of Anthropic', () => {
  const first = user('one');
  const turns = [
    [first],
    [first, ...calls('a', 'b')],
    [first, ...calls('a', 'b'), says('two'), user('three')],
    [first, ...calls('a', 'b'), says('two'), user('three'), ...calls('c'), ...calls('d')],
    [first, ...calls('a', 'b'), says('two'), user('three'), ...calls('c'), ...calls('d'), says('4'), user('5')],
  ];

  it('stand behind the system prompt, at the two newest messages of the user, and at the end', async () => {
    const wires = await send(turns.map((messages) => ask(messages)));
    expect(wires.map(marksOf)).toEqual([
      ['-1.0', '0.0'],
      ['-1.0', '0.0', '2.1'],
      ['-1.0', '0.0', '4.0'],
      ['-1.0', '0.0', '4.0', '8.0'],
      ['-1.0', '4.0', '10.0'],
    ]);
  });

  it('are no part of what is said: each request begins with the one before, byte for byte', async () => {
    const wires = await send(turns.map((messages) => ask(messages)));
    for (const [i, wire] of wires.entries()) {
      const before = i ? blocksOf(wires[i - 1]!) : [];
      expect(blocksOf(wire).slice(0, before.length)).toEqual(before);
    }
    // Each end that was marked is a place that the next request passes: there the cache is found.
    for (const [i, wire] of wires.slice(1).entries()) {
      const [m = 0, b = 0] = marksOf(wires[i]!).at(-1)!.split('.').map(Number);
      expect(wire.messages[m]?.content[b]).toBeDefined();
    }
  });

  it('are put on copies, and without a system prompt there are none on it', async () => {
    const request = ask(turns[2]!, { system: '' });
    const prompt = encodePrompt(request, 'none');
    const text = JSON.stringify(prompt);
    const marked = withCacheMarks(prompt);
    expect(JSON.stringify(prompt)).toBe(text);
    expect(JSON.stringify(encodePrompt(request, 'none'))).toBe(text);
    expect(marked.map((message, i) => message === prompt[i])).toEqual([false, true, true, true, true, false]);
    expect((await send([request])).map(marksOf)).toEqual([['0.0', '4.0']]);
  });

  it('are for Anthropic only', async () => {
    const [wire] = await send([ask(turns[3]!)], 'alibaba');
    expect(wire!.messages).toHaveLength(11);
    expect(JSON.stringify(wire)).not.toContain('cache_control');
  });
});

describe('files for Anthropic', () => {
  const file = (name: string, mime: string): FilePart => ({ type: 'file', id: name, name, mime, bytes: 4 });
  const load: ModelRequest['load'] = ({ name }) => Promise.resolve(Buffer.from(name));
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const parts = [file('a.webp', 'image/webp'), file('b.pdf', 'application/pdf'), file('c.csv', 'text/csv')];

  it('go as image, document and text; the mark is on the last part', async () => {
    const [wire] = await send([ask([user('see', ...parts)], { load })]);
    expect(wire!.messages[0]!.content).toEqual([
      { type: 'text', text: 'see' },
      { type: 'image', source: { type: 'base64', media_type: 'image/webp', data: base64('a.webp') } },
      {
        type: 'document',
        title: 'b.pdf',
        source: { type: 'base64', media_type: 'application/pdf', data: base64('b.pdf') },
      },
      { type: 'text', text: '[file c.csv (text/csv, 4 bytes)]\nc.csv', cache_control: { type: 'ephemeral' } },
    ]);
  });

  it('that the host refuses are named when they are of an earlier turn', async () => {
    const refusal = refuse(400, 'invalid_request_error', 'This model does not support image input.');
    const wires = await send([ask([user('see', ...parts), says('ok'), user('go on')], { load })], 'anthropic', refusal);
    expect(wires.map(({ messages }) => messages[0]!.content.map(({ type }) => type))).toEqual([
      ['text', 'image', 'document', 'text'],
      ['text'],
    ]);
    expect(wires[1]!.messages[0]!.content[0]!.text).toContain(
      'see\n[image a.webp: this model cannot see images]\n[PDF',
    );
    expect(await send([ask([user('see', ...parts)], { load })], 'anthropic', refusal)).toHaveLength(1);
  });

  it('go to OpenAI through its package, and to DeepSeek not at all', async () => {
    const [wire] = await send([ask([user('see', ...parts)], { load })], 'openai');
    const text = JSON.stringify(wire);
    expect(text).toContain(`"image_url":"data:image/webp;base64,${base64('a.webp')}"`);
    expect(text).toContain(`"filename":"b.pdf","file_data":"data:application/pdf;base64,${base64('b.pdf')}"`);
    expect(await send([ask([user('see', ...parts)], { load })], 'deepseek')).toEqual([]);
  });
});
