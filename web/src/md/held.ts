// What growing text does not show yet, because its next characters decide what it is.
import type { Block } from './blocks.ts';

const CONTAINER = /^(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*/;
const ONLY_MARKS = /^[-=|:*_#>+~`\s]*$/;
const UNFINISHED_TASK = /^\s*(?:>\s*)*(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX]?\]?$/;
const CLOSING_FENCE = /^[\s>]*(?:`+|~+)[ \t]*$/;
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/;

/** The text without a link definition that is still being written: each of its characters would change links above. */
export function withoutOpenDefinition(text: string): string {
  const lineStart = text.lastIndexOf('\n') + 1;
  return DEFINITION.test(text.slice(lineStart, lineStart + 200)) ? text.slice(0, lineStart) : text;
}

/** The part of the last, still growing block that may be shown. Loses at most an unfinished line, and a table's head. */
export function shownPart({ src, kind }: Block): string {
  const lineStart = src.lastIndexOf('\n') + 1;
  const line = src.slice(lineStart);
  if (kind === 'fence') return lineStart === 0 || CLOSING_FENCE.test(line) ? src.slice(0, lineStart) : src;
  if (kind === 'code_block') return src;
  const head = tableHeadStart(src, lineStart);
  if (head !== undefined) return src.slice(0, head);
  return isHeld(line, kind) ? src.slice(0, lineStart) : src;
}

function isHeld(line: string, kind: string): boolean {
  const bare = line.replace(CONTAINER, '');
  if (line === '') return false;
  if (bare.startsWith('|') || bare.startsWith('#') || ONLY_MARKS.test(bare)) return true;
  if (UNFINISHED_TASK.test(line)) return true;
  return kind === 'ordered_list_open' && /^\s*\d{1,9}[.)]?$/.test(line);
}

/** Where a lone first row of a table starts. It is text until the row of dashes under it is complete. */
function tableHeadStart(src: string, lineStart: number): number | undefined {
  const line = src.slice(lineStart);
  if (lineStart === 0 || !(line === '' || isRow(line) || ONLY_MARKS.test(line))) return undefined;
  const headStart = src.lastIndexOf('\n', lineStart - 2) + 1;
  if (!isRow(src.slice(headStart, lineStart))) return undefined;
  const beforeStart = headStart === 0 ? 0 : src.lastIndexOf('\n', headStart - 2) + 1;
  return headStart > 0 && isRow(src.slice(beforeStart, headStart)) ? undefined : headStart;
}

const isRow = (line: string): boolean => line.replace(CONTAINER, '').startsWith('|');
