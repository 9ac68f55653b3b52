import { describe, expect, it } from 'vitest';
import type { Emitted, Json, Policy, ToolContext } from '../../src/kernel/index.ts';
import { isTerminal } from '../../src/kernel/index.ts';
import { shapeFaults } from './prompt-faults.ts';
import { createRig, eventsOf, owner, submission, watch } from './rig.ts';
import type { Turn } from './scripted.ts';
import {
  call,
  forever,
  moment,
  only,
  results,
  say,
  scripted,
  settledCalls,
  sleep,
  think,
  tool,
  types,
  until,
} from './scripted.ts';

const ok: Turn = [say('ok')];

describe('a worker dies', () => {
  it('in a model call: the next one asks anew, and what was shown is void (B1)', async () => {
    const rig = createRig();
    const said = moment();
    const hangs: Turn = ({ on }) => (on(think('hm')), on(say('Once upon')), said.happens(), forever());
    await using first = rig.worker({ model: scripted(hangs) });
    const model = scripted(ok);
    await using second = rig.worker({ model });
    const seen: Emitted[] = [];
    const gone = new AbortController();
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }), { on: (one) => void seen.push(one), signal: gone.signal });
    await said.happened;
    first.die();
    gone.abort();
    await rig.takeOver(second);
    const rest = await watch(second.runner, run, seen.at(-1)!.position);
    expect(types(eventsOf(seen))).toEqual(['run_start', 'reasoning', 'token']);
    expect(types(eventsOf(rest))).toEqual(['step_restart', 'token', 'usage', 'run_end']);
    expect((await rig.entries()).map(({ kind, epoch }) => [kind, epoch])).toEqual([
      ['user', 1],
      ['assistant', 2],
    ]);
    expect(model.requests[0]?.messages).toHaveLength(1);
  });

  type Probe = { probe?: (key: string) => Promise<{ result: Json } | undefined> };
  const effects: [string, 'read' | 'idempotent' | 'once', Probe, number, RegExp][] = [
    ['a read runs again', 'read', {}, 2, /^did it$/],
    ['an idempotent call runs again, with the same key', 'idempotent', {}, 2, /^did it$/],
    [
      'a call that may run once does not, and its outcome is told as unknown',
      'once',
      {},
      1,
      /^tool\.outcome_unknown: .*may or may not.*not repeated/,
    ],
    ['a probe tells the outcome', 'once', { probe: async (key) => ({ result: `found ${key}` }) }, 1, /^found .*:1$/],
    ['a probe may know nothing', 'once', { probe: async () => undefined }, 1, /^tool\.outcome_unknown/],
    [
      'a probe may fail',
      'once',
      { probe: () => Promise.reject(new Error('probe down')) },
      1,
      /outcome_unknown.*probe down/,
    ],
  ];
  it.each(effects)('in a tool call: %s (GOV-82)', async (_, effect, more, runs, told) => {
    const rig = createRig();
    const begun = moment();
    const keys: string[] = [];
    const run1 = (_: unknown, { key }: ToolContext) => (keys.push(key), begun.happens(), forever());
    const run2 = (_: unknown, { key }: ToolContext) => (keys.push(key), 'did it');
    const turns: Turn[] = [[call('a', 'act')], ok];
    await using first = rig.worker({ model: scripted(...turns), tools: [tool('act', run1, { effect, ...more })] });
    const model = scripted(ok);
    await using second = rig.worker({ model, tools: [tool('act', run2, { effect, ...more })] });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await begun.happened;
    first.die();
    await rig.takeOver(second);
    const events = eventsOf(await watch(second.runner, run));
    expect(keys).toEqual(Array(runs).fill(`${run}:1`));
    expect(settledCalls(events)).toEqual(['a']);
    expect(results(events)[0]?.result).toMatch(told);
    expect(results(events)[0]?.isError).toBe(/unknown/.test(told.source));
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
    expect(shapeFaults(model.requests[0]!.messages)).toEqual([]);
  });

  it('with one of two calls done: that one is not repeated (B2)', async () => {
    const rig = createRig();
    const ran: string[] = [];
    const quick = tool('quick', () => (ran.push('quick'), 'quick result'), { effect: 'idempotent' });
    const slow1 = tool('slow', () => (ran.push('slow'), forever()));
    const slow2 = tool('slow', () => (ran.push('slow'), 'slow result'));
    await using first = rig.worker({
      model: scripted([call('a', 'slow'), call('b', 'quick')], ok),
      tools: [quick, slow1],
    });
    const model = scripted(ok);
    await using second = rig.worker({ model, tools: [quick, slow2] });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await until(() => first.said.some(({ type }) => type === 'tool_result'));
    first.die();
    await rig.takeOver(second);
    const events = eventsOf(await watch(second.runner, run));
    expect(ran.sort()).toEqual(['quick', 'slow', 'slow']);
    expect(results(events).map(({ id, result }) => [id, result])).toEqual([
      ['b', 'quick result'],
      ['a', 'slow result'],
    ]);
    expect(model.requests).toHaveLength(1);
    const told = model.requests[0]!.messages.map((message) =>
      message.role === 'tool' ? message.result : message.role,
    );
    expect(told).toEqual(['user', 'assistant', 'slow result', 'quick result']);
    expect(only(events, 'warning').map(({ code }) => code)).toEqual(['run.continued']);
  });

  it('with all calls done: the model is asked next, with their results', async () => {
    const rig = createRig();
    const asked = moment();
    let ran = 0;
    const act = tool('act', () => ++ran, { effect: 'once' });
    const hangs: Turn = () => (asked.happens(), forever());
    await using first = rig.worker({ model: scripted([call('a', 'act')], hangs), tools: [act] });
    const model = scripted([call('a', 'act')], ok);
    await using second = rig.worker({ model, tools: [act] });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await asked.happened;
    first.die();
    await rig.takeOver(second);
    const events = eventsOf(await watch(second.runner, run));
    expect(ran).toBe(2);
    expect(new Set(settledCalls(events)).size, 'a call id of the first worker is not used again').toBe(2);
    expect(model.requests[0]!.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(events.at(-1)).toMatchObject({ usage: { inputTokens: 30 } });
  });

  it('a limit of steps counts over workers', async () => {
    const rig = createRig();
    const asked = moment();
    const limits = { steps: 2, runMs: 60_000, toolMs: 1000 };
    const act = tool('act', () => 'did');
    await using first = rig.worker({
      model: scripted([call('a', 'act')], () => (asked.happens(), forever())),
      tools: [act],
    });
    await using second = rig.worker({ model: scripted([call('b', 'act')]), tools: [act], assembly: { limits } });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await asked.happened;
    first.die();
    await rig.takeOver(second);
    expect(eventsOf(await watch(second.runner, run)).at(-1)).toMatchObject({ reason: 'max_steps' });
  });

  it('while a person is asked: the answer is given elsewhere, and the call runs once (GOV-60)', async () => {
    const rig = createRig();
    const ran: unknown[] = [];
    const policy: Policy = { decide: () => ({ effect: 'ask', why: 'It writes.' }) };
    const write = tool('write', (args) => (ran.push(args), 'written'), { effect: 'once' });
    const config = { tools: [write], assembly: { policy } };
    await using first = rig.worker({ model: scripted([call('a', 'write', { n: 1 })], ok), ...config });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await until(async () => (await rig.journal.load(owner, run, -1))?.status === 'waiting');
    first.die();
    await using second = rig.worker({ model: scripted(ok), ...config });
    await second.runner.answer(owner, { run, step: 1, answer: { effect: 'allow', by: 'me' } });
    const events = eventsOf(await watch(second.runner, run));
    expect(ran).toEqual([{ n: 1 }]);
    expect(settledCalls(events)).toEqual(['a']);
    expect(events.filter(isTerminal)).toHaveLength(1);
  });

  it('in a call that a person allowed and that may run once: it is not begun again (GOV-60)', async () => {
    const rig = createRig();
    const begun = moment();
    let runs = 0;
    const policy: Policy = { decide: () => ({ effect: 'ask', why: 'It pays.' }) };
    const pay = tool('pay', () => (runs++, begun.happens(), forever()), { effect: 'once' });
    const config = { tools: [pay], assembly: { policy } };
    await using first = rig.worker({ model: scripted([call('a', 'pay')], ok), ...config });
    await using second = rig.worker({ model: scripted(ok), ...config });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await until(async () => (await rig.journal.load(owner, run, -1))?.status === 'waiting');
    await first.runner.answer(owner, { run, step: 1, answer: { effect: 'allow', by: 'me' } });
    await begun.happened;
    first.die();
    await rig.takeOver(second);
    const events = eventsOf(await watch(second.runner, run));
    expect(runs).toBe(1);
    expect(results(events)).toMatchObject([
      { id: 'a', isError: true, fault: 'outcome_unknown', result: expect.stringMatching(/outcome_unknown/) },
    ]);
  });

  it('in a call that a person allowed: it goes on with what the person wrote, and asks nobody again', async () => {
    const rig = createRig();
    const begun = moment();
    const ran: unknown[] = [];
    const policy: Policy = { decide: () => ({ effect: 'ask', why: 'It writes.' }) };
    const turns: Turn[] = [[call('a', 'write', { n: 1 })], ok];
    const write1 = tool('write', (args) => (ran.push(args), begun.happens(), forever()), { effect: 'idempotent' });
    const write2 = tool('write', (args) => (ran.push(args), 'written'), { effect: 'idempotent' });
    await using first = rig.worker({ model: scripted(...turns), tools: [write1], assembly: { policy } });
    await using second = rig.worker({ model: scripted(ok), tools: [write2], assembly: { policy } });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await until(async () => (await rig.journal.load(owner, run, -1))?.status === 'waiting');
    await first.runner.answer(owner, { run, step: 1, answer: { effect: 'allow', args: { n: 2 }, by: 'me' } });
    await begun.happened;
    first.die();
    await rig.takeOver(second);
    const events = eventsOf(await watch(second.runner, run));
    expect(ran).toEqual([{ n: 2 }, { n: 2 }]);
    expect(results(events)).toMatchObject([{ id: 'a', result: 'written' }]);
  });
});

