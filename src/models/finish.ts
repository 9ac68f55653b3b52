import type { FinishReason } from '../kernel/model.ts';
import { faultOf, mask, modelsError } from './errors.ts';

const reasons = new Map<string, FinishReason>([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['complete', 'stop'],
  ['completed', 'stop'],
  ['tool_calls', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['safety', 'content_filter'],
  ['refusal', 'content_filter'],
]);

/**
 * What a host's word for the end of an answer means. Throws `models.*` for a fault of the host, and `models.error` for
 * a word that nobody knows: such an answer may not be taken for a whole one.
 */
export function toFinishReason(said: string, host: { provider: string; secrets?: readonly string[] }): FinishReason {
  const reason = reasons.get(said.toLowerCase());
  if (reason) return reason;
  const failure = faultOf(said);
  const what = failure ? 'broke the answer off' : 'ended the answer for an unknown reason';
  const shown = mask(said.slice(0, 80), host.secrets ?? []);
  throw modelsError(failure ?? 'error', `${host.provider} ${what}: ${shown}.`);
}
