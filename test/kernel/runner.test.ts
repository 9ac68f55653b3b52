import { describe, expect, it } from 'vitest';
import type { Assembly, Emitted } from '../../src/kernel/index.ts';
import { AgentError, isTerminal } from '../../src/kernel/index.ts';
import { createRig, eventsOf, intercept, owner, submission, watch, web } from './rig.ts';
import type { Turn } from './scripted.ts';
import { call, forever, moment, say, results, scripted, sleep, tool, types, until, untilStopped } from './scripted.ts';

const ok: Turn = [say('ok')];
const explode = (): never => {
  throw new Error('observer');
};

describe('an observer that throws changes nothing (OBS-09)', () => {
  const turns: Turn[] = [[say('hm'), call('a', 'look')], [say('ok')]];
  const expected = ['run_start', 'token', 'usage', 'tool_call', 'tool_result', 'token', 'usage', 'run_end'];
  const look = tool('look', () => 'seen');

  it.each([0, 1, 3, 7])('as a viewer, at event %i; others see everything', async (at) => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted(...turns), tools: [look] });
    let count = 0;
    const on = () => void (count++ === at && explode());
    const { run } = submission('hi');
    const viewer = { on, signal: AbortSignal.timeout(3000) };
    const { watched } = await worker.runner.submit(submission('hi', { run }), viewer);
    const seen = watch(worker.runner, run);
    await watched;
    expect(types(eventsOf(await seen))).toEqual(expected);
    expect(types(worker.said)).toEqual(expected);
    expect((await rig.entries()).map(({ kind }) => kind)).toEqual(['user', 'assistant', 'tool_result', 'assistant']);
    expect(worker.logged.join()).toMatch(/observer/);
  });

  it('as the listener of changes', async () => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted(...turns), tools: [look], onChange: explode });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    expect(types(eventsOf(await watch(worker.runner, run)))).toEqual(expected);
  });
});

describe('watching', () => {
  it('shows a run of another worker as it is committed', async () => {
    const rig = createRig();
    const go = moment();
    const waits: Turn = async ({ on }) => (await go.happened, on(say('ok')), 'stop');
    await using first = rig.worker({ model: scripted(waits) });
    await using second = rig.worker({ model: scripted() });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    const seen = watch(second.runner, run);
    go.happens();
    expect(types(eventsOf(await seen))).toEqual(['run_start', 'token', 'usage', 'run_end']);
  });

  it('ends at once for who has seen the end', async () => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted(ok) });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    const seen = await watch(worker.runner, run);
    expect(isTerminal(seen.at(-1)!.event)).toBe(true);
    const signal = AbortSignal.timeout(3000);
    await worker.runner.watch({ ...owner, run, after: seen.at(-1)!.position }, { on: explode, signal });
    expect(signal.aborted).toBe(false);
  });

  it("refuses another owner's run (MEM-23)", async () => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted(ok) });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    const viewer = { on: explode, signal: AbortSignal.timeout(3000) };
    const watched = worker.runner.watch({ ...owner, owner: 'other', run, after: null }, viewer);
    await expect(watched).rejects.toMatchObject({ code: 'journal.run_not_found' });
  });

  it('stops when the viewer leaves, wherever the run is', async () => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted(() => forever()) });
    await using other = rig.worker({ model: scripted() });
    const { run } = submission('hi');
    const leave = new AbortController();
    const viewer = { on: () => undefined, signal: leave.signal };
    const { watched } = await worker.runner.submit(submission('hi', { run }), viewer);
    const all = [watched, ...[worker, other].map(({ runner }) => runner.watch({ ...owner, run, after: null }, viewer))];
    leave.abort();
    await Promise.all(all);
    expect(worker.runner.activeCount()).toBe(1);
  });
});

