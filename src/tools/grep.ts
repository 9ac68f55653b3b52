// Searches files of the workspace by a regular expression, in bounded time and memory.
import * as z from 'zod';
import type { Tool } from '../kernel/index.ts';
import { AgentError } from '../kernel/index.ts';
import type { FileInfo, SandboxFiles } from '../sandbox/sandbox.ts';
import { fileTypes, isOfType } from './search/file-types.ts';
import { parseGlob } from './search/glob-pattern.ts';
import { search } from './search/thread.ts';
import type { Found, Search } from './search/worker.ts';
import { defineSandboxTool } from './sandbox-tool.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { showName } from './text/shown-name.ts';
import { apartText, walk } from './search/walk.ts';

const MOST = { files: 10_000, fileBytes: 10_000_000, bytes: 100_000_000, results: 1000 };
/** All in all an answer comes within 2 seconds of matching, the end of the thread included. */
const MATCH_MS = 1500;
/** Of files that go to the thread together. */
const BATCH = { files: 200, bytes: 4_000_000 };

const grep = z.strictObject({
  pattern: z.string().min(1).max(10_000).describe('JavaScript regular expression, such as function\\s+\\w+'),
  path: z.string().default('').describe('A file or folder below the workspace; the workspace itself when absent'),
  glob: z
    .string()
    .min(1)
    .max(1000)
    .optional()
    .describe('Only files that match, such as *.ts, or src/**/*.ts from path on'),
  type: z.enum(fileTypes).optional().describe('Only files of this kind'),
  output: z
    .enum(['files', 'content', 'count'])
    .default('files')
    .describe('files: their paths; content: the matching lines; count: matching lines of each file'),
  ignoreCase: z.boolean().default(false),
  multiline: z.boolean().default(false).describe('A match may span lines, and . matches line ends'),
  before: z.int().min(0).max(50).optional().describe('Lines shown before a match, with content'),
  after: z.int().min(0).max(50).optional().describe('Lines shown after a match, with content'),
  context: z.int().min(0).max(50).optional().describe('Lines shown before and after a match, with content'),
  limit: z.int().min(1).max(MOST.results).default(250).describe('Files, or with content matching lines'),
});
type Grep = z.output<typeof grep>;

export function createGrepTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'Grep',
    title: 'Search in files',
    icon: 'search',
    description:
      'Searches the files of the workspace by a JavaScript regular expression, line by line unless multiline. ' +
      'glob and type both apply. Reads UTF-8, UTF-16 and GBK; passes over binary files, files over 10 MB, and ' +
      `${apartText} unless path or glob names them. Matching is stopped after about 2 seconds.`,
    parameters: grep,
    effect: 'read',
    async run(args, { sandbox: { files }, context: { signal, scrub } }) {
      const from = await files.stat(args.path);
      const isWanted = toFilter(args, from?.kind === 'folder' ? from.path : '');
      const tally: Tally = { tooLarge: 0, refused: 0, binary: 0, isCut: false };
      const listed =
        from?.kind === 'file'
          ? [from]
          : walk(files, from?.path ?? args.path, { signal, named: [args.path, args.glob ?? ''] });
      const found: Found[] = [];
      const ended = await searchAll(batchesOf(files, { listed, isWanted, tally }), { args, signal, found });
      tally.binary = found.filter(({ isBinary }) => isBinary).length;
      const hits = found.filter(({ isBinary }) => !isBinary);
      if (!hits.length && ended === 'time') throw new Error(`${TOO_SLOW} Nothing was found until then.`);
      return [...show(hits, args, scrub), ...notesOf(tally, { ended, args })].join('\n');
    },
  });
}

const TOO_SLOW =
  'Matching took too long and was stopped. Use a simpler pattern, without repeats inside of repeats such as (a+)+, or fewer files.';

/** What was left out. */
interface Tally {
  tooLarge: number;
  refused: number;
  binary: number;
  isCut: boolean;
}

/** By the path of a file; `glob` counts from `base` on. */
function toFilter({ glob, type }: Grep, base: string): (path: string) => boolean {
  // As elsewhere: a pattern without a slash is for names in any folder.
  const matches = glob === undefined ? () => true : parseGlob(glob.includes('/') ? glob : `**/${glob}`);
  if (!matches) throw new Error('The braces of glob make too many alternatives. Use fewer.');
  const prefix = base ? base.length + 1 : 0;
  return (path) => (type === undefined || isOfType(path, type)) && matches(path.slice(prefix));
}

