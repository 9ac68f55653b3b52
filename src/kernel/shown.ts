import type { Json } from './messages.ts';
import { clip } from './project.ts';

/** Takes out of arguments and results what nobody should see; what it makes of a value is only shown. */
export type Mask = (value: Json) => Json;

/** A longer result is shown by its head and tail, and the whole is had by the id of its call. Characters of its JSON. */
export const SHOWN_CHARS = 64_000;

export function toShown(result: Json, mask?: Mask): { result: Json; truncated?: true } {
  const shown = mask ? mask(result) : result;
  const text = typeof shown === 'string' ? shown : JSON.stringify(shown);
  return text.length > SHOWN_CHARS ? { result: clip(text, SHOWN_CHARS), truncated: true } : { result: shown };
}
