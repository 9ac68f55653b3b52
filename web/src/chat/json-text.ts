import type { Json } from '../api/types.ts';

export const toText = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

export const toBlock = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

/** The fields of an object; anything else has one field without a name. */
export function fieldsOf(value: Json): [name: string, value: Json][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return Object.entries(value);
  return value === null || value === '' ? [] : [['', value]];
}
