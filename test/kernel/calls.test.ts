import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { AgentEvent, Policy } from '../../src/kernel/index.ts';
import { shapeFaults } from './prompt-faults.ts';
import type { Turn } from './scripted.ts';
import {
  amount,
  call,
  forever,
  moment,
  only,
  results,
  say,
  setUp,
  settledCalls,
  sleep,
  toldResults,
  tool,
} from './scripted.ts';

describe('every call has one result, whatever becomes of it (OBS-02)', () => {
  const ran: string[] = [];
  const note = (name: string, run: Parameters<typeof tool>[1], more: Parameters<typeof tool>[2] = {}) =>
    tool(name, (args, context) => (ran.push(name), run(args, context)), more);
  const tools = [
    note('ok', () => ({ found: 1 })),
    note('void', () => undefined),
    note('throws', () => {
      throw new Error('broken');
    }),
    note('rejects', () => Promise.reject(new Error('later'))),
    note('slow', forever, { timeoutMs: 20 }),
    note('big', () => 10n),
    note('denied', () => 'never'),
    note('refuses', () => 'never'),
    note('strict', () => 'never', { parameters: amount }),
  ];
  const policy: Policy = {
    decide: ({ tool: { name } }) => {
      if (name === 'refuses') throw new Error('the policy is broken');
      return name === 'denied' ? { effect: 'deny', why: 'Not today.' } : { effect: 'allow' };
    },
  };
  const kinds: [string, RegExp | unknown][] = [
    ['ok', { found: 1 }],
    ['void', null],
    ['throws', /The tool failed: broken/],
    ['rejects', /The tool failed: later/],
    ['slow', /longer than its limit of 0.02 s/],
    ['big', /not JSON/],
    ['denied', /Denied: Not today\. Nothing was executed/],
    ['refuses', /could not be checked: the policy is broken\. Nothing was executed/],
    ['strict', /Invalid arguments: amount: must be a number\. Nothing was executed/],
    ['unknown', /There is no tool "unknown".*Available tools: ok, void/],
    ['', /There is no tool ""/],
  ];
  const broken = { type: 'tool_call' as const, id: 'broken', name: 'ok', args: '{"text": "cut' };

  it('in one batch', async () => {
    ran.length = 0;
    await using it = setUp(tools, [[...kinds.map(([name], i) => call(`c${i}`, name)), broken], [say('ok')]], {
      policy,
    });
    const events = await it.run();
    const settled = settledCalls(events);
    expect(settled).toHaveLength(kinds.length + 1);
    const byId = new Map(results(events).map((result) => [result.id, result]));
    for (const [i, [name, expected]] of kinds.entries()) {
      const { result, isError, name: shown } = byId.get(`c${i}`)!;
      expect(shown).toBe(name);
      expect(isError).toBe(expected instanceof RegExp);
      expect(expected instanceof RegExp ? expected.test(String(result)) : isDeepStrictEqual(result, expected)).toBe(
        true,
      );
    }
    expect(byId.get('broken')?.result).toMatch(/not valid JSON.*Nothing was executed/);
    expect(ran.sort()).toEqual(['big', 'ok', 'rejects', 'slow', 'throws', 'void']);
    expect(shapeFaults(it.model.requests[1]!.messages)).toEqual([]);
    expect(toldResults(it.model)).toHaveLength(kinds.length + 1);
  });

  it('when the run is cancelled, and does not wait for a tool that ignores its signal', async () => {
    const begun = moment();
    const deaf = tool('deaf', () => (begun.happens(), forever()), { effect: 'once' });
    await using it = setUp([deaf], [[call('a', 'deaf'), call('b', 'deaf')], [say('ok')]]);
    const stop = new AbortController();
    const running = it.run('go', { signal: stop.signal });
    await begun.happened;
    const at = performance.now();
    stop.abort();
    const events = await running;
    expect(performance.now() - at).toBeLessThan(500);
    settledCalls(events);
    expect(results(events).map(({ result }) => result)).toEqual(
      Array(2).fill(expect.stringMatching(/stopped.*verify/)),
    );
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'cancelled' });
    await it.run('next');
    expect(shapeFaults(it.model.requests.at(-1)!.messages)).toEqual([]);
  });

  it('when the run reaches its time limit', async () => {
    await using it = setUp([tool('slow', forever)], [[call('a', 'slow')]], { limits: { runMs: 30 } });
    const events = await it.run();
    expect(settledCalls(events)).toEqual(['a']);
    expect(events.at(-1)).toMatchObject({ type: 'error', code: 'run.timeout' });
  });

  it('when it waits for a person and the run is cancelled', async () => {
    const policy: Policy = { decide: () => ({ effect: 'ask', why: 'It writes.' }) };
    await using it = setUp([tool('write', () => 'written')], [[call('a', 'write')]], { policy });
    const stop = new AbortController();
    const events: AgentEvent[] = [];
    for await (const event of it.agent.run({ text: 'go', signal: stop.signal })) {
      events.push(event);
      if (event.type === 'approval_request') stop.abort();
    }
    expect(settledCalls(events)).toEqual(['a']);
    expect(results(events)[0]?.result).toMatch(/^Not executed/);
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'cancelled' });
  });
});

