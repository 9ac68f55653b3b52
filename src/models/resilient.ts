import { AgentError } from '../kernel/errors.ts';
import type { Model, ModelPart } from '../kernel/model.ts';

export interface ResilientConfig {
  /** Further attempts after the first one. Default 2. */
  retries?: number;
  /** The wait before attempt n + 1 is a random part of this times 2^n. Milliseconds, default 300. */
  baseMs?: number;
  /** The longest wait that a provider may ask for; where it asks for more, the error passes. Default 20,000. */
  maxWaitMs?: number;
  /** From 0 to 1. */
  random?: () => number;
}

/**
 * Asks again after an error that may pass, as long as nothing of the answer was handed over: after the first part every
 * error passes through. Each retry is told as a `warning` part `models.retry`. Waiting ends at once on abort.
 */
export function createResilientModel(model: Model, config: ResilientConfig = {}): Model {
  const { retries = 2, baseMs = 300, maxWaitMs = 20_000, random = Math.random } = config;
  return {
    name: model.name,
    async call(request, signal, on) {
      let hasBegun = false;
      const watch = (part: ModelPart) => {
        if (part.type !== 'warning' && part.type !== 'restart') hasBegun = true;
        on(part);
      };
      for (let attempt = 0; ; attempt++) {
        try {
          return await model.call(request, signal, watch);
        } catch (error) {
          if (signal.aborted || hasBegun || attempt >= retries) throw error;
          if (!(error instanceof AgentError) || !error.retryable) throw error;
          const asked = Number(error.data?.retryAfterMs ?? 0);
          if (asked > maxWaitMs) throw error;
          const waitMs = asked + random() * baseMs * 2 ** attempt;
          const when = `Trying again in ${(waitMs / 1000).toFixed(1)} s (${attempt + 1} of ${retries}).`;
          on({ type: 'warning', code: 'models.retry', message: `${error.message} ${when}` });
          await wait(waitMs, signal);
        }
      }
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