type Batch = Search['files'];
interface Wanted {
  listed: Iterable<FileInfo> | AsyncIterable<FileInfo>;
  isWanted: (path: string) => boolean;
  tally: Tally;
}

/** Reads what is wanted, and no more than is allowed. */
async function* batchesOf(files: SandboxFiles, { listed, isWanted, tally }: Wanted): AsyncGenerator<Batch> {
  let batch: Batch = [];
  let batchBytes = 0;
  let count = 0;
  let bytes = 0;
  for await (const file of listed) {
    if (!isWanted(file.path)) continue;
    if (file.bytes > MOST.fileBytes) {
      tally.tooLarge++;
      continue;
    }
    if (++count > MOST.files || bytes + file.bytes > MOST.bytes) {
      tally.isCut = true;
      break;
    }
    const content = await contentOf(files, file.path);
    if (!content) {
      tally.refused++;
      continue;
    }
    bytes += content.byteLength;
    batchBytes += content.byteLength;
    batch.push({ path: file.path, bytes: content });
    if (batch.length < BATCH.files && batchBytes < BATCH.bytes) continue;
    yield batch;
    batch = [];
    batchBytes = 0;
  }
  if (batch.length) yield batch;
}

/** Undefined: it went away, or may not be read. */
async function contentOf(files: SandboxFiles, path: string): Promise<Uint8Array | undefined> {
  try {
    return await files.read(path, { limit: MOST.fileBytes });
  } catch (error) {
    if (error instanceof AgentError && error.status < 500) return undefined;
    throw error;
  }
}

/** Adds to `found`. `limit`: there may be more than was wanted; `time`: it took too long. */
async function searchAll(
  batches: AsyncIterable<Batch>,
  { args, signal, found }: { args: Grep; signal: AbortSignal; found: Found[] },
): Promise<'limit' | 'time' | undefined> {
  const { context = 0, before = context, after = context, limit, ...what } = args;
  let room = limit;
  let leftMs = MATCH_MS;
  for await (const files of batches) {
    signal.throwIfAborted();
    const { answer, ms } = await search({ ...what, before, after, limit: room, files }, leftMs);
    if (!answer) return 'time';
    if ('problem' in answer) throw new Error(`${answer.problem}. Correct the pattern.`);
    leftMs = Math.max(1, leftMs - ms);
    found.push(...answer.found);
    for (const { count } of answer.found) room -= args.output === 'content' ? count : Math.min(1, count);
    if (room <= 0) return 'limit';
  }
  return undefined;
}

function show(hits: Found[], { output }: Grep, scrub: (text: string) => string): string[] {
  if (!hits.length) return ['Nothing was found.'];
  if (output === 'files') return hits.map(({ path }) => showName(path));
  if (output === 'count') return hits.map(({ path, count }) => `${showName(path)}:${count}`);
  return hits.flatMap(({ path, lines }, file) => {
    const name = showName(path);
    const isApart = lines.some(({ isMatch }) => !isMatch);
    return lines.flatMap(({ number, text, isMatch, around }, at) => {
      const isGap = isApart && (at ? lines[at - 1]!.number < number - 1 : file > 0);
      const mark = isMatch ? ':' : '-';
      const hasSecret = around !== undefined && scrub(around) !== around;
      const shown = hasSecret ? '[... a long line with a secret: look at it with Bash, for example with cut]' : text;
      return [...(isGap ? ['--'] : []), `${name}${mark}${number}${mark}${shown}`];
    });
  });
}

function notesOf(
  { tooLarge, refused, binary, isCut }: Tally,
  { ended, args: { limit, output } }: { ended: 'limit' | 'time' | undefined; args: Grep },
): string[] {
  const what = output === 'content' ? 'matching lines' : 'files';
  const notes = [
    ended === 'limit' && `These are the first ${limit} ${what}; there may be more. Narrow the search, or raise limit.`,
    ended === 'time' && `${TOO_SLOW} There may be more.`,
    isCut && 'Only 10,000 files and 100 MB were searched. Give a narrower path, glob or type.',
    tooLarge > 0 && `Files over 10 MB that were not searched: ${tooLarge}.`,
    binary > 0 && `Binary files that were not searched: ${binary}.`,
    refused > 0 && `Files that could not be read: ${refused}.`,
  ].filter((note) => note !== false);
  return notes.length ? [`\n[${notes.join(' ')}]`] : [];
}
