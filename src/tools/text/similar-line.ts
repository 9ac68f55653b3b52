// Where a text that was not found may have been meant: the line that is most like its first one.

/** Bounds the work: some 20 ms. */
const MOST_LINES = 20_000;
const LINE_CHARS = 300;
const LEAST = 0.5;

export interface Similar {
  /** From 1. */
  line: number;
  /** What the file has there, and what was looked for. */
  has: string;
  wanted: string;
}

/**
 * Looks for the lines of `wanted` from the most similar place on, and tells the first that differs. Undefined: nothing is
 * similar enough.
 */
export function findSimilar(text: string, wanted: string): Similar | undefined {
  const lines = text.split(/\r?\n/, MOST_LINES);
  const looked = wanted.split(/\r?\n/);
  const first = looked.findIndex((line) => line.trim() !== '');
  if (first < 0) return undefined;
  let at = mostSimilar(lines, looked[first]!);
  if (at < 0) return undefined;
  for (let i = first; i < looked.length && at < lines.length; i++, at++) {
    if (lines[at] !== looked[i]) return { line: at + 1, has: lines[at]!, wanted: looked[i]! };
  }
  return undefined;
}

/** The same but for blanks comes first, else what shares most pairs of characters. */
function mostSimilar(lines: string[], wanted: string): number {
  const exact = lines.indexOf(wanted);
  if (exact >= 0) return exact;
  const trimmed = wanted.trim();
  const same = lines.findIndex((line) => line.trim() === trimmed);
  if (same >= 0) return same;
  const pairs = pairsOf(trimmed);
  let best = LEAST;
  let found = -1;
  for (const [at, line] of lines.entries()) {
    const score = likeness(line.trim(), pairs);
    if (score > best) [best, found] = [score, at];
  }
  return found;
}

/** A small integer: a set of them is several times as fast. */
const pairAt = (text: string, at: number): number => (text.charCodeAt(at) << 16) | text.charCodeAt(at + 1);

function pairsOf(text: string): Set<number> {
  const pairs = new Set<number>();
  for (let at = 0; at < Math.min(text.length, LINE_CHARS) - 1; at++) pairs.add(pairAt(text, at));
  return pairs;
}

/** From 0 to about 1. */
function likeness(line: string, pairs: Set<number>): number {
  const length = Math.min(line.length, LINE_CHARS) - 1;
  if (length < 1) return 0;
  let shared = 0;
  for (let at = 0; at < length; at++) if (pairs.has(pairAt(line, at))) shared++;
  return (2 * shared) / (length + pairs.size);
}
