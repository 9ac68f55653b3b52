// Cuts Markdown into its top-level blocks, so that growing text costs only its last blocks to lex and to draw again.
import { md, type References, type Token } from './parser.ts';

export interface Block {
  /** From the start of this block to the start of the next: all `src` together are the text. */
  src: string;
  /** Type of its first token: `fence`, `paragraph_open`, ... */
  kind: string;
  /** 2 to 6 for a heading, else 0. Goes up by at most one, whatever levels the text has. */
  rank: number;
}

interface Start {
  at: number;
  kind: string;
  level: number;
}

export class BlockSplitter {
  blocks: readonly Block[] = [];
  /** Every link definition of the text. Stays the same object while nothing in it changes. */
  references: References = {};
  /** Characters lexed since the start: what streaming costs. */
  lexedChars = 0;
  private text = '';
  private starts: Start[] = [];
  /** Definitions before the kept blocks' end, and how far they have been collected. */
  private settled: References = {};
  private settledTo = 0;

  /** The blocks of `text`. When it continues the text before, only what follows the last but two blocks is lexed. */
  update(given: string): readonly Block[] {
    const text = given.includes('\r') ? given.replace(/\r\n?/g, '\n') : given;
    const kept = this.keptCount(text);
    const from = kept === 0 ? 0 : (this.starts[kept]?.at ?? 0);
    if (kept === 0) this.forget();
    else this.settle(from);
    const references = { ...this.settled };
    const found = this.lex(text.slice(from), references);
    if (found[0]) found[0].at = 0;
    this.starts.length = kept;
    for (const start of found) this.starts.push({ ...start, at: start.at + from });
    this.text = text;
    this.blocks = this.toBlocks(kept);
    if (!sameReferences(this.references, references)) this.references = references;
    return this.blocks;
  }

  /** Appended text can change the last block, and through it the one before: a line that no longer starts a block joins it. */
  private keptCount(text: string): number {
    const last = this.starts.at(-1);
    if (this.starts.length < 3 || !last) return 0;
    return text.length >= last.at && text.startsWith(this.text.slice(0, last.at)) ? this.starts.length - 2 : 0;
  }

  private forget(): void {
    this.settled = {};
    this.settledTo = 0;
  }

  private settle(end: number): void {
    if (end <= this.settledTo) return;
    const passed = this.text.slice(this.settledTo, end);
    if (passed.includes(']:')) this.lex(passed, this.settled);
    this.settledTo = end;
  }

  private lex(src: string, references: References): Start[] {
    this.lexedChars += src.length;
    const tokens: Token[] = [];
    md.block.parse(src.replaceAll('\0', '\u{FFFD}'), md, { references }, tokens);
    const lines = lineStarts(src);
    const starts: Start[] = [];
    for (const { type, tag, level, nesting, map } of tokens) {
      if (level !== 0 || nesting < 0 || !map) continue;
      starts.push({ at: lines[map[0]] ?? src.length, kind: type, level: type === 'heading_open' ? Number(tag[1]) : 0 });
    }
    return starts.length === 0 && src ? [{ at: 0, kind: 'paragraph_open', level: 0 }] : starts;
  }

  private toBlocks(kept: number): Block[] {
    const blocks = this.blocks.slice(0, kept);
    const ranks = rankHeadings(this.starts);
    for (let i = kept; i < this.starts.length; i++) {
      const { at, kind } = this.starts[i] ?? { at: 0, kind: '' };
      blocks.push({ src: this.text.slice(at, this.starts[i + 1]?.at), kind, rank: ranks[i] ?? 0 });
    }
    return blocks;
  }
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** The page owns h1. A first `###` becomes h2, and no level is skipped: screen readers walk by them. */
function rankHeadings(starts: readonly Start[]): number[] {
  const open: number[] = [];
  return starts.map(({ level }) => {
    if (level === 0) return 0;
    while (open.length > 0 && (open.at(-1) ?? 0) >= level) open.pop();
    open.push(level);
    return Math.min(open.length + 1, 6);
  });
}

function sameReferences(one: References, other: References): boolean {
  const labels = Object.keys(one);
  if (labels.length !== Object.keys(other).length) return false;
  return labels.every((label) => one[label]?.href === other[label]?.href && one[label]?.title === other[label]?.title);
}
