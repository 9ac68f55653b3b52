// What a program printed, as a reader of a terminal sees it.

/** Escape sequences of terminals: colours and cursor moves, titles, and two-character ones. The last may be cut off. */
const ESCAPES =
  /\x1b(?:\[[0-?]{0,64}[ -/]{0,8}(?:[@-~]|$)|\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\|$)|[ -/]{0,8}(?:[0-Z\\^-~]|$))/g;

/** Without escape sequences, control characters, and what a progress bar has overwritten. */
export function toPlain(text: string): string {
  const plain = text.includes('\x1b') ? text.replace(ESCAPES, '') : text;
  const lines = plain.includes('\r') ? plain.split('\n').map(lastState).join('\n') : plain;
  return lines.replace(/[\0-\x08\x0b-\x1f\x7f]/g, '');
}

/** Of a line that was written over and over, what was written last. */
function lastState(line: string): string {
  let end = line.length;
  while (line[end - 1] === '\r') end--;
  return line.slice(line.lastIndexOf('\r', end - 1) + 1, end);
}

/** The end of `text`: at most so many lines and characters. Looks at no more than it gives back. */
export function lastLines(text: string, most: { lines: number; chars: number }): { text: string; isAll: boolean } {
  const floor = Math.max(0, text.length - most.chars);
  let from = text.length;
  for (let line = 0; line < most.lines; line++) {
    // The first search passes over the line end that closes the text.
    const end = from < 2 ? -1 : text.lastIndexOf('\n', from - 2);
    if (end < floor) {
      from = floor;
      break;
    }
    from = end + 1;
  }
  // Never between the two halves of a character.
  return { text: text.slice(from).replace(/^[\udc00-\udfff]/, ''), isAll: from === 0 };
}