describe('calls of one answer', () => {
  it('run at the same time; results come as they end, and history keeps call order (OBS-04)', async () => {
    const ends = { a: moment(), b: moment(), c: moment() };
    const started: string[] = [];
    const wait = tool('wait', async (_, { call: id }) => {
      started.push(id);
      await ends[id as 'a'].happened;
      return `${id} ended`;
    });
    await using it = setUp([wait], [[call('a', 'wait'), call('b', 'wait'), call('c', 'wait')], [say('ok')]]);
    const order: string[] = [];
    let startedTogether: string[] = [];
    for await (const event of it.agent.run({ text: 'go' })) {
      if (event.type === 'tool_call') {
        await sleep(5);
        startedTogether = [...started];
        ends.c.happens();
      }
      for (const { id } of event.type === 'tool_result' ? event.results : []) {
        order.push(id);
        ends[id === 'c' ? 'a' : 'b'].happens();
      }
    }
    expect(startedTogether).toEqual(['a', 'b', 'c']);
    expect(order).toEqual(['c', 'a', 'b']);
    expect(toldResults(it.model)).toEqual(['a: "a ended"', 'b: "b ended"', 'c: "c ended"']);
  });

  it('get ids that are usable and unique in their run', async () => {
    const ids = ['x', 'x', '', 'with blank', '中', 'x'.repeat(65), 'x_', 'call_1'];
    await using it = setUp(
      [tool('look', (_, context) => context.call)],
      [ids.map((id) => call(id, 'look')), [call('x', 'look'), call('call_1', 'look')], [say('ok')]],
    );
    const events = await it.run();
    expect(settledCalls(events)).toHaveLength(ids.length + 2);
    const used = results(events).map(({ id }) => id);
    expect(new Set(used).size).toBe(used.length);
    for (const id of used) expect(id).toMatch(/^[A-Za-z0-9_.:-]{1,64}$/);
    expect(results(events).every(({ id, result }) => result === id)).toBe(true);
    expect(shapeFaults(it.model.requests[2]!.messages)).toEqual([]);
  });

  it('have no arguments where the model wrote none (G7)', async () => {
    const seen: unknown[] = [];
    const bare = { type: 'tool_call' as const, id: 'a', name: 'look', args: '' };
    await using it = setUp(
      [tool('look', (args) => void seen.push(args))],
      [[bare, { ...bare, id: 'b', args: ' \n' }], [say('ok')]],
    );
    await it.run();
    expect(seen).toEqual([{}, {}]);
  });

  it('are not executed when they were cut off', async () => {
    const seen: unknown[] = [];
    const cut: Turn = ({ on }) => {
      on(call('whole', 'write', { amount: 1 }));
      on({ type: 'tool_call', id: 'half', name: 'write', args: '{"amount": 1' });
      on({ type: 'tool_call', id: 'empty', name: 'write', args: '' });
      return Promise.resolve('length');
    };
    await using it = setUp([tool('write', (args) => void seen.push(args))], [cut, [say('ok')]]);
    const events = await it.run();
    expect(seen).toEqual([{ amount: 1 }]);
    const refused = results(events).filter(({ isError }) => isError);
    expect(refused.map(({ id }) => id)).toEqual(['half', 'empty']);
    for (const { result } of refused) expect(result).toMatch(/Nothing was executed/);
  });

  it('show their progress to whoever watches', async () => {
    const bash = tool('bash', (_, { output }) => (output('line 1'), output('line 2'), 'ok'), {
      title: 'Shell',
      icon: 'i',
    });
    await using it = setUp([bash], [[call('a', 'bash', { x: 1 })], [say('ok')]]);
    const events = await it.run();
    expect(only(events, 'tool_call')[0]?.calls).toEqual([
      { id: 'a', name: 'bash', title: 'Shell', icon: 'i', args: { x: 1 } },
    ]);
    expect(only(events, 'tool_output').map(({ id, text }) => [id, text])).toEqual([
      ['a', 'line 1'],
      ['a', 'line 2'],
    ]);
  });

  it('show nothing more once they have their result', async () => {
    const late = tool('late', (_, { output }) => (setTimeout(output, 5, 'late'), 'ok'));
    const deaf = tool('deaf', (_, { output }) => (setTimeout(output, 15, 'late'), forever()), { timeoutMs: 10 });
    const wait: Turn = () => sleep(20).then(() => 'length');
    await using it = setUp([late, deaf], [[call('a', 'late'), call('b', 'deaf')], wait]);
    expect(only(await it.run(), 'tool_output')).toEqual([]);
  });

  it('are wrapped by middlewares, the first outermost; one that throws is a failed call', async () => {
    const trace: string[] = [];
    const wrap = (name: string) => ({
      name,
      tool: async (_: unknown, next: () => Promise<unknown>) => {
        trace.push(`${name} in`);
        const result = await next();
        trace.push(`${name} out`);
        return `${name}(${String(result)})`;
      },
    });
    const guard = {
      name: 'guard',
      tool: async ({ args }: { args: unknown }, next: () => Promise<unknown>) => {
        if ((args as { bad?: boolean }).bad) throw new Error('guarded');
        return await next();
      },
    };
    const look = tool('look', () => 'seen');
    const middleware = [wrap('a'), wrap('b'), guard] as never;
    await using it = setUp([look], [[call('x', 'look')], [call('y', 'look', { bad: true })], [say('ok')]], {
      middleware,
    });
    const events = await it.run();
    expect(results(events)[0]?.result).toBe('a(b(seen))');
    expect(results(events)[1]).toMatchObject({ result: 'The tool failed: guarded', isError: true });
    expect(trace).toEqual(['a in', 'b in', 'b out', 'a out', 'a in', 'b in']);
  });
});
