// The Markdown grammar of the app: markdown-it without HTML, set up for Chinese text, streaming and hostile input.
import MarkdownIt, { type StateBlock, type StateCore, type Token } from 'markdown-it';
import { useCjkEmphasis } from './cjk.ts';
import { dropDanglingMarks, healInline } from './heal.ts';

export type { Token };
/** Link definitions by their normalised label. */
export type References = Record<string, { title: string; href: string }>;

const MAX_TABLE_CELLS = 10_000;
const DELIMITER_ROW = /^\|?[ \t]*:?-+:?[ \t]*(?:\||$)[-:| \t]*$/;

export const md = new MarkdownIt({ html: false, linkify: true, breaks: false, typographer: false });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
useCjkEmphasis(md);
md.block.ruler.before('table', 'oversized_table', oversizedTable, { alt: ['paragraph', 'reference'] });
md.core.ruler.after('block', 'heal', (state) => whenGrowing(state, healInline));
md.core.ruler.push('dangling', (state) => whenGrowing(state, dropDanglingMarks));

/** The tokens of one top-level block. `growing`: its end has not arrived, so marks still open are closed. */
export function parseBlock(src: string, context: { growing: boolean; references: References }): Token[] {
  const references: References = Object.create(context.references);
  return md.parse(wellFormed(src), { growing: context.growing, references });
}

/** Half a character, as a stream may cut it, is no text: what it becomes should not depend on the browser. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\u{FFFD}');
}

function whenGrowing(state: StateCore, change: (lastInline: Token) => void): void {
  if (state.env.growing !== true) return;
  const leaf = state.tokens.findLast((token) => token.nesting === 0);
  if (leaf?.type === 'inline') change(leaf);
}

/** A head of many columns fills each later row up with empty cells: 4 kB could ask for 65,000. Such a table is shown as text. */
function oversizedTable(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  const isInside = (line: number): boolean => line < endLine && (state.sCount[line] ?? 0) >= state.blkIndent;
  const row = isInside(startLine + 1)
    ? state.getLines(startLine + 1, startLine + 2, state.blkIndent, false).trim()
    : '';
  if (!DELIMITER_ROW.test(row)) return false;
  let end = startLine + 1;
  while (isInside(end) && !state.isEmpty(end)) end++;
  if (row.split('|').length * (end - startLine) <= MAX_TABLE_CELLS) return false;
  if (silent) return true;
  const token = state.push('code_block', '', 0);
  token.content = state.getLines(startLine, end, state.blkIndent, true);
  token.map = [startLine, end];
  state.line = end;
  return true;
}
