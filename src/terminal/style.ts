// How lines look: colours where the terminal has them, widths, and text of models and tools without what moves a cursor.
import type { WriteStream } from 'node:tty';

export type Style = Record<'dim' | 'bold' | 'red' | 'green' | 'yellow' | 'cyan', (text: string) => string>;

const codes: [keyof Style, number, number][] = [
  ['dim', 2, 22],
  ['bold', 1, 22],
  ['red', 31, 39],
  ['green', 32, 39],
  ['yellow', 33, 39],
  ['cyan', 36, 39],
];

export function createStyle(isColored: boolean): Style {
  const paint = ([name, on, off]: (typeof codes)[number]) => [
    name,
    (text: string) => (isColored && text ? `\x1b[${on}m${text}\x1b[${off}m` : text),
  ];
  return Object.fromEntries(codes.map(paint)) as Style;
}

/** https://no-color.org: set and not empty means none. */
export function isColored(
  stream: Pick<WriteStream, 'isTTY'>,
  environment: Record<string, string | undefined>,
): boolean {
  return stream.isTTY && !environment.NO_COLOR && environment.TERM !== 'dumb';
}

/**
 * Text from outside as it may be written to a terminal: line breaks and tabs stay, what else would move the cursor, colour
 * the screen, or turn the order of letters around is gone.
 */
export function toPrintable(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]/g, '');
}

/** On one line. */
export const toLine = (text: string): string => toPrintable(text).replace(/\s+/g, ' ').trim();

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

/** The beginning that fits into so many columns, with "…" where it is not all. */
export function fit(text: string, columns: number): string {
  let used = 0;
  let kept = '';
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    const width = WIDE.test(segment) ? 2 : 1;
    if (used + width > columns) return `${dropLast(kept)}…`;
    used += width;
    kept += segment;
  }
  return kept;
}

function dropLast(text: string): string {
  return [...new Intl.Segmenter().segment(text)]
    .slice(0, -1)
    .map(({ segment }) => segment)
    .join('');
}

export function toDuration(ms: number): string {
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
