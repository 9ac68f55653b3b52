import { AgentError, messageOf } from '../kernel/errors.ts';
import type { Model, ModelPart } from '../kernel/model.ts';
import { actionOf } from './actions.ts';

export interface ResilientConfig {
  /** Further attempts after ones that showed nothing. Default 2. */
  retries?: number;
  /** Further attempts after ones that broke off after their first part. Default 1. */
  restarts?: number;
  /** The wait before attempt n + 1 is a random part of this times 2^n. Milliseconds, default 300. */
  baseMs?: number;
  /** The longest wait that a provider may ask for; where it asks for more, the error passes. Default 20,000. */
  maxWaitMs?: number;
  /** From 0 to 1. */
  random?: () => number;
}

/**
 * Asks the same model again where the table of errors says so (`actions.ts`): before the first part with a `warning`
 * part `models.retry`; after it with `models.restarted`, and what was shown becomes void. Waiting ends at once on abort.
 */
export function createResilientModel(model: Model, config: ResilientConfig = {}): Model {
  const { retries = 2, restarts = 1, baseMs = 300, maxWaitMs = 20_000, random = Math.random } = config;
  return {
    name: model.name,
    async call(request, signal, on) {
      const stage = createStage(on);
      const done = { retry: 0, restart: 0 };
      for (let attempt = 0; ; attempt++) {
        const { show, hasShown } = stage.begin();
        try {
          const finish = await model.call(request, signal, show);
          stage.complete();
          return finish;
        } catch (error) {
          stage.stop();
          if (signal.aborted) throw error;
          const action = actionOf(error, hasShown());
          if (action !== 'retry' && action !== 'restart') throw error;
          const most = action === 'retry' ? retries : restarts;
          const asked = error instanceof AgentError ? Number(error.data?.retryAfterMs ?? 0) : 0;
          if (done[action] >= most || asked > maxWaitMs) throw error;
          const n = ++done[action];
          const waitMs = asked + random() * baseMs * 2 ** attempt;
          const code = action === 'retry' ? 'models.retry' : 'models.restarted';
          const what = action === 'retry' ? 'Trying again' : 'The answer begins anew';
          const when = `${what} in ${(waitMs / 1000).toFixed(1)} s (${n} of ${most}).`;
          on({ type: 'warning', code, message: `${messageOf(error)} ${when}` });
          await wait(waitMs, signal);
        }
      }
    },
  };
}

export interface Stage {
  /** A new attempt. What an earlier one still says is not heard. */
  begin(): { show: (part: ModelPart) => void; hasShown: () => boolean };
  /** The attempt is over; it says nothing more. */
  stop(): void;
  /** The same, and what it said is the answer. */
  complete(): void;
}

/**
 * Several attempts at one answer. What a failed one showed stays until there is something to replace it: `restart` is
 * handed over right before the next attempt's first part. So when none comes, people keep the half that they have seen.
 */
export function createStage(on: (part: ModelPart) => void): Stage {
  let current = 0;
  let isStale = false;
  let isShown = false;
  const replace = () => {
    if (!isStale) return;
    isStale = isShown = false;
    on({ type: 'restart' });
  };
  return {
    begin() {
      const attempt = ++current;
      isStale = isShown;
      const show = (part: ModelPart) => {
        if (attempt !== current) return;
        if (part.type === 'warning') return on(part);
        if (part.type !== 'restart') {
          replace();
          isShown = true;
          return on(part);
        }
        // A restart from below voids what is shown, whoever showed it.
        if (isShown) on(part);
        isStale = isShown = false;
      };
      return { show, hasShown: () => isShown && !isStale };
    },
    stop: () => void current++,
    complete() {
      current++;
      replace();
    },
  };
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal.addEventListener('abort', abort, { once: true });
  });
}
