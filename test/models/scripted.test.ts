import { describe, expect, it } from 'vitest';
import type { Json, Message } from '../../src/kernel/messages.ts';
import type { Model, ModelFinish, ModelPart, ToolSpec } from '../../src/kernel/model.ts';
import { createDemoModel, createScriptedModel } from '../../src/models/scripted.ts';

const never = new AbortController().signal;
const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] });
const tool = (name: string): ToolSpec => ({ name, description: name, schema: {} });
const tools = [tool('current_time'), tool('roll_dice'), tool('other')];

async function ask(model: Model, messages: Message[], offered: ToolSpec[] = []) {
  const parts: ModelPart[] = [];
  const request = { system: '', messages, tools: offered };
  const finish: ModelFinish = await model.call(request, never, (part) => parts.push(part));
  const join = (type: string) => parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join('');
  const calls = parts.filter((part) => part.type === 'tool_call');
  return { parts, finish, calls, text: join('text'), reasoning: join('reasoning') };
}

describe('a scripted model', () => {
  it('answers from a list, in order, and says when that has ended', async () => {
    const model = createScriptedModel(['one two ', { reasoning: 'hm', calls: [{ name: 'f', args: { a: 1 } }] }]);
    const first = await ask(model, [user('a')]);
    expect(first.parts).toEqual([
      { type: 'text', text: 'one' },
      { type: 'text', text: ' two' },
      { type: 'text', text: ' ' },
    ]);
    expect(first.finish).toMatchObject({ reason: 'stop', model: 'scripted', usage: { outputTokens: 3 } });
    const second = await ask(model, [user('b')]);
    expect(second.calls).toEqual([{ type: 'tool_call', id: 'call_0', name: 'f', args: '{"a":1}' }]);
    expect(second.finish.reason).toBe('tool_calls');
    await expect(ask(model, [user('c')])).rejects.toMatchObject({ code: 'models.error' });
    expect(model.requests).toHaveLength(3);
  });

  it('answers from a function of the request', async () => {
    const model = createScriptedModel(({ messages }, turn) => ({
      text: `${messages.length}/${turn}`,
      reason: 'length',
    }));
    expect(await ask(model, [user('a')])).toMatchObject({ text: '1/0', finish: { reason: 'length' } });
    expect((await ask(model, [user('a'), user('b')])).text).toBe('2/1');
  });

  it('throws where the script says so, after what it said', async () => {
    const parts: ModelPart[] = [];
    const model = createScriptedModel([{ text: 'a', error: new Error('broken') }]);
    const call = model.call({ system: '', messages: [user('x')], tools: [] }, never, (part) => parts.push(part));
    await expect(call).rejects.toThrow('broken');
    expect(parts).toHaveLength(1);
  });

  it('rejects with the reason of the signal, also while it waits', async () => {
    const controller = new AbortController();
    const model = createScriptedModel(() => 'a b c d e f', { paceMs: 20 });
    const parts: ModelPart[] = [];
    const request = { system: '', messages: [user('x')], tools: [] };
    const call = model.call(request, controller.signal, (part) => {
      parts.push(part);
      if (parts.length === 2) setTimeout(() => controller.abort('stopped'), 5);
    });
    await expect(call).rejects.toBe('stopped');
    expect(parts).toHaveLength(2);
    await expect(model.call(request, AbortSignal.abort('early'), () => undefined)).rejects.toBe('early');
  });
});

describe('MODEL-11: the demo model', () => {
  const model = createDemoModel({ paceMs: 0 });
  const result = (name: string, call: string, result: Json, isError = false): Message => ({
    role: 'tool',
    call,
    name,
    result,
    isError,
  });

  it('thinks, then calls the real tools, both at once', async () => {
    const { reasoning, calls, text, finish } = await ask(model, [user('Hello  there')], tools);
    expect(reasoning).toContain('Hello there');
    expect(calls.map(({ name, args }) => [name, JSON.parse(args)])).toEqual([
      ['current_time', {}],
      ['roll_dice', { sides: 6, count: 2 }],
    ]);
    expect(text).toBe('');
    expect(finish).toMatchObject({ reason: 'tool_calls', model: 'demo' });
  });

  it('answers with what the tools gave', async () => {
    const { text, calls } = await ask(
      model,
      [
        user('Hello'),
        { role: 'assistant', parts: [], model: 'demo' },
        result('current_time', 'a', { time: '12:34', zone: 'UTC' }),
        result('roll_dice', 'b', { rolls: [3, 5], total: 8 }),
        result('other', 'c', 'Denied.', true),
      ],
      tools,
    );
    expect(calls).toEqual([]);
    for (const said of ['Hello', 'scripted demo', 'time 12:34, zone UTC', 'rolls 3, 5, total 8', 'OPENAI_API_KEY']) {
      expect(text).toContain(said);
    }
    expect(text).toContain('it did not run: Denied.');
  });

  it('rolls the dice that were asked for', async () => {
    const { calls } = await ask(model, [user('roll 3d20 please')], tools);
    expect(JSON.parse(calls[1]!.args)).toEqual({ sides: 20, count: 3 });
  });

  it('says what it is where no tool is offered, and remembers the message before', async () => {
    const { text, calls, reasoning } = await ask(model, [
      user('first'),
      { role: 'assistant', parts: [{ type: 'text', text: 'x' }], model: 'demo' },
      user(`second ${'long '.repeat(50)}`),
    ]);
    expect(calls).toEqual([]);
    expect(reasoning).not.toBe('');
    expect(text).toMatch(/You wrote: "second long .*…"\. Before that: "first"/);
    expect(text).toContain('DEEPSEEK_API_KEY');
  });

  it('answers in Chinese to Chinese', async () => {
    const first = await ask(model, [user('现在几点？🦞')], tools);
    expect(first.reasoning).toContain('现在几点？🦞');
    expect(JSON.parse(first.calls[0]!.args)).toEqual({ zone: 'Asia/Shanghai' });
    const second = await ask(model, [user('现在几点？'), result('current_time', 'a', '12:34')], tools);
    expect(second.text).toContain('脚本演示模型');
    expect(second.text).toContain('- 时间: 12:34');
    expect(second.finish.usage.outputTokens).toBeGreaterThan(50);
  });

  it('runs what follows "$ " as a command where there is a sandbox, and says that it can', async () => {
    const model = createDemoModel({ paceMs: 0 });
    const { calls } = await ask(model, [user('$ echo hi; ls')], [...tools, tool('Bash')]);
    expect(calls).toMatchObject([{ name: 'Bash', args: '{"command":"echo hi; ls"}' }]);
    expect((await ask(model, [user('$ echo hi')], tools)).calls).toEqual([]);
    const result: Message = { role: 'tool', call: 'call_0', name: 'Bash', result: 'hi', isError: false };
    const { text } = await ask(model, [user('$ echo hi'), result], [...tools, tool('Bash')]);
    expect(text).toContain('- The command: hi');
    expect(text).toContain('try `$ ls');
  });
});
