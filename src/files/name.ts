const MAX_LENGTH = 200;

/** Controls, and marks that turn the direction of writing: with them "gpj.exe" looks like "exe.jpg". */
const HIDDEN = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu;

/** One line to show, such as a title: blanks and line ends become one blank each, hidden marks go. */
export function toLine(text: string): string {
  return text.toWellFormed().replace(/\s+/g, ' ').replace(HIDDEN, '').trim();
}

/** A name to show, of one line and at most 200 characters; never a path. A long one keeps its ending. */
export function toFileName(text: string): string {
  const last = text.toWellFormed().replace(HIDDEN, '').split(/[/\\]/).at(-1) ?? '';
  const name = last.replace(/\s+/g, ' ').trim();
  if (/^\.*$/.test(name)) return 'file';
  const characters = Array.from(name);
  if (characters.length <= MAX_LENGTH) return name;
  const ending = /\.[A-Za-z0-9]{1,10}$/.exec(name)?.[0] ?? '';
  return (characters.slice(0, MAX_LENGTH - ending.length).join('') + ending).trimEnd();
}
