// How a run ends other than by an answer, or why it does not begin, in words for people.
import { defineErrors } from './errors.ts';
import type { EndReason } from './events.ts';
import type { FinishReason } from './model.ts';

export const runError = defineErrors('run', {
  timeout: { status: 504, hint: 'Ask for less at once, or raise limits.runMs in the configuration.' },
  gave_up: { status: 500, hint: 'Look at the server log: a tool may end the process. Then send the message again.' },
  stopping: { status: 503, hint: 'Send the request again in a moment.', retryable: true },
  empty_answer: { status: 502, hint: 'Send the message again, or choose another model.' },
  output_invalid: {
    status: 502,
    hint: 'Simplify the "output" schema, or choose a model that is better at calling tools.',
  },
});

/** A run that brings its worker down each time must not bring down all of them for ever. */
export const MOST_ATTEMPTS = 10;

export const timedOut = (runMs: number) =>
  runError('timeout', `The run took longer than its limit of ${runMs / 1000} s.`);

export const gaveUp = (attempts: number) =>
  runError('gave_up', `The server stopped ${attempts} times in a row while it worked on this.`);

export const stopping = () => runError('stopping', 'The server is stopping.');

export const emptyAnswer = (model: string) => runError('empty_answer', `${model} answered with nothing, twice.`);

export const noFinal = (model: string, tool: string) =>
  runError('output_invalid', `${model} gave no valid ${tool}, also when asked again.`);

export function toReason(reason: FinishReason): EndReason {
  return reason === 'length' || reason === 'content_filter' ? reason : 'done';
}
