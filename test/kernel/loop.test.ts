import { describe, expect, it } from 'vitest';
import type { AgentConfig, AgentEvent, Model } from '../../src/kernel/index.ts';
import { AgentError, callsOf, createAgent, createMemoryJournal, isTerminal, textOf } from '../../src/kernel/index.ts';
import { specsOf } from '../../src/kernel/assembly.ts';
import { shapeFaults } from './prompt-faults.ts';
import type { ScriptedModel, Turn } from './scripted.ts';
import {
  call,
  collect,
  forever,
  moment,
  only,
  say,
  scripted,
  sleep,
  think,
  tool,
  types,
  until,
  untilStopped,
} from './scripted.ts';

const web = { tenant: 'default', owner: 'owner', conversation: 'web' };

/** An agent with a journal to look into; its only tool is `look`. */
function setUp(turns: Turn[], more: Partial<AgentConfig> = {}) {
  const model = scripted(...turns);
  const journal = createMemoryJournal();
  const look = tool('look', () => 'seen');
  const agent = createAgent({ model, journal, tools: [look], log: { warn: () => {}, error: () => {} }, ...more });
  const run = (text: string, input: object = {}) => collect(agent.run({ conversation: 'web', text, ...input }));
  const kinds = async () => (await journal.history(web, { seq: 0, bytes: 0 })).map(({ kind }) => kind);
  return { model, journal, agent, run, kinds, [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
}

const told = (model: ScriptedModel, at = -1) =>
  model.requests.at(at)!.messages.map((message) => {
    if (message.role === 'tool') return `result: ${String(message.result)}`;
    const calls = callsOf(message.parts).map(({ id }) => ` ${id}`);
    return `${message.role}: ${textOf(message.parts)}${calls.join('')}`;
  });

const failure = (code = 'models.unavailable') =>
  new AgentError(code, { status: 500, hint: 'Wait.' }, 'It answered 500');
const fails: Turn = () => Promise.reject(failure());

describe('a run', () => {
  it('streams, records and ends with one event', async () => {
    await using it = setUp([[think('hm'), say('Hel'), say('lo')]]);
    const events = await it.run('hi');
    expect(types(events)).toEqual(['run_start', 'reasoning', 'token', 'token', 'usage', 'run_end']);
    expect(events.at(-1)).toMatchObject({ reason: 'done', usage: { inputTokens: 10, outputTokens: 1 } });
    expect(await it.kinds()).toEqual(['user', 'assistant']);
  });

  it('hands the same list of tools to the model in each step of each turn', async () => {
    const seen: unknown[] = [];
    const inner = scripted([call('a', 'look')], [say('ok')], [say('ok')]);
    const model: Model = {
      name: 'm',
      call: (request, ...rest) => (seen.push(request.tools), inner.call(request, ...rest)),
    };
    await using it = setUp([], { model });
    for (const text of ['hi', 'again']) await it.run(text);
    const [first, ...others] = seen;
    expect(first).toMatchObject([{ name: 'look' }]);
    expect(others).toHaveLength(2);
    for (const tools of others) expect(tools).toBe(first);
  });

  it('hands over another list where the tools are others', () => {
    const tools = new Map([['look', tool('look', () => 'seen')]]);
    const first = specsOf(tools);
    expect(specsOf(tools)).toBe(first);
    expect(specsOf(new Map(tools))).not.toBe(first);
    for (const name of ['look', 'other']) {
      tools.set(
        name,
        tool(name, () => 'new'),
      );
      expect(specsOf(tools)).toEqual([...tools.values()].map(({ spec }) => spec));
      expect(specsOf(tools)).not.toBe(first);
    }
  });

  const ends: [string, Turn[], Partial<AgentConfig>, string][] = [
    ['an answer', [[say('ok')]], {}, 'done'],
    ['an answer after tools', [[call('a', 'look')], [say('ok')]], {}, 'done'],
    ['the length limit of its host', [({ on }) => (on(say('cut')), Promise.resolve('length'))], {}, 'length'],
    ['a filter of its host', [() => Promise.resolve('content_filter')], {}, 'content_filter'],
    ['its limit of steps', [[call('a', 'look')]], { limits: { steps: 3 } }, 'max_steps'],
    ['its time limit in a model call', [forever], { limits: { runMs: 20 } }, 'run.timeout'],
    ['a failing model', [fails], {}, 'models.unavailable'],
    [
      'a model that fails in mid-answer',
      [({ on }) => (on(say('cut')), Promise.reject(failure()))],
      {},
      'models.unavailable',
    ],
    ['a model that throws anything', [() => Promise.reject(new TypeError('bug'))], {}, 'run.failed'],
    [
      'a failing middleware',
      [[say('ok')]],
      { middleware: [{ name: 'x', model: () => Promise.reject(failure('x.y')) }] },
      'x.y',
    ],
    ['nothing said, twice', [[]], {}, 'run.empty_answer'],
  ];
  it.each(ends)('ends with exactly one terminal event: %s (OBS-05)', async (_, turns, more, reason) => {
    await using it = setUp(turns, more);
    const events = await it.run('hi');
    expect(events.filter(isTerminal)).toHaveLength(1);
    const last = events.at(-1)!;
    expect(last.type === 'run_end' ? last.reason : last.type === 'error' && last.code).toBe(reason);
    const next = await it.run('again', { conversation: 'other' });
    expect(next.filter(isTerminal)).toHaveLength(1);
  });

  it('ends after its limit of model calls, and says so', async () => {
    await using it = setUp([[call('a', 'look')]], { limits: { steps: 2 } });
    const events = await it.run('hi');
    expect(it.model.requests).toHaveLength(2);
    expect(only(events, 'warning')).toMatchObject([{ code: 'run.max_steps' }]);
    await it.run('again');
    expect(shapeFaults(it.model.requests.at(-1)!.messages)).toEqual([]);
  });

  it.each([Number.POSITIVE_INFINITY, 2 ** 40])('may be without a limit in time: %s', async (ms) => {
    const turns: Turn[] = [[call('a', 'look')], async () => (await sleep(5), 'stop')];
    await using it = setUp([...turns, [say('ok')]], { limits: { runMs: ms, toolMs: ms } });
    const events = await it.run('hi');
    expect(only(events, 'tool_result')[0]?.results[0]).toMatchObject({ result: 'seen', isError: false });
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
  });

  it('keeps what was shown of an answer that ran out of time', async () => {
    await using it = setUp([({ on }) => (on(say('so far')), forever()), [say('ok')]], { limits: { runMs: 20 } });
    await it.run('hi');
    await it.run('go on');
    expect(told(it.model)[1]).toContain('so far');
    expect(await it.kinds()).toEqual(['user', 'assistant', 'notice', 'user', 'assistant']);
  });
});

describe('an observer that throws changes nothing (OBS-09)', () => {
  const turns: Turn[] = [[think('hm'), call('a', 'look')], [say('ok')]];
  const explode = (): never => {
    throw new Error('observer');
  };

  it('as a middleware', async () => {
    await using plain = setUp(turns);
    const seen: string[] = [];
    const watches = { name: 'watches', event: ({ type }: AgentEvent) => void seen.push(type) };
    await using it = setUp(turns, { middleware: [{ name: 'explodes', event: explode }, watches] });
    const [expected, events] = [await plain.run('hi'), await it.run('hi')];
    expect(types(events)).toEqual(types(expected));
    expect(seen).toEqual(types(expected));
    expect(await it.kinds()).toEqual(await plain.kinds());
  });
});

describe('what is remembered', () => {
  it("keeps the user's message and a notice when the first model call fails; the next turn works (B19)", async () => {
    await using it = setUp([fails, [say('ok')]]);
    const events = await it.run('hello');
    expect(events.at(-1)).toMatchObject({
      type: 'error',
      code: 'models.unavailable',
      message: 'It answered 500',
      hint: 'Wait.',
    });
    expect(await it.kinds()).toEqual(['user', 'notice']);
    expect((await it.run('again')).at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
    expect(told(it.model)).toEqual(['user: hello', 'user: again']);
  });

  it('shows calls with their results on the next turn (B20, MEM-11)', async () => {
    await using it = setUp([[call('a', 'look'), call('b', 'look')], [say('done')]]);
    await it.run('look');
    await it.run('what did you call?');
    const results = ['result: seen', 'result: seen'];
    expect(told(it.model)).toEqual([
      'user: look',
      'assistant:  a b',
      ...results,
      'assistant: done',
      'user: what did you call?',
    ]);
  });

  it('keeps both of two equal messages, in order (MEM-04)', async () => {
    await using it = setUp([[say('sure?')], [say('ok')]]);
    await it.run('yes');
    await it.run('yes');
    expect(told(it.model)).toEqual(['user: yes', 'assistant: sure?', 'user: yes']);
  });

  it('keeps a partial answer, marked as interrupted, when it is cancelled in mid-answer (B18)', async () => {
    const said = moment();
    const hangs: Turn = async ({ on, signal }) => {
      on(say('The answer is fo'));
      said.happens();
      return await untilStopped(signal);
    };
    await using it = setUp([hangs, [say('ok')]]);
    const stop = new AbortController();
    const running = it.run('ask', { signal: stop.signal });
    await said.happened;
    stop.abort();
    const events = await running;
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'cancelled' });
    await it.run('go on');
    expect(told(it.model)[1]).toBe('assistant: The answer is fo\n[This answer was interrupted here.]');
  });

  it('is one user turn although the host refused first (B12)', async () => {
    const warning = { type: 'warning' as const, code: 'models.retry', message: 'Busy (429), asking again.' };
    await using it = setUp([[warning, warning, say('ok')]]);
    const events = await it.run('hi');
    expect(types(events)).toEqual(['run_start', 'warning', 'warning', 'token', 'usage', 'run_end']);
    expect(await it.kinds()).toEqual(['user', 'assistant']);
    await it.run('next');
    expect(told(it.model)).toEqual(['user: hi', 'assistant: ok', 'user: next']);
  });

  it('holds what a restarted answer said last, and tells that the first try is void', async () => {
    const restart = { type: 'restart' as const };
    await using it = setUp([[say('wrong'), call('a', 'look'), restart, restart, think('hm'), say('right')]]);
    const events = await it.run('hi');
    expect(types(events)).toEqual(['run_start', 'token', 'step_restart', 'reasoning', 'token', 'usage', 'run_end']);
    await it.run('next');
    expect(told(it.model)).toEqual(['user: hi', 'assistant: right', 'user: next']);
  });

  it('answers messages that come during a run one after another (B11)', async () => {
    const [begun, go] = [moment(), moment()];
    const waits: Turn = async ({ on }) => (begun.happens(), await go.happened, on(say('first')), 'stop');
    await using it = setUp([waits, [say('second')], [say('third')]]);
    const first = it.run('one');
    await begun.happened;
    const others = [it.run('two'), it.run('three')];
    await sleep(5);
    expect(await it.kinds()).toEqual(['user']);
    go.happens();
    const all = await Promise.all([first, ...others]);
    expect(all.map((events) => only(events, 'token').map(({ text }) => text))).toEqual([
      ['first'],
      ['second'],
      ['third'],
    ]);
    expect(told(it.model)).toEqual(['user: one', 'assistant: first', 'user: two', 'assistant: second', 'user: three']);
  });
  it('keeps apart what a provider signed apart', async () => {
    const signed = (text: string) => ({ type: 'reasoning' as const, text, metadata: { signature: text } });
    await using it = setUp([[signed('a'), signed('b'), say('ok')]]);
    await it.run('hi');
    await it.run('next');
    const answer = it.model.requests[1]!.messages[1]!;
    expect('parts' in answer && answer.parts).toEqual([signed('a'), signed('b'), say('ok')]);
  });

  it('does not hold what a middleware said for one request', async () => {
    const clock = {
      name: 'clock',
      model: (request: ScriptedModel['requests'][0]) => ({ ...request, system: `${request.system} It is noon.` }),
    };
    await using it = setUp([[say('ok')]], { system: 'Be brief.', middleware: [clock] });
    await it.run('hi');
    expect(it.model.requests[0]?.system).toBe('Be brief. It is noon.');
    expect(await it.kinds()).toEqual(['user', 'assistant']);
  });
});

describe('a model that only thinks (G4)', () => {
  it('is asked for its answer once', async () => {
    await using it = setUp([[think('hm')], [think('ah'), say('42')], [say('ok')]]);
    const events = await it.run('ask');
    expect(only(events, 'token').map(({ text }) => text)).toEqual(['42']);
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
    expect(told(it.model)).toEqual(['user: ask', 'user: Please give your answer now, as text.']);
    await it.run('next');
    expect(told(it.model)).toEqual(['user: ask', 'assistant: 42', 'user: next']);
  });

  it('is no error when it thinks again', async () => {
    await using it = setUp([[think('hm')]]);
    const events = await it.run('ask');
    expect(it.model.requests).toHaveLength(2);
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
  });
});

describe('cancelling', () => {
  it('ends a run before it began, with its message kept', async () => {
    await using it = setUp([[say('ok')]]);
    const events = await it.run('hi', { signal: AbortSignal.abort() });
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'cancelled' });
    expect(events.filter(isTerminal)).toHaveLength(1);
    expect(await it.kinds()).toContain('user');
  });

  it('ends a message that still waits, which nobody sees any more', async () => {
    const [begun, go] = [moment(), moment()];
    const waits: Turn = async ({ on }) => (begun.happens(), await go.happened, on(say('first')), 'stop');
    await using it = setUp([waits]);
    const first = it.run('one');
    await begun.happened;
    const stop = new AbortController();
    const second = it.run('two', { signal: stop.signal });
    await sleep(2);
    stop.abort();
    expect(types(await second)).toEqual(['run_end']);
    go.happens();
    await first;
    expect(await it.kinds()).toEqual(['user', 'assistant']);
  });

  it('does not wait for a model that ignores its signal', async () => {
    const begun = moment();
    await using it = setUp([() => (begun.happens(), forever())]);
    const stop = new AbortController();
    const running = it.run('hi', { signal: stop.signal });
    await begun.happened;
    const at = performance.now();
    stop.abort();
    expect((await running).at(-1)).toMatchObject({ reason: 'cancelled' });
    expect(performance.now() - at).toBeLessThan(500);
  });

  it('goes on when nobody watches', async () => {
    await using it = setUp([[say('ok')]]);
    for await (const _ of it.agent.run({ conversation: 'web', text: 'hi' })) break;
    await until(async () => (await it.kinds()).length === 2);
    expect(await it.kinds()).toEqual(['user', 'assistant']);
  });
});
