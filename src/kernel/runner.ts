// Runs of one process: takes messages, advances what it has claimed, takes over what others left, and shows it all to
// whoever watches. The rows of the journal are the truth; everything here may be lost at any moment.
import { LONGEST_TIMER_MS } from './calls.ts';
import { stopping } from './endings.ts';
import { AgentError, messageOf } from './errors.ts';
import type { AgentEvent, Emitted, Position } from './events.ts';
import { isTerminal } from './events.ts';
import { createHistoryCache } from './history-cache.ts';
import type { Claim, Journal, RunStatus, Submission, Submitted } from './journal.ts';
import { journalError } from './journal.ts';
import type { Live } from './live.ts';
import { createLive } from './live.ts';
import type { Assembly, Stop } from './assembly.ts';
import { advance } from './loop.ts';
import type { Middleware } from './middleware.ts';
import type { Answer } from './policy.ts';
import { createCursor, replay } from './replay.ts';
import type { Mask } from './shown.ts';

/** Shaped like pino's methods. */
export interface Log {
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
}

export interface Owner {
  tenant: string;
  owner: string;
}

export interface Viewer {
  on: (emitted: Emitted) => void;
  /** Ends the watching, never the run. */
  signal: AbortSignal;
  /** The watching also ends when the run waits for a person. */
  isUntilWaiting?: boolean;
}

export interface RunnerConfig {
  journal: Journal;
  /** Unique to this process's life; it owns the leases. */
  worker: string;
  /** Makes what a run needs; what it throws ends the run with that error. */
  assemble: (claim: Claim) => Assembly | Promise<Assembly>;
  log: Log;
  /** What events show of arguments and results; all of it when absent. */
  mask?: Mask;
  /** Told at each start and end of a run here. */
  onChange?: (change: { claim: Claim; event: AgentEvent }) => void;
  /** Milliseconds between renewals of leases, between looks for runs to take over, and between looks at a foreign run. */
  renewMs?: number;
  sweepMs?: number;
  pollMs?: number;
}

export interface Runner extends AsyncDisposable {
  /**
   * Records a message and starts its run. A viewer sees every event from the first on; `watched` then resolves as
   * `watch` does. Throws as `Journal.submit`.
   */
  submit(submission: Omit<Submission, 'worker'>, viewer?: Viewer): Promise<Submitted & { watched: Promise<void> }>;
  /**
   * Shows a run from after `after` (null: from its start) to its end, wherever it is advanced. Resolves after the terminal
   * event, when `signal` aborts, or when this runner is disposed. Throws `journal.run_not_found`.
   */
  watch(watched: Owner & { run: string; after: Position | null }, viewer: Viewer): Promise<void>;
  /** Ends a run. Undefined: this owner has no such run. */
  cancel(owner: Owner, run: string): Promise<RunStatus | undefined>;
  answer(owner: Owner, approval: { run: string; step: number; answer: Answer }): Promise<void>;
  /** Looks for runs to take over, now. */
  sweep(): Promise<void>;
  /** Runs that this process advances. */
  activeCount(): number;
}

interface Active {
  claim: Claim;
  live: Live;
  stop: (why: Stop) => void;
}

