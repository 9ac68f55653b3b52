import type MarkdownIt from 'markdown-it';

type Parser = InstanceType<typeof MarkdownIt>;
type InlineState = InstanceType<Parser['inline']['State']>;

const CJK =
  /[\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\u{20000}-\u{3fffd}]/u;
const SPACE = /\s/;

const isCjk = (character: string): boolean => CJK.test(character);

/**
 * CommonMark decides by spaces and punctuation whether `**` opens or closes, so `**重点。**后面` shows its marks.
 * Beside a Chinese, Japanese or Korean character only white space counts here.
 */
export function useCjkEmphasis(md: Parser): void {
  md.inline.State = class extends md.inline.State {
    override scanDelims(start: number, canSplitWord: boolean): ReturnType<InlineState['scanDelims']> {
      const found = super.scanDelims(start, canSplitWord);
      if (!canSplitWord) return found;
      const before = lastCharacter(this.src.slice(Math.max(0, start - 2), start));
      const end = start + found.length;
      const after = end < this.posMax ? String.fromCodePoint(this.src.codePointAt(end) ?? 32) : ' ';
      if (!isCjk(before) && !isCjk(after)) return found;
      return { ...found, can_open: !SPACE.test(after), can_close: !SPACE.test(before) };
    }
  };
}

/** True where a line break between two texts is no space: Chinese is written without them. */
export function joinsWithoutSpace(before: string, after: string): boolean {
  return isCjk(lastCharacter(before)) && isCjk(String.fromCodePoint(after.codePointAt(0) ?? 32));
}

function lastCharacter(text: string): string {
  return Array.from(text.slice(-2)).at(-1) ?? ' ';
}
