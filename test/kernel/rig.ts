// Several workers on one journal whose clock stands still: leases run out, and runs are taken over, when a test says so.
import type {
  AgentEvent,
  Assembly,
  Emitted,
  Journal,
  Model,
  Runner,
  RunnerConfig,
  Tool,
} from '../../src/kernel/index.ts';
import { allowAll, createMemoryJournal, createRunner, defaultLimits, defaultWindow } from '../../src/kernel/index.ts';
import { createClock } from '../../src/testing/clock.ts';

export const owner = { tenant: 'default', owner: 'owner' };
export const web = { ...owner, conversation: 'web' };

export interface Worker extends AsyncDisposable {
  runner: Runner;
  /** What this worker itself said, whoever watched. */
  said: AgentEvent[];
  /** What went wrong, as logged. */
  logged: string[];
  /** As `kill -9` leaves it: it may go on as it likes, but reaches the journal no more. */
  die(): void;
}

export interface WorkerConfig extends Partial<Omit<RunnerConfig, 'journal'>> {
  model: Model;
  tools?: readonly Tool[];
  assembly?: Partial<Assembly>;
  /** Between this worker and the journal. */
  wrap?: (journal: Journal) => Journal;
}

const NEVER_MS = 10 ** 8;

export function createRig() {
  const clock = createClock();
  const journal = createMemoryJournal({ now: clock.now });
  let workers = 0;

  function worker({ model, tools = [], assembly, wrap = (it) => it, ...more }: WorkerConfig): Worker {
    const said: AgentEvent[] = [];
    const logged: string[] = [];
    let isDead = false;
    const log = {
      warn: (_: object, text: string) => void logged.push(text),
      error: (_: object, text: string) => void logged.push(text),
    };
    const runner = createRunner({
      journal: intercept(wrap(journal), (method) => {
        if (isDead && method !== 'release') throw new Error('dead');
        return undefined;
      }),
      worker: `w${++workers}`,
      log,
      renewMs: NEVER_MS,
      sweepMs: NEVER_MS,
      pollMs: 3,
      assemble: () => ({
        agent: 'agent',
        model,
        system: '',
        tools: new Map(tools.map((tool) => [tool.name, tool])),
        policy: allowAll,
        middleware: [{ name: 'listens', event: (event) => void (isDead || said.push(event)) }],
        limits: defaultLimits,
        window: defaultWindow,
        ...assembly,
      }),
      ...more,
    });
    const die = () => void (isDead = true);
    return { runner, said, logged, die, [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose]() };
  }

  return {
    clock,
    journal,
    worker,
    entries: () => journal.history(web, { seq: 0, bytes: 0 }),
    /** Its leases are over, and the other worker looks for work. */
    async takeOver(by: Worker) {
      clock.advance(6000);
      await by.runner.sweep();
    },
  };
}

/** A journal that asks before each call; what is answered is awaited first. */
export function intercept(journal: Journal, before: (method: keyof Journal) => Promise<void> | undefined): Journal {
  return new Proxy(journal, {
    get:
      (target, method: keyof Journal) =>
      async (...args: never[]) => {
        // No turn of the event loop between the question and the call: who is dead does not call.
        const wait = before(method);
        if (wait) await wait;
        return await (target[method] as (...args: never[]) => Promise<unknown>)(...args);
      },
  });
}

export function submission(text: string, more: { run?: string; conversation?: string } = {}) {
  const message = { parts: [{ type: 'text' as const, text }] };
  return { ...web, run: crypto.randomUUID(), message, request: { agent: 'agent', model: 'm' }, ...more };
}

/** Watches a run until it ends; gives what came, with its positions. */
export async function watch(runner: Runner, run: string, after: Emitted['position'] = null): Promise<Emitted[]> {
  const seen: Emitted[] = [];
  await runner.watch(
    { ...owner, run, after },
    { on: (emitted) => void seen.push(emitted), signal: AbortSignal.timeout(3000) },
  );
  return seen;
}

export const eventsOf = (seen: readonly Emitted[]): AgentEvent[] => seen.map(({ event }) => event);
