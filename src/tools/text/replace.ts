// Replacing text exactly: no patterns, no surprises in what is inserted, and line ends as the file has them.

export interface Replacement {
  old: string;
  new: string;
  /** Each place; else there must be exactly one. */
  all: boolean;
}

/** So many places of a text that should be there once are told at most. */
export const MOST_STARTS = 1_000;
/** So many are replaced at most. */
export const MOST_PLACES = 100_000;

export type Replaced =
  | { kind: 'replaced'; text: string; places: Place[] }
  | { kind: 'missing' }
  /** Offsets in the text as it was, the first of them. */
  | { kind: 'ambiguous'; starts: number[] }
  /** More than MOST_PLACES. */
  | { kind: 'many' };

/** Offsets in the new text. */
export interface Place {
  from: number;
  to: number;
}

/** Where the text has CRLF, line ends of `old` match whichever there are, and what is inserted gets those around it. */
export function replaceText(text: string, replacement: Replacement): Replaced {
  const hasCrlf = text.includes('\r\n');
  const [plain, old, fresh] = [text, replacement.old, replacement.new].map((part) => (hasCrlf ? toLf(part) : part)) as [
    string,
    string,
    string,
  ];
  const [step, most] = replacement.all ? [old.length, MOST_PLACES + 1] : [1, MOST_STARTS];
  const starts = findAll(plain, old, { step, most });
  if (!starts.length) return { kind: 'missing' };
  if (starts.length > MOST_PLACES) return { kind: 'many' };
  const offsetOf = hasCrlf ? createOffsets(text) : (at: number) => at;
  if (!replacement.all && starts.length > 1) return { kind: 'ambiguous', starts: starts.map((at) => offsetOf(at)) };

  const crlf = hasCrlf && fresh.includes('\n') ? fresh.replaceAll('\n', () => '\r\n') : fresh;
  const isCrlfAt = createLineEnds(text);
  const parts: string[] = [];
  const places: Place[] = [];
  let done = 0;
  let length = 0;
  for (const start of starts) {
    const from = offsetOf(start);
    const inserted = crlf === fresh || !isCrlfAt(from) ? fresh : crlf;
    const before = text.slice(done, from);
    parts.push(before, inserted);
    length += before.length;
    places.push({ from: length, to: (length += inserted.length) });
    done = offsetOf(start + old.length);
  }
  parts.push(text.slice(done));
  return { kind: 'replaced', text: parts.join(''), places };
}

const toLf = (text: string): string => text.replaceAll('\r\n', '\n');

/** Left to right; from one the search goes on `step` further. */
function findAll(text: string, part: string, { step, most }: { step: number; most: number }): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at >= 0 && starts.length < most; at = text.indexOf(part, at + step)) {
    starts.push(at);
  }
  return starts;
}

/** From offsets in the text with LF to those in the text as it is; to be asked in rising order. */
function createOffsets(text: string): (at: number) => number {
  let passed = 0;
  let next = text.indexOf('\r\n');
  return (at) => {
    while (next >= 0 && next - passed < at) {
      passed++;
      next = text.indexOf('\r\n', next + 2);
    }
    return at + passed;
  };
}

/** Whether the first line end from an offset on, else the last of all, is CRLF; to be asked in rising order. */
function createLineEnds(text: string): (at: number) => boolean {
  let end = -1;
  const last = text.lastIndexOf('\n');
  return (at) => {
    if (end < at && end !== last) end = text.indexOf('\n', at);
    if (end < 0) end = last;
    return text[end - 1] === '\r';
  };
}
