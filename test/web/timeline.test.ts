import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AgentEvent, CallFault, Emitted } from '../../src/kernel/index.ts';
import { noUsage } from '../../src/kernel/index.ts';
import type { Signal } from '../../web/src/api/types.ts';
import type { Step, Timeline, ToolState } from '../../web/src/chat/timeline.ts';
import { emptyTimeline, reduce } from '../../web/src/chat/timeline.ts';
import { anyPlan, play } from '../kernel/play.ts';
import { watch } from '../kernel/rig.ts';

const toSignals = (seen: readonly Emitted[]): Signal[] =>
  seen.map(({ event, position }) => ({ event, at: 0, ...(position && { epoch: position.epoch }) }));

const fold = (seen: readonly Emitted[]) => reduce(emptyTimeline, toSignals(seen));

/** What the record holds of a timeline: warnings and what a tool prints are told to those who are there, and not again. */
function ofRecord({ steps, end, error, usage, model }: Timeline) {
  const kept = steps
    .filter((step) => step.kind !== 'notice')
    .map((step) => (step.kind === 'tool' ? { ...step, output: '' } : step))
    // Whether somebody said so or the result showed it: it is decided.
    .map((step) => (step.kind === 'approval' && step.state !== 'open' ? { ...step, state: 'decided' } : step))
    .filter((step) => !('text' in step) || step.text !== '');
  return { steps: kept, end, error, usage, model };
}

const positionOf = (seen: readonly Emitted[]) => seen.findLast(({ position }) => position)?.position ?? null;

describe('the timeline of a run', () => {
  it('is the same for who never left and for who saw any beginning and then the rest (OBS-07)', async () => {
    const property = fc.asyncProperty(anyPlan, (plan) =>
      play(plan, async ({ run, always, clients, observer }) => {
        const expected = ofRecord(fold(always));
        for (const seen of clients) expect(ofRecord(fold(seen))).toEqual(expected);
        expect(ofRecord(fold(await watch(observer.runner, run)))).toEqual(expected);
        for (let length = 0; length <= always.length; length++) {
          const before = always.slice(0, length);
          const rest = await watch(observer.runner, run, positionOf(before));
          expect(ofRecord(fold([...before, ...rest]))).toEqual(expected);
        }
      }),
    );
    await fc.assert(property, { numRuns: 100 });
  });

  it('is the same however the events are handed over, and leaves what it was given as it was', () => {
    const events = toSignals(story.map((event) => ({ event, position: null })));
    const whole = reduce(emptyTimeline, events);
    let state = emptyTimeline;
    for (const signal of events) {
      const before = structuredClone(state);
      const next = reduce(state, [signal]);
      expect(state).toEqual(before);
      state = next;
    }
    expect(state).toEqual(whole);
    expect(whole.steps.map(({ kind }) => kind)).toEqual(['reasoning', 'text', 'tool', 'tool', 'approval', 'text']);
  });

  it('makes the shown part of a step void at a restart, and nothing that was committed', () => {
    const state = run(
      { type: 'token', text: 'kept' },
      { type: 'usage', usage: noUsage, model: 'm' },
      { type: 'reasoning', text: 'void' },
      { type: 'token', text: 'void' },
      { type: 'warning', code: 'models.retry', message: 'Asked again.' },
      { type: 'step_restart' },
      { type: 'token', text: 'said' },
    );
    const texts = state.steps.map((step) => (step.kind === 'notice' ? step.code : 'text' in step ? step.text : ''));
    expect(texts).toEqual(['kept', 'models.retry', 'said']);
  });

  it.each<[boolean, CallFault | undefined, ToolState]>([
    [false, undefined, 'done'],
    [true, undefined, 'failed'],
    [true, 'denied', 'denied'],
    [true, 'stopped', 'stopped'],
    [true, 'outcome_unknown', 'unknown'],
  ])('shows a result (error: %j, fault: %s) as %s', (isError, fault, expected) => {
    const state = run(
      { type: 'tool_call', calls: [{ id: 'a', name: 'a', title: 'A', args: {} }] },
      { type: 'tool_result', results: [{ id: 'a', name: 'a', result: 'x', isError, ...(fault && { fault }), ms: 3 }] },
    );
    expect(state.steps[0]).toMatchObject({ kind: 'tool', state: expected, ms: 3 });
  });

  it('leaves nothing running or open when the run is over', () => {
    const state = run(
      { type: 'tool_call', calls: ['a', 'b'].map((id) => ({ id, name: id, title: id, args: {} })) },
      { type: 'approval_request', id: 'r:2', call: 'b', why: 'It writes.' },
      { type: 'run_end', reason: 'cancelled', usage: noUsage, ms: 5 },
    );
    expect(state.steps.map((step) => 'state' in step && step.state)).toEqual(['unknown', 'stopped', 'closed']);
  });
});

