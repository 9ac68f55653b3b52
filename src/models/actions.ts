// What is done about each error of a model: the one table that retries, fallbacks and breakers go by.
import { AgentError } from '../kernel/errors.ts';
import type { modelsError } from './errors.ts';

export type ErrorClass = 'output' | 'request' | 'auth' | 'quota' | 'overload' | 'network' | 'limits';

/**
 * `retry`: the same host again, after a wait with jitter. `restart`: the same, but what was shown becomes void.
 * `next`: this host will not do, another may. `end`: no host would do better. Where no attempt is left, `retry` and
 * `restart` are `next`; where no fallback is left, everything is `end`.
 */
export type Action = 'retry' | 'restart' | 'next' | 'end';

export interface Rule {
  class: ErrorClass;
  /** While nothing of the answer was shown. */
  before: Exclude<Action, 'restart'>;
  /** Once something was. */
  after: Exclude<Action, 'retry'>;
  /** Tells that the host is ill, whatever it is asked: counts for its breaker. */
  isHostIll: boolean;
}

const again = { before: 'retry', after: 'restart' } as const;
const next = { before: 'next', after: 'next', isHostIll: false } as const;
const end = { before: 'end', after: 'end', isHostIll: false } as const;

type Kind = keyof (typeof modelsError)['kinds'];

/** A full table: a new kind of error does not compile without its row. */
export const errorRules: Record<Kind, Rule> = {
  bad_request: { class: 'request', ...end },
  context_length: { class: 'request', ...end },
  // Another model may take it; where none does, the first one's refusal is told.
  file_unsupported: { class: 'request', ...next },
  not_found: { class: 'request', ...next },
  not_configured: { class: 'auth', ...next },
  package_missing: { class: 'auth', ...next },
  auth: { class: 'auth', ...next },
  quota: { class: 'quota', ...next },
  // The host is well, and says itself when it may be asked again; other models and keys are not concerned.
  rate_limited: { class: 'overload', ...again, isHostIll: false },
  overloaded: { class: 'overload', ...again, isHostIll: true },
  unavailable: { class: 'overload', ...again, isHostIll: true },
  network: { class: 'network', ...again, isHostIll: true },
  timeout_first: { class: 'network', ...again, isHostIll: true },
  timeout_idle: { class: 'network', ...again, isHostIll: true },
  // Often a proxy that ends long answers: the next short one is fine.
  stream_cut: { class: 'network', ...again, isHostIll: false },
  stream_invalid: { class: 'output', ...again, isHostIll: false },
  host_down: { class: 'network', ...next },
  timeout_total: { class: 'limits', ...end },
  error: { class: 'output', ...next },
};

const byCode = new Map<string, Rule>(Object.entries(errorRules).map(([kind, rule]) => [`models.${kind}`, rule]));

/** The rule for anything that a model threw. What the table does not know ends, unless it says that it may pass. */
export function ruleOf(error: unknown): Rule {
  const known = error instanceof AgentError ? byCode.get(error.code) : undefined;
  if (known) return known;
  const mayPass = error instanceof AgentError && error.retryable;
  return { class: 'output', ...(mayPass ? again : end), isHostIll: false };
}

export function actionOf(error: unknown, isShown: boolean): Action {
  const { before, after } = ruleOf(error);
  return isShown ? after : before;
}