export function createRunner(config: RunnerConfig): Runner {
  const { journal, worker, assemble, log, mask, onChange, renewMs = 1500, sweepMs = 1000, pollMs = 250 } = config;
  const cache = createHistoryCache({ limitBytes: 16_000_000, idleMs: 60_000 });
  const active = new Map<string, Active>();
  const tasks = new Set<Promise<void>>();
  const watching = new Set<Promise<void>>();
  const startHints = new Map<string, Set<() => void>>();
  let closing = false;

  function start(claim: Claim): Live {
    const controller = new AbortController();
    let stopped: Stop | undefined;
    const stop = (why: Stop) => {
      stopped ??= why;
      if (!controller.signal.aborted) controller.abort(new DOMException(why, 'AbortError'));
    };
    let made: Assembly | undefined;
    const live = createLive(claim, (event) => observe({ claim, event }, made?.middleware));
    const entry: Active = { claim, live, stop };
    active.set(claim.run, entry);
    if (claim.cancelled) stop('cancelled');
    if (closing) stop('shutdown');
    for (const wake of startHints.get(claim.run) ?? []) wake();
    const run = async () => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      try {
        made = await assembleOrFail(claim, controller.signal);
        const leftMs = Math.max(0, made.limits.runMs - claim.ageMs);
        timer = setTimeout(stop, Math.min(leftMs, LONGEST_TIMER_MS), 'timeout');
        const environment = { journal, cache, worker, live, mask, signal: controller.signal, stopped: () => stopped };
        return await advance(claim, made, environment);
      } catch (error) {
        // The record could not be reached or read: nothing more is known here. The lease runs out and the run is claimed anew.
        log.error({ err: error, run: claim.run }, `A run stopped here: ${messageOf(error)}`);
        const code = error instanceof AgentError ? error.code : 'run.interrupted';
        const why = error instanceof AgentError ? error.message : 'Its record cannot be written now.';
        live.notify({ type: 'warning', code, message: `This run stopped, and goes on when it can: ${why}` });
        return null;
      } finally {
        clearTimeout(timer);
        // Its place may be its successor's, claimed by this very process.
        if (active.get(claim.run) === entry) active.delete(claim.run);
        live.end();
      }
    };
    const task = run().then(async (following) => {
      // First: its lease runs already.
      if (following && !closing) start(following);
      await leave(claim, made);
      tasks.delete(task);
    });
    tasks.add(task);
    return live;
  }

  async function leave({ run }: Claim, made: Assembly | undefined): Promise<void> {
    try {
      await made?.close?.();
    } catch (error) {
      log.error({ err: error, run }, `What a run had could not be closed: ${messageOf(error)}`);
    }
  }

  /** The short way for who submitted: from the first event on, with nothing to catch up. */
  async function watchFresh(claim: Claim, live: Live, viewer: Viewer): Promise<void> {
    const { on, signal } = viewer;
    let after: Position | null = null;
    let ended = false;
    const detach = live.attach((emitted) => {
      after = emitted.position ?? after;
      ended = isTerminal(emitted.event);
      guard(() => on(emitted));
    });
    signal.addEventListener('abort', detach, { once: true });
    await Promise.race([live.ended, aborted(signal)]);
    if (!ended && !signal.aborted && !closing) await watch({ ...claim, after }, viewer);
  }

  function observe(
    { claim, event }: { claim: Claim; event: AgentEvent },
    middleware: readonly Middleware[] = [],
  ): void {
    for (const layer of middleware) if (layer.event) guard(() => layer.event!(event, claim));
    if (onChange && event.type !== 'token' && event.type !== 'reasoning') guard(() => onChange({ claim, event }));
  }

  /** An observer never changes the answer. */
  function guard(look: () => void): void {
    try {
      look();
    } catch (error) {
      log.warn({ err: error }, `An observer failed: ${messageOf(error)}`);
    }
  }

  /** What cannot be assembled becomes a run whose first model call says why. */
  async function assembleOrFail(claim: Claim, signal: AbortSignal): Promise<Assembly> {
    try {
      const made = await Promise.race([assemble(claim), aborted(signal)]);
      if (!made) throw signal.reason;
      return made;
    } catch (error) {
      return { ...nothing, model: { name: claim.request.model, call: () => Promise.reject(error) } };
    }
  }

  async function sweep(): Promise<void> {
    if (closing) return;
    cache.trim();
    for (const claim of await journal.claim(worker, { limit: 32, held: [...active.keys()] })) {
      if (closing) return;
      active.get(claim.run)?.stop('lost');
      start(claim);
    }
  }

  /** What failed now is looked for again within a second. */
  async function lookNow(): Promise<void> {
    await sweep().catch((error: unknown) => {
      log.warn({ err: error }, `Looking for runs failed: ${messageOf(error)}`);
    });
  }

  async function renew(): Promise<void> {
    if (!active.size) return;
    const before = new Map(active);
    const held = new Map((await journal.renew(worker, [...before.keys()])).map((lease) => [lease.run, lease]));
    for (const [run, { claim, stop }] of before) {
      const lease = held.get(run);
      if (lease?.epoch === claim.epoch) {
        if (lease.cancelled) stop('cancelled');
      } else if (active.get(run)?.claim === claim) stop('lost');
    }
  }

  const every = (ms: number, work: () => Promise<void>, what: string) => {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      work()
        .catch((error: unknown) => log.error({ err: error }, `${what} failed: ${messageOf(error)}`))
        .finally(() => {
          busy = false;
        });
    }, ms);
    timer.unref?.(); // keeps no process alive that has nothing else to do
    return timer;
  };
  const timers = [every(renewMs, renew, 'Renewing leases'), every(sweepMs, sweep, 'Looking for runs')];

  /** Resolves when the run starts here, after a while, or on abort; whichever is first. */
  function pause(run: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const hints = startHints.get(run) ?? new Set();
      startHints.set(run, hints);
      const wake = () => {
        clearTimeout(timer);
        hints.delete(wake);
        if (!hints.size) startHints.delete(run);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, pollMs);
      hints.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }

  /** Whoever watches reads the journal, so it must not be closed before they have left. */
  const watch: Runner['watch'] = (watched, viewer) => {
    const task = follow(watched, viewer).finally(() => watching.delete(task));
    watching.add(task);
    return task;
  };

  const follow: Runner['watch'] = async ({ tenant, owner, run, after }, { on, signal, isUntilWaiting }) => {
    let ended = false;
    const cursor = createCursor(after, (emitted) => {
      if (ended || signal.aborted) return;
      ended = isTerminal(emitted.event);
      guard(() => on(emitted));
    });
    while (!ended && !signal.aborted && !closing) {
      const live = active.get(run)?.live;
      const held: Emitted[] = [];
      let isCaughtUp = false;
      const detach = live?.attach((emitted) => (isCaughtUp ? cursor.deliver(emitted) : held.push(emitted)));
      try {
        held.push(...(live?.snapshot() ?? []));
        const record = await journal.load({ tenant, owner }, run, cursor.seenCommits());
        if (!record) throw journalError('run_not_found', `There is no run ${run}.`);
        for (const emitted of [...replay(record, mask), ...held]) cursor.deliver(emitted);
        isCaughtUp = true;
        // Who comes back after the end has nothing more to see.
        ended ||= record.outcome !== null || (isUntilWaiting === true && record.status === 'waiting');
        if (live && !ended) await Promise.race([live.ended, aborted(signal)]);
      } finally {
        detach?.();
      }
      if (!ended && !signal.aborted && !closing && !active.has(run)) await pause(run, signal);
    }
  };

  return {
    watch,
    sweep,
    activeCount: () => active.size,
    async submit(submission, viewer) {
      if (closing) throw stopping();
      const submitted = await journal.submit({ ...submission, worker });
      if (submitted.outcome === 'claimed') {
        const live = start(submitted.claim);
        return { ...submitted, watched: viewer ? watchFresh(submitted.claim, live, viewer) : Promise.resolve() };
      }
      if (!viewer) return { ...submitted, watched: Promise.resolve() };
      const run = submitted.outcome === 'duplicate' ? submitted.run : submission.run;
      return { ...submitted, watched: watch({ ...submission, run, after: null }, viewer) };
    },
    async cancel(owner, run) {
      const status = await journal.cancel(owner, run);
      if (status === 'running' || status === 'queued') {
        const here = active.get(run);
        if (here) here.stop('cancelled');
        else await lookNow();
      }
      return status;
    },
    async answer(owner, { run, step, answer }) {
      await journal.answer(owner, run, step, answer);
      await lookNow();
    },
    async [Symbol.asyncDispose]() {
      closing = true;
      for (const timer of timers) clearInterval(timer);
      for (const { stop } of active.values()) stop('shutdown');
      for (const hints of startHints.values()) for (const wake of hints) wake();
      while (tasks.size) await Promise.all(tasks);
      await Promise.allSettled(watching);
      await journal.release(worker);
    },
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

const nothing: Omit<Assembly, 'model'> = {
  agent: '',
  system: '',
  tools: new Map(),
  policy: { decide: () => ({ effect: 'deny', why: 'Nothing is assembled.' }) },
  middleware: [],
  limits: { steps: Number.POSITIVE_INFINITY, runMs: Number.POSITIVE_INFINITY, toolMs: 60_000 },
  window: { messages: 50, tokens: 100_000, resultChars: 50_000 },
};