describe('a run that another worker goes on with', () => {
  const called: AgentEvent = { type: 'tool_call', calls: [{ id: 'a', name: 'a', title: 'A', args: {} }] };
  const result: AgentEvent = {
    type: 'tool_result',
    results: [{ id: 'a', name: 'a', result: 'x', isError: false, ms: 1 }],
  };
  const notices = ({ steps }: Timeline) =>
    steps.filter((step): step is Step & { kind: 'notice' } => step.kind === 'notice');

  it('says so once, whether the warning, the higher epoch, or both tell it', () => {
    const continued: Signal = { event: { type: 'warning', code: 'run.continued', message: '' }, at: 0 };
    const half: Signal = { event: { type: 'token', text: 'half' }, at: 0, epoch: 1 };
    const restart: Signal = { event: { type: 'step_restart' }, at: 0, epoch: 2 };
    const anew: Signal = { event: { type: 'token', text: 'whole' }, at: 0, epoch: 2 };
    for (const signals of [
      [half, continued, restart, anew],
      [half, restart, anew],
      [half, restart, continued, anew],
    ]) {
      const state = reduce(emptyTimeline, signals);
      expect(notices(state)).toHaveLength(1);
      expect(state.steps.map((step) => ('text' in step ? step.text : step.kind))).toEqual(['notice', 'whole']);
    }
  });

  it('says nothing where a person had answered: there the worker changes as a rule', () => {
    const asked: AgentEvent = { type: 'approval_request', id: 'r:1', call: 'a', why: 'It writes.' };
    const state = reduce(emptyTimeline, [
      { event: called, at: 0, epoch: 1 },
      { event: asked, at: 0, epoch: 1 },
      { event: result, at: 0, epoch: 2 },
    ]);
    expect(notices(state)).toEqual([]);
    expect(state.steps).toMatchObject([{ state: 'done' }, { state: 'allowed' }]);
  });
});

function run(...events: AgentEvent[]): Timeline {
  return reduce(
    emptyTimeline,
    events.map((event) => ({ event, at: 0 })),
  );
}

const story: AgentEvent[] = [
  { type: 'run_start', run: 'r', conversation: 'c', agent: 'a', model: 'm', at: '2026-11-30T09:00:00Z' },
  { type: 'reasoning', text: 'Let me ' },
  { type: 'reasoning', text: 'see.' },
  { type: 'token', text: 'I look.' },
  { type: 'usage', usage: { ...noUsage, outputTokens: 3 }, model: 'm' },
  { type: 'tool_call', calls: ['a', 'b'].map((id) => ({ id, name: id, title: id, args: { day: 1 } })) },
  { type: 'approval_request', id: 'r:2', call: 'b', why: 'It writes.' },
  { type: 'tool_output', id: 'a', text: 'line\n' },
  { type: 'tool_result', results: [{ id: 'a', name: 'a', result: 'x', isError: false, ms: 4 }] },
  { type: 'approval_decision', id: 'r:2', call: 'b', effect: 'deny', comment: 'Not today.' },
  {
    type: 'tool_result',
    results: [{ id: 'b', name: 'b', result: 'A person denied this call.', isError: true, fault: 'denied', ms: 0 }],
  },
  { type: 'token', text: 'Done.' },
  { type: 'usage', usage: { ...noUsage, outputTokens: 1 }, model: 'm' },
  { type: 'run_end', reason: 'done', usage: { ...noUsage, outputTokens: 4 }, ms: 40 },
];
