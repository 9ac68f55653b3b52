import * as z from 'zod';
import type { Tool } from '../kernel/index.ts';
import type { FileInfo, SandboxFiles } from '../sandbox/sandbox.ts';
import { digestOf, findFile, piecesOf, requireSeen } from './text/content.ts';
import type { Place } from './text/replace.ts';
import { MOST_PLACES, MOST_STARTS, replaceText } from './text/replace.ts';
import { defineSandboxTool, inTurn } from './sandbox-tool.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { showName } from './text/shown-name.ts';
import { findSimilar } from './text/similar-line.ts';
import { decodeText, encodeText, encodingNames } from './text/text-file.ts';

const MOST_BYTES = 10_000_000;
const SNIPPET = { around: 3, lines: 40, lineChars: 300 };

/** Takes secrets out of a text. */
type Scrub = (text: string) => string;

const edit = z
  .strictObject({
    path: z.string().min(1).describe('Below the workspace, such as src/main.py'),
    oldString: z
      .string()
      .min(1, 'It is empty. Give the text to replace; to make a new file, use Write')
      .describe('Exactly as in the file, with its blanks, without the line numbers that Read shows'),
    newString: z.string().describe('What comes in its place'),
    replaceAll: z.boolean().default(false).describe('Each place, not just one'),
  })
  .refine(({ oldString, newString }) => oldString !== newString, 'oldString and newString are the same');

export function createEditTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'Edit',
    title: 'Edit a file',
    icon: 'pencil',
    description:
      'Replaces text in a file of the workspace that was read with Read before. oldString must be there exactly once, ' +
      'unless replaceAll is true. Encoding and line ends of the file stay as they are. Shows the changed lines.',
    parameters: edit,
    effect: 'once',
    run: ({ path, oldString, newString, replaceAll }, { sandbox, context: { scrub } }) =>
      inTurn(sandbox, async () => {
        const { files, seen } = sandbox;
        const { info, bytes } = await load(files, path);
        requireSeen(sandbox, info, digestOf(bytes));
        const decoded = decodeExactly(info, bytes);
        const replaced = replaceText(decoded.text, { old: oldString, new: newString, all: replaceAll });
        if (replaced.kind === 'missing') throw new Error(tellMissing(info, decoded.text, { oldString, scrub }));
        if (replaced.kind === 'ambiguous') throw new Error(tellAmbiguous(info, decoded.text, replaced.starts));
        if (replaced.kind === 'many') throw new Error(tellMany(info));
        const changed = encodeText(replaced.text, decoded);
        if (!changed) {
          const name = encodingNames[decoded.encoding];
          throw new Error(
            `newString has characters that ${name} does not have. Use others, or make the file UTF-8 first.`,
          );
        }
        const written = await files.write(info.path, changed);
        seen.set(written.path, digestOf(changed));
        const count = replaced.places.length;
        const times = count === 1 ? '' : ` in ${count.toLocaleString('en-US')} places; the first`;
        return `Edited ${showName(written.path)}${times}:\n${snippetOf(replaced.text, replaced.places[0]!, scrub)}`;
      }),
  });
}

async function load(files: SandboxFiles, path: string): Promise<{ info: FileInfo; bytes: Buffer }> {
  const info = await findFile(files, path);
  if (!info) throw new Error(`There is no file ${showName(path)}. To make one, use Write.`);
  if (info.bytes > MOST_BYTES) {
    throw new Error(`${showName(info.path)} is larger than ${MOST_BYTES / 1e6} MB. Use Bash, for example with sed.`);
  }
  const pieces: Uint8Array[] = [];
  for await (const piece of piecesOf(files, info)) pieces.push(piece);
  return { info, bytes: Buffer.concat(pieces) };
}

/** Only where encoding it again gives the same bytes: what is not edited must stay as it is. */
function decodeExactly(info: FileInfo, bytes: Buffer) {
  const decoded = decodeText(bytes);
  const name = showName(info.path);
  if (!decoded) throw new Error(`${name} is a binary file. Use Bash, or Write to replace all of it.`);
  const again = encodeText(decoded.text, decoded);
  if (again && bytes.equals(again)) return decoded;
  throw new Error(
    `${name} is not quite ${encodingNames[decoded.encoding]}: editing would harm it. Convert it to UTF-8 with Bash first.`,
  );
}

function tellMissing(info: FileInfo, text: string, { oldString, scrub }: { oldString: string; scrub: Scrub }): string {
  const told = `oldString is not in ${showName(info.path)}.`;
  if (oldString.split('\n').every((line) => /^\s*\d+\t/.test(line))) {
    return `${told} Leave out the line numbers and tabs that Read shows.`;
  }
  const similar = findSimilar(text, oldString);
  if (!similar) return `${told} Read the file again and copy the text from there.`;
  const { line, has, wanted } = similar;
  return `${told} The nearest is line ${line}: it is ${quote(scrub(has))}, where oldString has ${quote(scrub(wanted))}.`;
}

const quote = (line: string): string => JSON.stringify(line.length > 300 ? `${line.slice(0, 300)}...` : line);

const tellMany = ({ path }: FileInfo): string =>
  `oldString is in more than ${MOST_PLACES.toLocaleString('en-US')} places of ${showName(path)}. Use Bash, for example with sed.`;

function tellAmbiguous(info: FileInfo, text: string, starts: number[]): string {
  const lines: number[] = [];
  let line = 1;
  let at = 0;
  for (const start of starts.slice(0, 20)) {
    line += countLineEnds(text, at, start);
    at = start;
    lines.push(line);
  }
  const where = `${lines.join(', ')}${starts.length > lines.length ? ' and more' : ''}`;
  const times = starts.length < MOST_STARTS ? `${starts.length}` : `at least ${starts.length}`;
  return `oldString is ${times} times in ${showName(info.path)}, from lines ${where}. Add lines around it until it is unique, or set replaceAll.`;
}

function countLineEnds(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

/** The changed lines and some around them, with their numbers as Read shows them. */
function snippetOf(text: string, { from, to }: Place, scrub: Scrub): string {
  let start = lineStart(text, from);
  let end = lineEnd(text, to);
  for (let i = 0; i < SNIPPET.around; i++) {
    start = lineStart(text, start - 1);
    end = lineEnd(text, end + 1);
  }
  const first = countLineEnds(text, 0, start) + 1;
  const lines = text.slice(start, end).replace(/\r$/, '').split(/\r?\n/);
  // Before a line is cut: half a secret is not known as one.
  const shown = lines
    .slice(0, SNIPPET.lines)
    .map(scrub)
    .map((line, at) => {
      const isCut = line.length > SNIPPET.lineChars;
      return `${first + at}\t${isCut ? `${line.slice(0, SNIPPET.lineChars)} [... cut]` : line}`;
    });
  if (lines.length > SNIPPET.lines) shown.push(`[... ${lines.length - SNIPPET.lines} more lines]`);
  return shown.join('\n');
}

const lineStart = (text: string, at: number): number => (at > 0 ? text.lastIndexOf('\n', at - 1) + 1 : 0);

function lineEnd(text: string, at: number): number {
  const found = text.indexOf('\n', at);
  return found < 0 ? text.length : found;
}
