// Takes the values of a run's secrets out of all that its tools give, so that neither the model nor the record has them.
import type { Json, Scrubber } from '../kernel/index.ts';

const HIDDEN = '***';
/** A shorter value is part of too much that is none. */
const SHORTEST = 6;
/** Of a secret of several lines, such as a key, each long one counts: results may be numbered by line. */
const SHORTEST_LINE = 16;
/** Up to here V8 finds a string in a time that grows with the text alone. A longer one costs the product of both at worst. */
const LONGEST_BUILT_IN = 200;

/** Undefined where there is nothing to take out. */
export function createScrub(values: readonly string[]): (() => Scrubber) | undefined {
  const parts = [...new Set(values.flatMap(toParts))].sort((a, b) => b.length - a.length);
  if (!parts.length) return undefined;
  const secrets = parts.map(createSecret);

  const scrub = (text: string) => secrets.reduce((left, secret) => secret.hide(left), text);
  /** How much of the end may be the beginning of a secret. */
  const openEnd = (text: string) => secrets.reduce((most, secret) => Math.max(most, secret.openEnd(text)), 0);

  function result(value: Json): Json {
    if (typeof value === 'string') return scrub(value);
    if (Array.isArray(value)) return value.map(result);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [scrub(name), result(item)]));
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

interface Secret {
  hide(text: string): string;
  /** How much of the end is the beginning of this one, and not all of it. */
  openEnd(text: string): number;
}

/** Looks for it by Knuth, Morris and Pratt: whatever is sent and shown, one step for each character of the text. */
function createSecret(secret: string): Secret {
  const head = secret.slice(0, LONGEST_BUILT_IN);
  let borders: Int32Array | undefined;

  /** `matched`: how much of the secret ends before this character; answers how much ends with it. */
  function step(matched: number, code: number): number {
    borders ??= toBorders(secret);
    let length = matched;
    while (length > 0 && secret.charCodeAt(length) !== code) length = borders[length - 1]!;
    return secret.charCodeAt(length) === code ? length + 1 : 0;
  }

  function hideLong(text: string): string {
    let shown = '';
    let done = 0;
    let matched = 0;
    for (let i = text.indexOf(head); i >= 0 && i < text.length; i++) {
      matched = step(matched, text.charCodeAt(i));
      if (matched < secret.length) continue;
      shown += text.slice(done, i + 1 - secret.length) + HIDDEN;
      done = i + 1;
      matched = 0;
    }
    return shown + text.slice(done);
  }

  return {
    hide: (text) => (secret === head ? text.replaceAll(secret, HIDDEN) : hideLong(text)),
    openEnd(text) {
      let matched = 0;
      for (let i = Math.max(0, text.length - secret.length + 1); i < text.length; i++) {
        matched = step(matched, text.charCodeAt(i));
      }
      return matched;
    },
  };
}

/** For each beginning of the text, the length of its longest shorter beginning that is its end, too. */
function toBorders(text: string): Int32Array {
  const borders = new Int32Array(text.length);
  for (let i = 1, length = 0; i < text.length; i++) {
    while (length > 0 && text.charCodeAt(i) !== text.charCodeAt(length)) length = borders[length - 1]!;
    if (text.charCodeAt(i) === text.charCodeAt(length)) length++;
    borders[i] = length;
  }
  return borders;
}

function toParts(value: string): string[] {
  const whole = value.trim();
  const lines = whole.includes('\n') ? whole.split('\n').map((line) => line.trim()) : [];
  return [...(whole.length >= SHORTEST ? [whole] : []), ...lines.filter(({ length }) => length >= SHORTEST_LINE)];
}
