// One breaker a host: after some failures in a row nobody waits for it any more, until one call finds it well again.
import * as z from 'zod';
import { AgentError, messageOf } from '../kernel/errors.ts';
import type { Model, ModelPart } from '../kernel/model.ts';
import { ruleOf } from './actions.ts';
import { modelsError } from './errors.ts';

const defaults = { failures: 5, coolDownMs: 30_000 };

/** The `breaker:` key of the models' configuration. */
export const breakerConfig = z
  .strictObject({
    failures: z
      .int()
      .min(1)
      .default(defaults.failures)
      .describe('Failures of a host in a row after which nobody waits for it any more. Default 5.'),
    coolDownMs: z
      .int()
      .min(1)
      .default(defaults.coolDownMs)
      .describe('Milliseconds until one call finds out whether it is well again. Default 30000.'),
  })
  .prefault({});

export interface BreakerConfig extends Partial<z.output<typeof breakerConfig>> {
  /** Named in the error. */
  host: string;
  /** Milliseconds since 1970. */
  now?: () => number;
}

export type BreakerState = 'closed' | 'open' | 'half_open';

export interface Breaker {
  readonly state: BreakerState;
  /** The same model; its calls fail at once with `models.host_down` while the breaker is open. */
  guard(model: Model): Model;
}

/** Warnings and restarts are ours. */
const isOfHost = ({ type }: ModelPart): boolean => type === 'text' || type === 'reasoning' || type === 'tool_call';

/** The host itself answered, if only to refuse this request: it lives. */
function isRefusal(error: unknown): boolean {
  const status = error instanceof AgentError ? error.data?.httpStatus : undefined;
  return typeof status === 'number' && status >= 400 && status < 500 && !ruleOf(error).isHostIll;
}

/**
 * Only errors that tell of the host's health count, only in a row, and over all models that it guards. Others, and
 * calls that were aborted, leave everything as it is: an illegal request must not take a host away from everybody.
 */
export function createBreaker(config: BreakerConfig): Breaker {
  const { host, failures, coolDownMs, now = Date.now } = { ...defaults, ...config };
  let count = 0;
  let down: { since: number; until: number; why: string } | undefined;
  let isProbing = false;

  const state = (): BreakerState => (!down ? 'closed' : now() < down.until ? 'open' : 'half_open');

  function refusal({ since, until, why }: NonNullable<typeof down>): AgentError {
    const [from, to] = [since, until].map((ms) => new Date(ms).toISOString());
    const message =
      until > now()
        ? `${host} has been failing since ${from} and is not asked again until ${to}. The last error: ${why}`
        : `${host} has been failing since ${from}; since ${to} one call is finding out whether it is well again. The last error: ${why}`;
    const retryAfterMs = Math.max(until - now(), 0);
    return modelsError('host_down', message, { data: { provider: host, since: from!, until: to!, retryAfterMs } });
  }

  function failed(error: unknown, isProbe: boolean): void {
    if (!ruleOf(error).isHostIll) return;
    count++;
    const since = down?.since ?? now();
    // Calls from before it opened come in late and say nothing new.
    if (down ? isProbe : count >= failures) down = { since, until: now() + coolDownMs, why: messageOf(error) };
  }

  return {
    get state() {
      return state();
    },
    guard: (model) => ({
      name: model.name,
      async call(request, signal, on) {
        if (down && (isProbing || state() === 'open')) throw refusal(down);
        let isProbe = down !== undefined;
        if (isProbe) isProbing = true;
        const recover = () => {
          if (isProbe) isProbing = isProbe = false;
          count = 0;
          down = undefined;
        };
        try {
          const finish = await model.call(request, signal, (part) => {
            if (isProbe && isOfHost(part)) recover();
            on(part);
          });
          recover();
          return finish;
        } catch (error) {
          if (isProbe && isRefusal(error)) recover();
          else if (!signal.aborted) failed(error, isProbe);
          throw error;
        } finally {
          if (isProbe) isProbing = false;
        }
      },
    }),
  };
}
