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

interface Step {
  from: string;
  to: string;
  why: string;
}

/** `from`, `to` and `why` are for programs; people read the message. */
function fallback(step: Step): ModelPart {
  const message = `${step.from} cannot answer now: ${step.why} Going on with ${step.to}.`;
  const part = { type: 'warning' as const, code: 'model.fallback', message, ...step };
  return part;
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