describe('a zombie', () => {
  it.each([false, true])(
    'that lost its lease writes and says nothing more (GOV-77); told of it: %s',
    async (isTold) => {
      const rig = createRig();
      const [begun, end] = [moment(), moment()];
      let signal: AbortSignal | undefined;
      const slow1 = tool('act', async (_, context) => {
        signal = context.signal;
        begun.happens();
        await end.happened;
        context.output('a late line');
        return 'false';
      });
      const model1 = scripted([call('a', 'act')], [say('false')]);
      await using first = rig.worker({ model: model1, tools: [slow1], ...(isTold && { renewMs: 2 }) });
      const asked = moment();
      const model2 = scripted(
        ({ on }) => (asked.happens(), on(say('tr')), sleep(10).then(() => (on(say('ue')), 'stop' as const))),
      );
      await using second = rig.worker({ model: model2, tools: [tool('act', () => 'true')] });
      const seen: Emitted[] = [];
      const viewer = { on: (one: Emitted) => void seen.push(one), signal: AbortSignal.timeout(3000) };
      const { run } = submission('hi');
      const { watched } = await first.runner.submit(submission('hi', { run }), viewer);
      await begun.happened;
      const before = types(first.said);
      await rig.takeOver(second);
      await asked.happened;
      if (isTold) await until(() => signal!.aborted);
      end.happens();
      await watched;
      expect(
        types(first.said)
          .slice(before.length)
          .filter((type) => type !== 'tool_output'),
      ).toEqual([]);
      expect(model1.requests).toHaveLength(1);
      expect((await rig.entries()).map(({ kind, epoch }) => [kind, epoch])).toEqual([
        ['user', 1],
        ['assistant', 1],
        ['tool_result', 2],
        ['assistant', 2],
      ]);
      const events = eventsOf(seen).filter(({ type }) => type !== 'tool_output' && type !== 'warning');
      expect(results(events).map(({ result }) => result)).toEqual(['true']);
      expect(
        only(events, 'token')
          .map(({ text }) => text)
          .join(''),
      ).toBe('true');
      expect(events.filter(isTerminal)).toHaveLength(1);
      expect(first.runner.activeCount()).toBe(0);
    },
  );

  it('is not believed by a client that has seen its successor', async () => {
    const rig = createRig();
    const [late, end, said1, said2] = [moment(), moment(), moment(), moment()];
    const model1 = scripted(
      async ({ on }) => (on(say('false')), said1.happens(), await late.happened, on(say(' again')), forever()),
    );
    const model2 = scripted(
      async ({ on }) => (on(say('tr')), said2.happens(), await end.happened, on(say('ue')), 'stop'),
    );
    await using first = rig.worker({ model: model1 });
    await using second = rig.worker({ model: model2 });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await said1.happened;
    await rig.takeOver(second);
    await said2.happened;
    const seen: Emitted[] = [];
    const on = (one: Emitted) => void seen.push(one);
    for (const { runner } of [second, first]) {
      const leave = new AbortController();
      const after = seen.at(-1)?.position ?? null;
      const visit = runner.watch({ ...owner, run, after }, { on, signal: leave.signal });
      await sleep(5);
      late.happens();
      await sleep(5);
      leave.abort();
      await visit;
    }
    end.happens();
    const rest = await watch(second.runner, run, seen.at(-1)!.position);
    const events = eventsOf([...seen, ...rest]);
    expect(only(events, 'token').map(({ text }) => text)).toEqual(['tr', 'ue']);
    expect(only(events, 'step_restart')).toEqual([]);
  });

  it('does not take itself for dead: a lease that ran out is its own still', async () => {
    const rig = createRig();
    const model = scripted(() => forever());
    await using only = rig.worker({ model });
    const { run } = submission('hi');
    await only.runner.submit(submission('hi', { run }));
    await until(() => model.requests.length === 1);
    await rig.takeOver(only);
    await sleep(20);
    expect(model.requests).toHaveLength(1);
    expect(only.runner.activeCount()).toBe(1);
    await only.runner.cancel(owner, run);
    expect(eventsOf(await watch(only.runner, run)).at(-1)).toMatchObject({ reason: 'cancelled' });
  });
});
