// Plays a random run over workers that die, with clients that leave and come back at any moment.
import * as fc from 'fast-check';
import type { Emitted, Model, ModelPart, Policy, Position } from '../../src/kernel/index.ts';
import { AgentError, isTerminal, noUsage } from '../../src/kernel/index.ts';
import type { Worker } from './rig.ts';
import { createRig, owner, submission } from './rig.ts';
import { call, forever, say, scripted, think, tool, untilStopped } from './scripted.ts';

type Part =
  | { text: string }
  | { reasoning: string }
  | { call: 'quick' | 'slow' | 'ask' | 'kills' }
  | 'restart'
  | 'warning';

/** One call of the model. */
interface Attempt {
  parts: readonly Part[];
  /** `lose`: another worker takes over, while this one speaks on. */
  end: 'finish' | 'die' | 'lose' | 'fail' | 'cancel';
}

/** After how many events each visit of a client ends; every other visit is to a process that does not run the run. */
type Visits = readonly number[];

export interface Plan {
  attempts: readonly Attempt[];
  clients: readonly Visits[];
}

const text = fc.string({ unit: 'binary', minLength: 0, maxLength: 4 });
const streamed = fc.oneof(fc.record({ text }), fc.record({ reasoning: text }));
const part: fc.Arbitrary<Part> = fc.oneof(
  { weight: 8, arbitrary: streamed },
  { weight: 1, arbitrary: fc.constant('restart' as const) },
  { weight: 1, arbitrary: fc.constant('warning' as const) },
  { weight: 2, arbitrary: fc.record({ call: fc.constantFrom('quick', 'slow', 'ask', 'kills') }) },
);
const attempt: fc.Arbitrary<Attempt> = fc.record({
  parts: fc.array(part, { maxLength: 8 }),
  end: fc.oneof(
    { weight: 6, arbitrary: fc.constant('finish' as const) },
    { weight: 4, arbitrary: fc.constantFrom('die' as const, 'lose' as const) },
    { weight: 1, arbitrary: fc.constantFrom('fail', 'cancel') },
  ),
});

export const anyPlan: fc.Arbitrary<Plan> = fc.record({
  attempts: fc.array(attempt, { minLength: 1, maxLength: 6 }),
  clients: fc.array(fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 8 }), { minLength: 1, maxLength: 3 }),
});

export interface Played {
  run: string;
  /** What a client saw that was always there, where the run was. */
  always: Emitted[];
  /** What those saw that came and went. */
  clients: Emitted[][];
  /** Another process, which has only the record. */
  observer: Worker;
}

interface Life {
  worker: Worker;
  death: AbortController;
}

interface Stage {
  run: string;
  observer: Worker;
  /** The newest one; and one of all that live, zombies too. */
  life(): Life;
  anyLife(number: number): Life;
  close(): Promise<void>;
}

const zombie: Part[] = 'zombie'.split('').map((text) => ({ text }));
const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
const policy: Policy = {
  decide: ({ tool: { name } }) => (name === 'ask' ? { effect: 'ask', why: 'It asks.' } : { effect: 'allow' }),
};

export async function play({ attempts, clients }: Plan, look: (played: Played) => Promise<void>): Promise<void> {
  const stage = createStage(attempts);
  try {
    const [always, ...seen] = await Promise.all([stay(stage), ...clients.map((visits) => comeAndGo(stage, visits))]);
    await look({ run: stage.run, always, clients: seen, observer: stage.observer });
  } finally {
    await stage.close();
  }
}

function createStage(attempts: readonly Attempt[]): Stage {
  const rig = createRig();
  const { run } = submission('go');
  const observer = rig.worker({ model: scripted([]), pollMs: 2 });
  const killed = new Set<string>();
  const lives: Life[] = [];
  let turn = 0;

  function begin(): Life {
    const slow = () =>
      tick()
        .then(tick)
        .then(() => 'slow');
    const kills = (_: unknown, { key }: { key: string }) => {
      if (killed.has(key)) return 'survived';
      killed.add(key);
      void kill(life);
      return forever();
    };
    const tools = [tool('quick', () => 'quick'), tool('slow', slow), tool('kills', kills), tool('ask', () => 'asked')];
    const model: Model = {
      name: 'm',
      async call(_, signal, on) {
        const { parts, end } = attempts[turn++] ?? { parts: [{ text: 'end' }], end: 'finish' };
        const hasCalls = await speak(parts, { signal, on });
        if (end === 'fail') throw new AgentError('models.down', { status: 500, hint: 'h' }, 'It is down.');
        if (end === 'lose') await lose().then(() => speak(zombie, { signal, on }));
        if (end === 'die') return await (void kill(life), forever());
        if (end === 'cancel') return await (void life.worker.runner.cancel(owner, run), untilStopped(signal));
        return { usage: { ...noUsage, inputTokens: 1 }, reason: hasCalls ? 'tool_calls' : 'stop' };
      },
    };
    const worker = rig.worker({ model, tools, assembly: { policy }, pollMs: 2, sweepMs: 3 });
    const life: Life = { worker, death: new AbortController() };
    lives.push(life);
    return life;
  }

  async function kill(dying: Life): Promise<void> {
    if (dying.death.signal.aborted) return;
    dying.worker.die();
    if (dying === lives.at(-1)) begin();
    dying.death.abort();
    await rig.takeOver(lives.at(-1)!.worker);
  }

  const lose = () => rig.takeOver(begin().worker);

  begin();
  return {
    run,
    observer,
    life: () => lives.at(-1)!,
    anyLife(number) {
      const living = lives.filter(({ death }) => !death.signal.aborted);
      return living[number % living.length]!;
    },
    close: async () =>
      void (await Promise.all(
        [observer, ...lives.map(({ worker }) => worker)].map((one) => one[Symbol.asyncDispose]()),
      )),
  };
}

