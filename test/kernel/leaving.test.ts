import { describe, expect, it } from 'vitest';
import type { Scrubber } from '../../src/kernel/index.ts';
import { createRig, eventsOf, owner, submission, watch } from './rig.ts';
import type { Turn } from './scripted.ts';
import { call, moment, say, scripted, tool, until, untilStopped } from './scripted.ts';

const ok: Turn = [say('ok')];
const stuck: Turn = async ({ signal }) => await untilStopped(signal);

describe('what a run had is closed when it is left (SBX-12)', () => {
  it('at its end, and the next run of the conversation does not wait for that', async () => {
    const rig = createRig();
    const [mayClose, begun] = [moment(), moment()];
    let closed = 0;
    const assembly = { close: async () => (await mayClose.happened, void closed++) };
    const first: Turn = async ({ on }) => (await begun.happened, on(say('one')), 'stop');
    await using worker = rig.worker({ model: scripted(first, ok), assembly });
    const [a, b] = [submission('a'), submission('b')];
    await worker.runner.submit(a);
    await worker.runner.submit(b);
    begun.happens();
    expect(eventsOf(await watch(worker.runner, b.run)).at(-1)?.type).toBe('run_end');
    expect(closed).toBe(0);
    mayClose.happens();
    await until(() => closed === 2);
  });

  it('when it is cancelled, waits for a person, or its server stops, and one that fails is logged', async () => {
    const rig = createRig();
    let closed = 0;
    const assembly = { close: () => (closed++, Promise.reject(new Error('stuck'))) };
    const worker = rig.worker({ model: scripted(stuck, stuck), assembly });
    const { run } = submission('a');
    await worker.runner.submit(submission('a', { run }));
    await worker.runner.cancel(owner, run);
    await until(() => closed === 1);
    await worker.runner.submit({ ...submission('b'), conversation: 'other' });
    await worker.runner[Symbol.asyncDispose]();
    expect(closed).toBe(2);
    expect(worker.logged.join()).toContain('stuck');
  });
});

describe('secrets of a run (OBS-10)', () => {
  const scrub = (): Scrubber => ({
    output: (text) => text.replaceAll('geheim', '***'),
    result: (value) => JSON.parse(JSON.stringify(value).replaceAll('geheim', '***')) as never,
  });

  it('are in no output, no result and no failure, and a tool can take them out itself', async () => {
    const rig = createRig();
    const seen: string[] = [];
    const look = tool('look', (_, { output, scrub }) => {
      output('a geheim');
      seen.push(scrub('my geheim'));
      return { text: 'the geheim' };
    });
    const fail = tool('fail', () => {
      throw new Error('no geheim');
    });
    const model = scripted([call('a', 'look'), call('b', 'fail')], ok);
    await using worker = rig.worker({ model, tools: [look, fail], assembly: { scrub } });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    await watch(worker.runner, run);
    const all = JSON.stringify([worker.said, await rig.entries()]);
    expect(all).not.toContain('geheim');
    for (const text of ['a ***', 'the ***', 'no ***']) expect(all).toContain(text);
    expect(seen).toEqual(['my ***']);
  });

  it('what looks like one is not shown, live or told again, and is in the record', async () => {
    const rig = createRig();
    const mask = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll('sk-1', '***')) as never;
    const look = tool('look', (_, { output }) => (output('live sk-1\n'), 'found sk-1'));
    const model = scripted([call('a', 'look', { key: 'sk-1' })], ok);
    await using worker = rig.worker({ model, tools: [look], mask });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    const shown = JSON.stringify([worker.said, eventsOf(await watch(worker.runner, run))]);
    expect(shown).not.toContain('sk-1');
    expect(shown).toContain('live ***');
    const record = JSON.stringify(await rig.entries());
    expect(record).toContain('found sk-1');
    expect(record).toContain('"key":"sk-1"');
  });

  it('what a person left of masked arguments when editing them is as it was (OBS-10)', async () => {
    const rig = createRig();
    const mask = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll('sk-1', '***')) as never;
    const got: unknown[] = [];
    const pay = tool('pay', (args) => (got.push(args), 'paid'));
    const args = { key: 'sk-1', to: { name: 'ann', token: 'sk-1' }, note: 'with sk-1' };
    const model = scripted([call('a', 'pay', args)], ok);
    const policy = { decide: () => ({ effect: 'ask' as const, why: 'It pays.' }) };
    await using worker = rig.worker({ model, tools: [pay], mask, assembly: { policy } });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    const asked = () => worker.said.find((event) => event.type === 'approval_request');
    await until(() => asked() !== undefined);
    const step = Number(asked()!.id.split(':')[1]);
    const edited = { key: '***', to: { name: 'bob', token: '***' }, note: 'new' };
    await worker.runner.answer(owner, { run, step, answer: { effect: 'allow', by: 'o', args: edited } });
    await until(() => got.length > 0);
    expect(got).toEqual([{ key: 'sk-1', to: { name: 'bob', token: 'sk-1' }, note: 'new' }]);
  });
});
