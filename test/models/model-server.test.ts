import { describe, expect, it } from 'vitest';
import type { Message } from '../../src/kernel/messages.ts';
import type { ModelPart } from '../../src/kernel/model.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { WireMessage } from '../../src/testing/model-server.ts';
import { createModelServer, problemOf } from '../../src/testing/model-server.ts';

const never = new AbortController().signal;
const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] });

async function ask(url: string, messages: Message[]): Promise<string> {
  const model = createOpenAIWireModel({ name: 'm', model: 'm', provider: 'host', baseUrl: url });
  const said: string[] = [];
  const on = (part: ModelPart) => {
    if (part.type === 'text') said.push(part.text);
    if (part.type === 'reasoning') said.push(`<${part.text}>`);
    if (part.type === 'tool_call') said.push(`[${part.name} ${part.args}]`);
  };
  await model.call({ system: '', messages, tools: [] }, never, on);
  return said.join('');
}

describe('the default script', () => {
  it('does what the last user message says', async () => {
    await using server = await createModelServer(undefined, { isStrict: true });
    expect(await ask(server.url, [user('hello')])).toBe('You said: hello');
    expect(await ask(server.url, [user('think hm\ncall time {"z":1}\ncall dice')])).toBe('<hm>[time {"z":1}][dice {}]');
    await expect(ask(server.url, [user('status 500')])).rejects.toMatchObject({ code: 'models.unavailable' });
    await expect(ask(server.url, [user('cut')])).rejects.toMatchObject({ retryable: true });
    const messages: Message[] = [
      user('call time'),
      { role: 'assistant', model: 'm', parts: [{ type: 'tool_call', id: 'a', name: 'time', args: {} }] },
      { role: 'tool', call: 'a', name: 'time', result: 'noon', isError: false },
    ];
    expect(await ask(server.url, messages)).toBe('Results: noon');
    expect(server.requests).toHaveLength(5);
  });
});

describe('a strict server', () => {
  const said: WireMessage = { role: 'user', content: 'hi' };
  const called = (...ids: string[]): WireMessage => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map((id) => ({ id, function: { name: 'f', arguments: '{}' } })),
  });
  const result = (id: string): WireMessage => ({ role: 'tool', tool_call_id: id, content: 'r' });

  it.each<[string, WireMessage[], string | undefined]>([
    ['a plain history', [{ role: 'system', content: 's' }, said, { role: 'assistant', content: 'a' }, said], undefined],
    ['calls with results in any order', [said, called('a', 'b'), result('b'), result('a')], undefined],
    ['the same id in two messages', [said, called('a'), result('a'), called('a'), result('a')], undefined],
    ['an orphan result', [said, result('a')], 'has no call'],
    ['a second result', [said, called('a'), result('a'), result('a')], 'has no call'],
    ['a late result', [said, called('a'), said, result('a')], 'have no result'],
    ['a call without a result', [said, called('a', 'b'), result('a')], 'b have no result'],
    [
      'an answer first',
      [
        { role: 'system', content: 's' },
        { role: 'assistant', content: 'a' },
      ],
      'role assistant',
    ],
    ['nothing', [], 'not user'],
    ['duplicate ids', [said, called('a', 'a'), result('a'), result('a')], 'same id'],
  ])('%s', (_, messages, problem) => {
    expect(problemOf(messages) ?? 'none').toContain(problem ?? 'none');
  });

  it('answers 400', async () => {
    await using server = await createModelServer(undefined, { isStrict: true });
    const body = JSON.stringify({ model: 'm', messages: [said, result('a')] });
    expect(await fetch(`${server.url}/chat/completions`, { method: 'POST', body })).toMatchObject({ status: 400 });
  });
});
