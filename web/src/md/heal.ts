import type { Token } from 'markdown-it';
import remend from 'remend';

/** Beyond this a paragraph is shown as it is until it ends: closing marks costs more than linear time. */
const MAX_HEALED_CHARS = 4_000;
/** A mark that nothing follows yet. */
const OPENED_NOTHING = /(^|\s)[*_~`]+$/;
const OPTIONS = {
  linkMode: 'text-only',
  comparisonOperators: false,
  htmlTags: false,
  katex: false,
  setextHeadings: false,
  singleTilde: false,
} as const;

/** Closes the marks (`**`, a backtick, `[text](`) that are still open at the end of growing text. */
export function healInline(token: Token): void {
  if (token.content.length > MAX_HEALED_CHARS) return;
  const healed = remend(token.content.replace(OPENED_NOTHING, '$1'), OPTIONS);
  // remend closes only the inner one of `**a *b`.
  token.content = hasOpenBold(healed) ? `${healed}**` : healed;
}

function hasOpenBold(text: string): boolean {
  const marks = text.replace(/\\.|`[^`]*`/gs, '').match(/\*\*/g) ?? [];
  return marks.length % 2 === 1;
}

/** Takes away a mark at the very end that nothing follows yet. */
export function dropDanglingMarks(token: Token): void {
  const last = token.children?.findLast((child) => child.nesting >= 0);
  if (last?.type === 'text') last.content = withoutMarksAtEnd(last.content);
}

/** A loop, as `/[*_~`]+$/` takes quadratic time on many marks before a letter. */
function withoutMarksAtEnd(text: string): string {
  let end = text.length;
  while (end > 0 && '*_~`'.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end).replace(/!?\[$/, '');
}
