import { describe, expect, it } from 'vitest';
import type { AgentEvent, Policy } from '../../src/kernel/index.ts';
import { callsOf, createAgent } from '../../src/kernel/index.ts';
import type { Turn } from './scripted.ts';
import {
  amount,
  call,
  moment,
  only,
  results,
  say,
  scripted,
  setUp,
  settledCalls,
  sleep,
  toldResults,
  tool,
  types,
} from './scripted.ts';

describe('a call that a person decides', () => {
  const rule: Policy = {
    decide({ tool: { name }, args }) {
      const value = (args as { amount?: number }).amount ?? 0;
      if (value > 100) return { effect: 'deny', why: 'More than 100 is never paid.' };
      return name === 'pay' ? { effect: 'ask', why: 'It pays.', rule: 'r1' } : { effect: 'allow' };
    },
  };
  const bench = (turns: Turn[], policy: Policy = rule) => {
    const paid: unknown[] = [];
    const pay = tool('pay', (args) => (paid.push(args), 'paid'), { parameters: amount, effect: 'once' });
    const look = tool('look', () => 'seen');
    return { paid, ...setUp([pay, look], turns, { policy }) };
  };
  type Answer = Parameters<ReturnType<typeof setUp>['agent']['answer']>[1];

  /** Runs to the end; answers each question as told, in the given order, once all have been asked. */
  async function decide({ agent }: ReturnType<typeof setUp>, answers: Record<string, Answer>) {
    const events: AgentEvent[] = [];
    const asked = new Map<string, string>();
    for await (const event of agent.run({ conversation: 'web', text: 'go' })) {
      events.push(event);
      if (event.type !== 'approval_request') continue;
      asked.set(event.call, event.id);
      const order = Object.keys(answers);
      if (asked.size === order.length) for (const id of order) await agent.answer(asked.get(id)!, answers[id]!);
    }
    return events;
  }

  it('pauses the run, and is executed when allowed', async () => {
    await using it = bench([[call('a', 'pay', { amount: 5 })], [say('ok')]]);
    const events = await decide(it, { a: { effect: 'allow' } });
    expect(types(events).filter((type) => type !== 'usage')).toEqual([
      'run_start',
      'tool_call',
      'approval_request',
      'approval_decision',
      'tool_result',
      'token',
      'run_end',
    ]);
    expect(only(events, 'approval_request')[0]).toMatchObject({ call: 'a', why: 'It pays.', rule: 'r1' });
    expect(only(events, 'approval_decision')[0]).toMatchObject({ call: 'a', effect: 'allow' });
    expect(it.paid).toEqual([{ amount: 5 }]);
  });

  it('is not executed when denied, and the model is told why (GOV-69)', async () => {
    await using it = bench([[call('a', 'pay', { amount: 5 })], [say('ok')]]);
    const events = await decide(it, { a: { effect: 'deny', comment: 'Too early.' } });
    expect(it.paid).toEqual([]);
    expect(only(events, 'approval_decision')[0]).toMatchObject({ effect: 'deny', comment: 'Too early.' });
    expect(toldResults(it.model)).toEqual([expect.stringMatching(/^a: "A person denied this call: Too early\./)]);
    expect(events.at(-1)).toMatchObject({ type: 'run_end', reason: 'done' });
  });

  it('waits in a mixed batch while the allowed calls run (GOV-64)', async () => {
    await using it = bench([[call('a', 'pay', { amount: 5 }), call('b', 'look'), call('c', 'nobody')], [say('ok')]]);
    const events: AgentEvent[] = [];
    let paidBefore = -1;
    for await (const event of it.agent.run({ text: 'go' })) {
      events.push(event);
      if (results(events).length === 2 && event.type === 'tool_result') {
        await sleep(2);
        paidBefore = it.paid.length;
        await it.agent.answer(only(events, 'approval_request')[0]!.id, { effect: 'allow' });
      }
    }
    expect(paidBefore).toBe(0);
    expect(results(events).map(({ id }) => id)).toEqual(['c', 'b', 'a']);
    settledCalls(events);
    expect(it.paid).toEqual([{ amount: 5 }]);
    expect(toldResults(it.model).map((line) => line[0])).toEqual(['a', 'b', 'c']);
  });

  it('may be answered while an allowed call of its batch still runs', async () => {
    const end = moment();
    const slow = tool('slow', () => end.happened);
    const pay = tool('pay', () => 'paid', { effect: 'once' });
    await using it = setUp([slow, pay], [[call('a', 'slow'), call('b', 'pay')], [say('ok')]], { policy: rule });
    const events: AgentEvent[] = [];
    for await (const event of it.agent.run({ text: 'go' })) {
      events.push(event);
      if (event.type === 'approval_request') {
        await it.agent.answer(event.id, { effect: 'allow' });
        end.happens();
      }
    }
    settledCalls(events);
    expect(results(events).map(({ result }) => result)).toEqual([null, 'paid']);
  });

  it('is asked for each call, and answers come in any order (GOV-65, E4)', async () => {
    const calls = ['a', 'b', 'c'].map((id, i) => call(id, 'pay', { amount: i }));
    await using it = bench([calls, [say('ok')]]);
    const events = await decide(it, { c: { effect: 'allow' }, a: { effect: 'deny' }, b: { effect: 'allow' } });
    settledCalls(events);
    expect(it.paid).toEqual([{ amount: 1 }, { amount: 2 }]);
    expect(only(events, 'approval_decision').map(({ call, effect }) => [call, effect])).toEqual([
      ['a', 'deny'],
      ['b', 'allow'],
      ['c', 'allow'],
    ]);
    expect(toldResults(it.model).map((line) => line.slice(0, 8))).toEqual(['a: "A pe', 'b: "paid', 'c: "paid']);
  });

  it('runs with the arguments that the person wrote (GOV-62)', async () => {
    await using it = bench([[call('a', 'pay', { amount: 50 })], [say('ok')]]);
    await decide(it, { a: { effect: 'allow', args: { amount: 7 } } });
    expect(it.paid).toEqual([{ amount: 7 }]);
  });

  it.each([
    [{ amount: 'many' }, /Invalid arguments/],
    [{ amount: 101 }, /Denied: More than 100/],
  ])("validates and decides a person's arguments anew: %j (GOV-62)", async (args, told) => {
    await using it = bench([[call('a', 'pay', { amount: 50 })], [say('ok')]]);
    const events = await decide(it, { a: { effect: 'allow', args } });
    expect(it.paid).toEqual([]);
    expect(results(events)[0]?.result).toMatch(told);
  });

  it('is denied when the policy got stricter meanwhile (GOV-63)', async () => {
    let isStrict = false;
    const policy: Policy = {
      decide: () => (isStrict ? { effect: 'deny', why: 'Closed.' } : { effect: 'ask', why: 'It pays.' }),
    };
    await using it = bench([[call('a', 'pay', { amount: 5 })], [say('ok')]], policy);
    const events: AgentEvent[] = [];
    for await (const event of it.agent.run({ text: 'go' })) {
      events.push(event);
      isStrict = true;
      if (event.type === 'approval_request') await it.agent.answer(event.id, { effect: 'allow' });
    }
    expect(it.paid).toEqual([]);
    expect(results(events)[0]?.result).toMatch(/Denied: Closed/);
    expect(results(events)[0]?.fault).toBe('denied');
  });

  it('is not answered twice, nor by somebody else (GOV-61)', async () => {
    await using it = bench([[call('a', 'pay', { amount: 5 })], [say('ok')]]);
    for await (const event of it.agent.run({ text: 'go' })) {
      if (event.type !== 'approval_request') continue;
      const refused = { code: 'journal.not_awaiting' };
      await expect(it.agent.answer(event.id, { effect: 'allow' }, { owner: 'other' })).rejects.toMatchObject(refused);
      await expect(it.agent.answer('nobody:1', { effect: 'allow' })).rejects.toMatchObject(refused);
      await it.agent.answer(event.id, { effect: 'allow' });
      await expect(it.agent.answer(event.id, { effect: 'allow' })).rejects.toMatchObject(refused);
    }
    expect(it.paid).toHaveLength(1);
  });

  it('without a policy: reads run, everything else asks (GOV-42)', async () => {
    const tools = (['read', 'idempotent', 'once'] as const).map((effect) => tool(effect, () => 'ran', { effect }));
    const model = scripted(
      tools.map(({ name }) => call(name, name)),
      [say('ok')],
    );
    await using agent = createAgent({ model, tools });
    const events: AgentEvent[] = [];
    for await (const event of agent.run({ text: 'go' })) {
      events.push(event);
      if (only(events, 'approval_request').length === 2) break;
    }
    expect(only(events, 'approval_request').map(({ call }) => call)).toEqual(['idempotent', 'once']);
  });
  it('tells the model the arguments that really ran', async () => {
    await using it = bench([[call('a', 'pay', { amount: 50 })], [say('ok')]]);
    await decide(it, { a: { effect: 'allow', args: { amount: 7 } } });
    const answer = it.model.requests[1]!.messages.find(({ role }) => role === 'assistant')!;
    const told = JSON.stringify([callsOf('parts' in answer ? answer.parts : []), toldResults(it.model)]);
    expect(told).toContain('7');
  });
});
