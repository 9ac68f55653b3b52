// Patterns for paths: `*`, `?`, `[abc]`, `[!a-z]` within a name, `**` over folders, `{a,b}`. Own and small, because a
// pattern comes from a model: none may take long, and names that begin with a dot are like any other.

const MOST_ALTERNATIVES = 200;

/** Any number of names in a path, or of characters in a name. */
const ANY = Symbol('any number');
type Parts<T> = (T | typeof ANY)[];
type IsCharacter = (character: string) => boolean;

/** Whether a path below the workspace, names with `/` between, matches. Undefined: the braces make too many alternatives. */
export function parseGlob(pattern: string): ((path: string) => boolean) | undefined {
  const alternatives = expandBraces(pattern.replace(/^\/workspace(?=\/)/, ''));
  if (!alternatives) return undefined;
  const all = alternatives.map((alternative): Parts<(name: string) => boolean> => {
    const names = alternative.split('/').filter((name) => name !== '' && name !== '.');
    return names.map((name) => (name === '**' ? ANY : parseName(name)));
  });
  return (path) => {
    const names = path.split('/');
    return all.some((parts) => matches(parts, names));
  };
}

/** All that `{a,b}` stand for; a brace without its partner is itself. */
function expandBraces(pattern: string): string[] | undefined {
  const done: string[] = [];
  const open = [pattern];
  while (open.length) {
    const next = open.pop()!;
    const braces = /\{([^{}]*,[^{}]*)\}/.exec(next);
    if (braces) {
      const [before, after] = [next.slice(0, braces.index), next.slice(braces.index + braces[0].length)];
      open.push(...braces[1]!.split(',').map((choice) => before + choice + after));
    } else done.push(next);
    if (open.length + done.length > MOST_ALTERNATIVES) return undefined;
  }
  return done;
}

function parseName(name: string): (name: string) => boolean {
  const parts: Parts<IsCharacter> = [];
  for (const [part = '', set] of name.matchAll(/\[([!^]?\]?[^\]]*)\]|\*+|[^]/gu)) {
    if (set) parts.push(parseSet(set));
    else if (part.startsWith('*')) parts.push(ANY);
    else parts.push(part === '?' ? () => true : (character) => character === part);
  }
  return (text) => matches(parts, Array.from(text));
}

function parseSet(set: string): IsCharacter {
  const isNegated = /^[!^]./u.test(set);
  const ranges = Array.from((isNegated ? set.slice(1) : set).matchAll(/([^])-([^])|([^])/gu), ([, from, to, one]) => {
    return [from ?? one ?? '', to ?? one ?? ''] as const;
  });
  return (character) => ranges.some(([from, to]) => character >= from && character <= to) !== isNegated;
}

/** Goes back to the last ANY only: steps at most parts times items. */
function matches<T>(parts: Parts<(item: T) => boolean>, items: readonly T[]): boolean {
  let part = 0;
  let item = 0;
  let back: { part: number; item: number } | undefined;
  while (item < items.length) {
    const next = parts[part];
    if (next === ANY) {
      back = { part: ++part, item };
    } else if (next?.(items[item]!)) {
      part++;
      item++;
    } else if (back) {
      part = back.part;
      item = ++back.item;
    } else return false;
  }
  return parts.slice(part).every((rest) => rest === ANY);
}
