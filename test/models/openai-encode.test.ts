import { describe, expect, it } from 'vitest';
import type { Message } from '../../src/kernel/messages.ts';
import type { ToolSpec } from '../../src/kernel/model.ts';
import { encodeRequest } from '../../src/models/openai-encode.ts';

const encode = (messages: Message[], tools: ToolSpec[] = [], system = ''): Record<string, unknown> =>
  JSON.parse(encodeRequest({ system, messages, tools }, { model: 'm"x', hasUsage: true, hasReasoning: false }));

const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] });

describe('a request to a chat-completions host', () => {
  it('has model, system, stream options, and no tools where there are none', () => {
    expect(encode([user('你好 "q"\n')], [], 'Be good.')).toEqual({
      model: 'm"x',
      stream: true,
      stream_options: { include_usage: true },
      messages: [
        { role: 'system', content: 'Be good.' },
        { role: 'user', content: '你好 "q"\n' },
      ],
    });
    const request = { system: '', messages: [user('a')], tools: [] };
    expect(encodeRequest(request, { model: 'm', hasUsage: false, hasReasoning: false })).not.toContain(
      'stream_options',
    );
  });

  it('shows a file by its name, kind and size', () => {
    const file = { type: 'file' as const, id: 'f1', name: 'a\nb.pdf', mime: 'application/pdf', bytes: 12 };
    const [message] = messagesOf(encode([{ role: 'user', parts: [{ type: 'text', text: 'See' }, file] }]));
    expect(message).toEqual({ role: 'user', content: 'See\n[file a b.pdf (application/pdf, 12 bytes)]' });
  });

  it('sends calls and results as pairs, without reasoning', () => {
    const messages = messagesOf(
      encode([
        user('hi'),
        {
          role: 'assistant',
          model: 'm',
          parts: [
            { type: 'reasoning', text: 'hm' },
            { type: 'tool_call', id: 'a', name: 'time', args: { zone: 'UTC' } },
            { type: 'tool_call', id: 'b', name: 'no such.tool', args: null, raw: '{"cut' },
            { type: 'tool_call', id: 'c', name: '', args: [1] },
          ],
        },
        { role: 'tool', call: 'a', name: 'time', result: 'noon', isError: false },
        { role: 'tool', call: 'b', name: 'no such.tool', result: { a: [1] }, isError: true },
        { role: 'tool', call: 'c', name: '', result: null, isError: false },
        { role: 'assistant', model: 'm', parts: [{ type: 'text', text: 'It is noon.' }] },
        { role: 'assistant', model: 'm', parts: [{ type: 'reasoning', text: 'only' }] },
        user('thanks'),
      ]),
    );
    const fn = (id: string, name: string, args: string) => ({
      id,
      type: 'function',
      function: { name, arguments: args },
    });
    expect(messages).toEqual([
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [fn('a', 'time', '{"zone":"UTC"}'), fn('b', 'no_such_tool', '{}'), fn('c', 'unknown', '{}')],
      },
      { role: 'tool', tool_call_id: 'a', content: 'noon' },
      { role: 'tool', tool_call_id: 'b', content: '{"a":[1]}' },
      { role: 'tool', tool_call_id: 'c', content: 'null' },
      { role: 'assistant', content: 'It is noon.' },
      { role: 'user', content: 'thanks' },
    ]);
  });

  it('sends tools as functions with an object schema', () => {
    const tools: ToolSpec[] = [
      { name: 'time', description: 'Now', schema: {} },
      { name: 'dice', description: 'Roll', schema: { type: 'object', properties: { sides: { type: 'integer' } } } },
    ];
    expect(encode([user('a')], tools).tools).toEqual([
      {
        type: 'function',
        function: { name: 'time', description: 'Now', parameters: { type: 'object', properties: {} } },
      },
      { type: 'function', function: { name: 'dice', description: 'Roll', parameters: tools[1]!.schema } },
    ]);
  });

  it('never sends half a character', () => {
    const text = encodeRequest(
      { system: 'a\ud83e', messages: [user('b\ud83e')], tools: [] },
      { model: 'm', hasUsage: true, hasReasoning: false },
    );
    expect(text).not.toContain('ud83e');
  });

  it('makes the text of a message once', () => {
    let reads = 0;
    const message: Message = {
      role: 'user',
      get parts() {
        reads++;
        return [{ type: 'text' as const, text: 'x' }];
      },
    };
    const first = encode([message]);
    const before = reads;
    expect(encode([message])).toEqual(first);
    expect(reads).toBe(before);
  });
});

function messagesOf({ messages }: Record<string, unknown>): unknown[] {
  return Array.isArray(messages) ? messages : [];
}