describe('what cannot be assembled', () => {
  const broken = () => Promise.reject(new AgentError('agents.unknown', { status: 404, hint: 'h' }, 'No such agent'));

  it('ends the run with its error', async () => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted(ok), assemble: broken });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    const events = eventsOf(await watch(worker.runner, run));
    expect(events.at(-1)).toMatchObject({ type: 'error', code: 'agents.unknown' });
  });

  it('can be cancelled while it is assembled, and does not hold up a shutdown', async () => {
    const rig = createRig();
    const worker = rig.worker({ model: scripted(ok), assemble: forever });
    const [one, two] = [submission('one'), submission('two', { conversation: 'other' })];
    await worker.runner.submit(one);
    await worker.runner.submit(two);
    await worker.runner.cancel(owner, one.run);
    expect(eventsOf(await watch(worker.runner, one.run)).at(-1)).toMatchObject({ reason: 'cancelled' });
    await worker[Symbol.asyncDispose]();
    expect((await rig.journal.load(owner, two.run, -1))?.status).toBe('running');
  });

  it('ends a run that was taken over with its error too', async () => {
    const rig = createRig();
    const asked = moment();
    const turns: Turn[] = [[call('a', 'look')], () => (asked.happens(), forever())];
    await using first = rig.worker({ model: scripted(...turns), tools: [tool('look', () => 'seen')] });
    await using second = rig.worker({ model: scripted(), assemble: broken });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await asked.happened;
    first.die();
    await rig.takeOver(second);
    const events = eventsOf(await watch(second.runner, run));
    expect(events.at(-1)).toMatchObject({ type: 'error', code: 'agents.unknown' });
  });
});

describe('what never answers', () => {
  const hangs: [string, object, Partial<Assembly>][] = [
    ['a policy', {}, { policy: { decide: forever } }],
    ['a schema', { parameters: { '~standard': { version: 1, vendor: 'test', validate: forever } } }, {}],
    ['a middleware', {}, { middleware: [{ name: 'hangs', model: forever }] }],
  ];

  it.each(hangs)('does not hold up a cancel: %s', async (_, more, assembly) => {
    const rig = createRig();
    let ran = 0;
    const worker = rig.worker({
      model: scripted([call('a', 'act')], ok),
      tools: [tool('act', () => ++ran, more)],
      assembly,
    });
    const { run } = submission('hi');
    await worker.runner.submit(submission('hi', { run }));
    await sleep(5);
    await worker.runner.cancel(owner, run);
    const events = eventsOf(await watch(worker.runner, run));
    expect(events.at(-1)).toMatchObject({ reason: 'cancelled' });
    expect(results(events).every(({ result }) => /not(?:hing was)? executed/i.test(String(result)))).toBe(true);
    expect(ran).toBe(0);
  });

  it.each(hangs)('does not hold up a shutdown, and the next worker decides anew: %s', async (_, more, assembly) => {
    const rig = createRig();
    const act = (also: object) => [tool('act', () => 'did', also)];
    const turns: Turn[] = [[call('a', 'act')], ok];
    const first = rig.worker({ model: scripted(...turns), tools: act(more), assembly });
    await using second = rig.worker({ model: scripted(...turns), tools: act({}) });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await sleep(5);
    await first[Symbol.asyncDispose]();
    await second.runner.sweep();
    const events = eventsOf(await watch(second.runner, run));
    expect(results(events)).toMatchObject([{ id: 'a', result: 'did', isError: false }]);
    expect(events.at(-1)).toMatchObject({ reason: 'done' });
  });

  it('does not hold up a cancel: a probe', async () => {
    const rig = createRig();
    const begun = moment();
    const act = tool('act', () => (begun.happens(), forever()), { effect: 'once', probe: forever });
    await using first = rig.worker({ model: scripted([call('a', 'act')]), tools: [act] });
    const second = rig.worker({ model: scripted(ok), tools: [act] });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await begun.happened;
    first.die();
    await rig.takeOver(second);
    await sleep(5);
    await second.runner.cancel(owner, run);
    const events = eventsOf(await watch(second.runner, run));
    expect(events.at(-1)).toMatchObject({ reason: 'cancelled' });
    expect(results(events)).toMatchObject([
      { id: 'a', isError: true, result: expect.stringMatching(/may or may not/) },
    ]);
  });
});

