// Takes the values of a run's secrets out of all that its tools give, so that neither the model nor the record has them.
import type { Json, Scrubber } from '../kernel/index.ts';

const HIDDEN = '***';
/** A shorter value is part of too much that is none. */
const SHORTEST = 6;
/** Of a secret of several lines, such as a key, each long one counts: results may be numbered by line. */
const SHORTEST_LINE = 16;

/** Undefined where there is nothing to take out. */
export function createScrub(values: readonly string[]): (() => Scrubber) | undefined {
  const secrets = [...new Set(values.flatMap(toParts))].sort((a, b) => b.length - a.length);
  if (!secrets.length) return undefined;

  const scrub = (text: string) => secrets.reduce((left, secret) => left.replaceAll(secret, HIDDEN), text);

  function result(value: Json): Json {
    if (typeof value === 'string') return scrub(value);
    if (Array.isArray(value)) return value.map(result);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [scrub(name), result(item)]));
  }

  /** How much of the end may be the beginning of a secret. */
  function openEnd(text: string): number {
    for (let length = Math.min(secrets[0]!.length - 1, text.length); length > 0; length--) {
      const end = text.slice(-length);
      if (secrets.some((secret) => secret.length > length && secret.startsWith(end))) return length;
    }
    return 0;
  }

  return () => {
    let held = '';
    return {
      result,
      output(text) {
        const known = scrub(held + text);
        const length = openEnd(known);
        held = known.slice(known.length - length);
        return known.slice(0, known.length - length);
      },
    };
  };
}

function toParts(value: string): string[] {
  const whole = value.trim();
  const lines = whole.includes('\n') ? whole.split('\n').map((line) => line.trim()) : [];
  return [...(whole.length >= SHORTEST ? [whole] : []), ...lines.filter(({ length }) => length >= SHORTEST_LINE)];
}