async function speak(
  parts: readonly Part[],
  { signal, on }: { signal: AbortSignal; on: (part: ModelPart) => void },
): Promise<boolean> {
  let calls = 0;
  for (const part of parts) {
    await tick();
    if (signal.aborted) return await untilStopped(signal);
    if (part === 'restart') calls = 0;
    if (part === 'restart') on({ type: 'restart' });
    else if (part === 'warning') on({ type: 'warning', code: 'models.slow', message: 'It is slow.' });
    else if ('call' in part) calls += (on(call('x', part.call)), 1);
    else on('text' in part ? say(part.text) : think(part.reasoning));
  }
  return calls > 0;
}

const positionOf = (seen: readonly Emitted[]): Position | null =>
  seen.findLast(({ position }) => position)?.position ?? null;
const isOver = (seen: readonly Emitted[]) => seen.some(({ event }) => isTerminal(event));

/** Submits, answers what is asked, and moves only when a worker dies. */
async function stay(stage: Stage): Promise<Emitted[]> {
  const { run } = stage;
  const seen: Emitted[] = [];
  const answered = new Set<string>();
  const on = (emitted: Emitted) => {
    seen.push(emitted);
    const { event } = emitted;
    if (event.type !== 'approval_request' || answered.has(event.id)) return;
    answered.add(event.id);
    const step = Number(event.id.split(':').at(-1));
    void decide(stage, step);
  };
  const first = stage.life();
  const { watched } = await first.worker.runner.submit(submission('go', { run }), { on, signal: first.death.signal });
  await watched;
  while (!isOver(seen))
    await look(stage.life(), stage.life().worker, { run, seen, on, stays: Number.POSITIVE_INFINITY });
  return seen;
}

/** Answers until somebody takes it: the worker may die meanwhile. */
async function decide({ life, run }: Stage, step: number): Promise<void> {
  const answer = { effect: step % 2 ? ('allow' as const) : ('deny' as const), by: 'me' };
  for (;;) {
    try {
      return await life().worker.runner.answer(owner, { run, step, answer });
    } catch (error) {
      if ((error as { code?: string }).code === 'journal.not_awaiting') return undefined;
      await tick();
    }
  }
}

/** Is here and there for a while, each time from where it left. */
async function comeAndGo(stage: Stage, visits: Visits): Promise<Emitted[]> {
  const seen: Emitted[] = [];
  const on = (emitted: Emitted) => void seen.push(emitted);
  for (let i = 0; !isOver(seen); i++) {
    const life = i % 4 ? stage.life() : stage.anyLife(i >> 2);
    const worker = i % 2 ? stage.observer : life.worker;
    await look(life, worker, { run: stage.run, seen, on, stays: visits[i] ?? Number.POSITIVE_INFINITY });
    await tick();
  }
  return seen;
}

interface Look {
  run: string;
  seen: Emitted[];
  on: (emitted: Emitted) => void;
  stays: number;
}

async function look(life: Life, worker: Worker, { run, seen, on, stays }: Look): Promise<void> {
  const leave = new AbortController();
  const signal = worker === life.worker ? AbortSignal.any([leave.signal, life.death.signal]) : leave.signal;
  let count = 0;
  const see = (emitted: Emitted) => {
    on(emitted);
    if (++count >= stays) leave.abort();
  };
  if (stays === 0) return;
  try {
    await worker.runner.watch({ ...owner, run, after: positionOf(seen) }, { on: see, signal });
  } catch (error) {
    const isEarly = (error as { code?: string }).code === 'journal.run_not_found';
    if (!isEarly && !life.death.signal.aborted) throw error;
  }
}
