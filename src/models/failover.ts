import { AgentError, messageOf } from '../kernel/errors.ts';
import type { Model, ModelPart } from '../kernel/model.ts';
import { actionOf } from './actions.ts';
import { createStage } from './resilient.ts';

/**
 * Asks each model in order until one answers, as the table of errors says (`actions.ts`). Each step is told as a
 * `warning` part `model.fallback`; what a failed one showed becomes void. Every model gets the very same neutral
 * request and makes its own of it. The finish names the model that answered.
 */
export function createFailoverModel(models: readonly [Model, ...Model[]]): Model {
  return {
    name: models[0].name,
    async call(request, signal, on) {
      const stage = createStage(on);
      const failures: { model: Model; error: unknown }[] = [];
      for (const [index, model] of models.entries()) {
        const { show, hasShown } = stage.begin();
        try {
          const finish = await model.call(request, signal, show);
          stage.complete();
          return { ...finish, model: finish.model ?? model.name };
        } catch (error) {
          stage.stop();
          if (signal.aborted) throw error;
          failures.push({ model, error });
          const next = models[index + 1];
          if (!next || actionOf(error, hasShown()) === 'end') break;
          on(fallback({ from: model.name, to: next.name, why: messageOf(error) }));
        }
      }
      throw combine(failures);
    },
  };
}

function fallback({ from, to, why }: { from: string; to: string; why: string }): ModelPart {
  const message = `${from} cannot answer now: ${why} Going on with ${to}.`;
  return { type: 'warning', code: 'model.fallback', message, data: { from, to, why } };
}

/** A prefix of model names as people write it: in any case, with a star or without. */
export const toPrefix = (text: string): string => text.trim().toLowerCase().replace(/\*$/, '');

/** The fallbacks of the longest prefix that any of a model's names has. */
export function fallbacksOf(table: Record<string, string[]>, names: string[]): string[] {
  const rows = Object.entries(table).map(([prefix, list]) => [toPrefix(prefix), list] as const);
  const fitting = rows.filter(([prefix]) => names.some((name) => name.toLowerCase().startsWith(prefix)));
  const [, list = []] = fitting.sort(([a], [b]) => b.length - a.length)[0] ?? [];
  return [...new Set(list.map((name) => name.trim()))];
}

/** The error of the model that was asked for, and in its message what became of the fallbacks. */
function combine([first, ...others]: { model: Model; error: unknown }[]): unknown {
  const error = first?.error;
  if (!others.length || !(error instanceof AgentError)) return error;
  const rest = others.map(({ model, error }) => `${model.name}: ${messageOf(error)}`).join(' ');
  const { code, status, hint, retryable, data } = error;
  const details = { cause: error, ...(data && { data }) };
  return new AgentError(code, { status, hint, retryable }, `${error.message} Fallbacks failed, too. ${rest}`, details);
}