describe('several workers', () => {
  it('run one message of a conversation at a time (GOV-76)', async () => {
    const rig = createRig();
    let busy = 0;
    let most = 0;
    const turn: Turn = async ({ on }) => {
      most = Math.max(most, ++busy);
      await Promise.resolve();
      on(say('ok'));
      busy--;
      return 'stop';
    };
    await using first = rig.worker({ model: scripted(turn) });
    await using second = rig.worker({ model: scripted(turn) });
    const runs = Array.from({ length: 20 }, () => submission('hi').run);
    await Promise.all(runs.map((run, i) => (i % 2 ? first : second).runner.submit(submission(`m${i}`, { run }))));
    await Promise.all(runs.map((run) => watch(first.runner, run)));
    expect(most).toBe(1);
    expect((await rig.entries()).map(({ kind }) => kind)).toEqual(runs.flatMap(() => ['user', 'assistant']));
  });

  it('cancel what another one runs', async () => {
    const rig = createRig();
    const model = scripted(
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
    await using first = rig.worker({ model, renewMs: 2 });
    await using second = rig.worker({ model: scripted() });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await until(() => model.requests.length === 1);
    expect(await second.runner.cancel(owner, run)).toBe('running');
    expect(eventsOf(await watch(second.runner, run)).at(-1)).toMatchObject({ reason: 'cancelled' });
  });

  it('hand over at once when one of them is shut down, in mid-answer or between two runs (B18)', async () => {
    const rig = createRig();
    const said = moment();
    const model1 = scripted(({ on }) => (on(say('Once')), said.happens(), forever()));
    const first = rig.worker({ model: model1 });
    await using second = rig.worker({ model: scripted(ok) });
    const runs = [submission('').run, submission('').run];
    await first.runner.submit(submission('one', { run: runs[0]! }));
    await first.runner.submit(submission('two', { run: runs[1]! }));
    await said.happened;
    await first[Symbol.asyncDispose]();
    await second.runner.sweep();
    for (const run of runs) expect(eventsOf(await watch(second.runner, run)).at(-1)).toMatchObject({ reason: 'done' });
    expect(model1.requests).toHaveLength(1);
    expect((await rig.entries()).map(({ kind }) => kind)).toEqual(['user', 'assistant', 'user', 'assistant']);
  });

  it('hand over a tool call that was in flight when one of them is shut down', async () => {
    const rig = createRig();
    const begun = moment();
    const polite = tool('look', (_, { signal }) => (begun.happens(), untilStopped(signal)));
    const first = rig.worker({ model: scripted([call('a', 'look')]), tools: [polite] });
    const model = scripted(ok);
    await using second = rig.worker({ model, tools: [tool('look', () => 'seen')] });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await begun.happened;
    await first[Symbol.asyncDispose]();
    await second.runner.sweep();
    const events = eventsOf(await watch(second.runner, run));
    expect(results(events)).toMatchObject([{ id: 'a', result: 'seen', isError: false }]);
    expect((await rig.entries()).map(({ kind }) => kind)).toEqual(['user', 'assistant', 'tool_result', 'assistant']);
  });

  it('begin nothing new while they are shut down', async () => {
    const rig = createRig();
    const [committing, go] = [moment(), moment()];
    const wrap = (journal: typeof rig.journal) =>
      intercept(journal, (method) => (method === 'commit' ? (committing.happens(), go.happened) : undefined));
    const model = scripted(ok);
    const first = rig.worker({ model, wrap });
    const [one, two] = [submission('one'), submission('two')];
    await first.runner.submit(one);
    await first.runner.submit(two);
    await committing.happened;
    const over = first[Symbol.asyncDispose]();
    go.happens();
    await over;
    expect(model.requests).toHaveLength(1);
    await using second = rig.worker({ model: scripted(ok) });
    await second.runner.sweep();
    expect(eventsOf(await watch(second.runner, two.run)).at(-1)).toMatchObject({ reason: 'done' });
  });

  it('take over a run that stopped here for want of the journal, also while its worker has other runs', async () => {
    const rig = createRig();
    let isDown = false;
    const wrap = (journal: typeof rig.journal) =>
      intercept(journal, (method) => (isDown && method === 'commit' ? Promise.reject(new Error('down')) : undefined));
    const go = moment();
    const turn: Turn = async ({ on }) => (await go.happened, on(say('ok')), 'stop');
    await using first = rig.worker({ model: scripted(turn, () => forever(), ok), wrap, renewMs: 2 });
    const { run } = submission('hi');
    await first.runner.submit(submission('hi', { run }));
    await first.runner.submit(submission('other', { conversation: 'other' }));
    isDown = true;
    go.happens();
    await until(() => first.runner.activeCount() === 1);
    isDown = false;
    for (let i = 0; i < 5; i++) {
      rig.clock.advance(2000);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await first.runner.sweep();
    const seen: Emitted[] = [];
    const viewer = { on: (one: Emitted) => void seen.push(one), signal: AbortSignal.timeout(200) };
    await first.runner.watch({ ...web, run, after: null }, viewer);
    expect(seen.some(({ event }) => isTerminal(event))).toBe(true);
  });
});
