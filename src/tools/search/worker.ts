// The thread where patterns run: one that takes for ever is ended with it, and the server goes on.
import { parentPort } from 'node:worker_threads';
import { decodeText } from '../text/text-file.ts';

export interface Search {
  pattern: string;
  ignoreCase: boolean;
  multiline: boolean;
  output: 'files' | 'content' | 'count';
  /** Lines shown around a match, with `content`. */
  before: number;
  after: number;
  /** Of matching lines with `content`, else of files. */
  limit: number;
  files: { path: string; bytes: Uint8Array }[];
}

export interface FoundLine {
  /** From 1. */
  number: number;
  text: string;
  isMatch: boolean;
  /** Where the text is a part of a long line, more of it: of a secret there may be a part only in the text. */
  around?: string;
}

/** A file with at least one match, or one that is binary. */
export interface Found {
  path: string;
  isBinary: boolean;
  /** Matching lines; with `files` 1, with `content` at most as many as were still wanted. */
  count: number;
  lines: FoundLine[];
}

export type SearchAnswer = { found: Found[] } | { problem: string };

const LINE_CHARS = 500;
/** As long as a line of a secret may be that comes with a request. */
const AROUND_CHARS = 10_000;

parentPort?.on('message', (search: Search) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(answer(search));
});
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
parentPort?.postMessage('ready');

function answer(search: Search): SearchAnswer {
  const pattern = compile(search);
  if (typeof pattern === 'string') return { problem: pattern };
  const found: Found[] = [];
  let room = search.limit;
  for (const { path, bytes } of search.files) {
    if (room <= 0) break;
    const decoded = decodeText(bytes);
    if (!decoded) {
      found.push({ path, isBinary: true, count: 0, lines: [] });
      continue;
    }
    const lines = decoded.text.replaceAll('\r\n', '\n').split('\n');
    if (lines.at(-1) === '') lines.pop();
    const limit = { files: 1, content: room, count: Number.POSITIVE_INFINITY }[search.output];
    const numbers = search.multiline ? matchAcross(lines, pattern, limit) : matchLines(lines, pattern, limit);
    if (!numbers.size) continue;
    const isContent = search.output === 'content';
    room -= isContent ? numbers.size : 1;
    const shown = isContent ? withContext(lines, numbers, { ...search, pattern }) : [];
    found.push({ path, isBinary: false, count: numbers.size, lines: shown });
  }
  return { found };
}

/** With the rules of `u` where the pattern keeps them; they know `\p{...}`, but take no needless backslash. */
function compile({ pattern, ignoreCase, multiline }: Search): RegExp | string {
  const flags = `${multiline ? 'gms' : ''}${ignoreCase ? 'i' : ''}`;
  try {
    return new RegExp(pattern, `${flags}u`);
  } catch {
    // Again by the older rules; what they say counts.
  }
  try {
    return new RegExp(pattern, flags);
  } catch (error) {
    return (error as Error).message;
  }
}

/** Lines by their index. */
function matchLines(lines: string[], pattern: RegExp, limit: number): Set<number> {
  const numbers = new Set<number>();
  for (let at = 0; at < lines.length && numbers.size < limit; at++) if (pattern.test(lines[at]!)) numbers.add(at);
  return numbers;
}

/** All lines that a match touches. */
function matchAcross(lines: string[], pattern: RegExp, limit: number): Set<number> {
  const numbers = new Set<number>();
  const text = lines.join('\n');
  let line = 0;
  let lineEnd = lines[0]?.length ?? 0;
  const moveTo = (at: number) => {
    while (at > lineEnd && line < lines.length - 1) lineEnd += 1 + lines[++line]!.length;
  };
  for (const match of text.matchAll(pattern)) {
    moveTo(match.index);
    numbers.add(line);
    const end = match.index + match[0].replace(/\n$/, '').length;
    while (end > lineEnd && numbers.size < limit) {
      moveTo(lineEnd + 1);
      numbers.add(line);
    }
    if (numbers.size >= limit) break;
  }
  return numbers;
}

function withContext(
  lines: string[],
  numbers: Set<number>,
  { before, after, pattern }: { before: number; after: number; pattern: RegExp },
): FoundLine[] {
  const shown = new Map<number, FoundLine>();
  for (const number of numbers) {
    for (let at = Math.max(0, number - before); at <= Math.min(lines.length - 1, number + after); at++) {
      if (!shown.has(at)) {
        const isMatch = numbers.has(at);
        shown.set(at, { number: at + 1, ...clipLine(lines[at]!, isMatch ? pattern : undefined), isMatch });
      }
    }
  }
  return [...shown.values()];
}

/** Of a long line, what is around its match. */
function clipLine(line: string, pattern: RegExp | undefined): Pick<FoundLine, 'text' | 'around'> {
  if (line.length <= LINE_CHARS) return { text: line };
  const found = pattern ? line.search(pattern) : 0;
  const from = Math.max(0, Math.min(found - LINE_CHARS / 5, line.length - LINE_CHARS));
  const part = line.slice(from, from + LINE_CHARS).replaceAll(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '');
  const text = `${from ? '[...] ' : ''}${part}${from + LINE_CHARS < line.length ? ' [...]' : ''}`;
  return { text, around: line.slice(Math.max(0, from - AROUND_CHARS), from + LINE_CHARS + AROUND_CHARS) };
}
