import type { Json } from './messages.ts';
import { clip } from './project.ts';

/** Takes out of arguments and results what nobody should see; what it makes of a value is only shown. */
export type Mask = (value: Json) => Json;

/** A longer result is shown by its head and tail, and the whole is had by the id of its call. Characters of its JSON. */
export const SHOWN_CHARS = 64_000;

/** What a person made of arguments that they saw masked: what they left is as it was. */
export function unmask(edited: Json, original: Json, mask: Mask): Json {
  return merge(edited, original, mask(original));
}

function merge(edited: Json, original: Json, masked: Json): Json {
  if (JSON.stringify(edited) === JSON.stringify(masked)) return original;
  if (!isRecord(edited) || !isRecord(original) || !isRecord(masked)) return edited;
  const merged = Object.entries(edited).map(([name, value]) => {
    const isKnown = Object.hasOwn(original, name) && Object.hasOwn(masked, name);
    return [name, isKnown ? merge(value, original[name]!, masked[name]!) : value] as const;
  });
  return Object.fromEntries(merged);
}

const isRecord = (value: Json): value is { [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function toShown(result: Json, mask?: Mask): { result: Json; truncated?: true } {
  const shown = mask ? mask(result) : result;
  const text = typeof shown === 'string' ? shown : JSON.stringify(shown);
  return text.length > SHOWN_CHARS ? { result: clip(text, SHOWN_CHARS), truncated: true } : { result: shown };
}
