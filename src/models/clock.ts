// The watch over one call of a model: three time limits and the caller's abort, whatever protocol it speaks.
import type { AgentError } from '../kernel/errors.ts';
import { modelsError } from './errors.ts';

/** Milliseconds. Only parts of the answer count: comments, pings and empty chunks do not. */
export interface ModelLimits {
  /** From the call to the first part. */
  firstTokenMs: number;
  /** Between two parts. */
  idleMs: number;
  /** From the call to the end of the answer. */
  totalMs: number;
}

export const defaultModelLimits: ModelLimits = { firstTokenMs: 120_000, idleMs: 60_000, totalMs: 15 * 60_000 };

export interface Watched {
  /** Named in the errors. */
  provider: string;
  limits: ModelLimits;
  signal: AbortSignal;
}

export interface Alarms {
  abort: (reason: Error) => void;
  /** With `models.timeout_*`. */
  late: (error: AgentError) => void;
}

export interface Watch {
  /** A part came. `isFinished`: only usage and the end of the body may still come. */
  heard(isFinished?: boolean): void;
  stop(): void;
}

/** After its reason to end, an answer waits at most this long for usage and the end of the body. */
const FINISH_MS = 5000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** One timer for all three limits; `heard` costs no timer but at the first part and at the finish. */
export function startWatch({ provider, limits, signal }: Watched, alarms: Alarms): Watch {
  const begun = performance.now();
  let last: number | undefined;
  let idleMs = limits.idleMs;
  let timer: NodeJS.Timeout | undefined;

  const until = () => {
    const quiet = last === undefined ? begun + limits.firstTokenMs : last + idleMs;
    return Math.min(quiet, begun + limits.totalMs);
  };
  const check = () => {
    const now = performance.now();
    if (now < until()) return arm();
    const isTotal = now >= begun + limits.totalMs;
    alarms.late(toLate(isTotal ? 'timeout_total' : last === undefined ? 'timeout_first' : 'timeout_idle'));
  };
  const arm = () => {
    clearTimeout(timer);
    timer = setTimeout(check, Math.min(Math.ceil(until() - performance.now()), MAX_TIMER_MS));
  };
  const abort = () => alarms.abort(signal.reason as Error);

  function toLate(kind: 'timeout_first' | 'timeout_idle' | 'timeout_total'): AgentError {
    const messages = {
      timeout_first: `${provider} did not begin to answer within ${limits.firstTokenMs / 1000} s.`,
      timeout_idle: `${provider} was silent for ${limits.idleMs / 1000} s in the middle of its answer.`,
      timeout_total: `${provider} did not end its answer within ${limits.totalMs / 1000} s.`,
    };
    return modelsError(kind, messages[kind], { data: { provider } });
  }

  signal.addEventListener('abort', abort, { once: true });
  arm();
  return {
    heard(isFinished = false) {
      const isFirst = last === undefined;
      last = performance.now();
      if (isFinished) idleMs = Math.min(limits.idleMs, FINISH_MS);
      if (isFirst || isFinished) arm();
    },
    stop() {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    },
  };
}
