// Reads a part of a text file, by lines, and remembers for Write and Edit what the whole file was.
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { createSniffer } from '../files/mime.ts';
import type { Tool } from '../kernel/index.ts';
import type { FileInfo, SandboxFiles } from '../sandbox/sandbox.ts';
import { findFile, piecesOf } from './text/content.ts';
import { createLineWindow } from './text/line-window.ts';
import type { LineWindow, WindowLine } from './text/line-window.ts';
import { defineSandboxTool, inTurn } from './sandbox-tool.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { showName } from './text/shown-name.ts';
import { createTextCheck, encodingNames, encodingOfMark } from './text/text-file.ts';
import type { Encoding, TextForm } from './text/text-file.ts';

const MOST_LINES = 2000;
const LINE_CHARS = 2000;
/** A character has at most four bytes; and with room for a secret that begins in what is shown: half of one is not known. */
const LINE_BYTES = LINE_CHARS * 4 + 10_000;
/** Below what the kernel shows of a result, so that the end is not cut out of its middle. */
const MOST_CHARS = 48_000;

export function createReadTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'Read',
    title: 'Read a file',
    icon: 'file-text',
    description:
      'Reads a text file of the workspace: each line with its number and a tab before it, which are not part of the file. ' +
      `At most ${MOST_LINES} lines and ${MOST_CHARS} characters at once, longer lines cut at ${LINE_CHARS} characters; ` +
      'the result says how many lines there are and how to read on. Reads UTF-8, UTF-16 and GBK. ' +
      'Of images and other binary files it tells type and size.',
    parameters: z.strictObject({
      path: z.string().min(1).describe('Below the workspace, such as src/main.py'),
      offset: z.int().min(0).default(1).describe('First line, from 1'),
      limit: z.int().min(1).default(MOST_LINES).describe(`Lines, at most ${MOST_LINES}`),
    }),
    effect: 'read',
    run: ({ path, offset, limit }, { sandbox, context }) =>
      inTurn(sandbox, async () => {
        const info = await findFile(sandbox.files, path);
        if (!info) throw new Error(`There is no file ${showName(path)}. Use List or Glob to see what is there.`);
        const range = { offset: Math.max(1, offset), limit: Math.min(limit, MOST_LINES) };
        const found = await scan(sandbox.files, info, range);
        sandbox.seen.set(info.path, found.digest);
        return tell(info, found, { offset: range.offset, scrub: context.scrub });
      }),
  });
}

interface Scanned extends ReturnType<LineWindow['end']> {
  digest: string;
  /** Undefined: binary. */
  form: TextForm | undefined;
  type: string;
}

/** One pass over the file, whatever its size. */
async function scan(files: SandboxFiles, info: FileInfo, range: { offset: number; limit: number }): Promise<Scanned> {
  const hash = createHash('sha256');
  const sniffer = createSniffer();
  const check = createTextCheck();
  const window = createLineWindow({ ...range, lineBytes: LINE_BYTES });
  let wide: { decoder: TextDecoder; encoding: Encoding } | undefined;
  let isFirst = true;
  for await (const piece of piecesOf(files, info)) {
    hash.update(piece);
    const marked = isFirst ? encodingOfMark(piece) : undefined;
    if (marked?.startsWith('utf-16')) wide = { decoder: new TextDecoder(marked), encoding: marked };
    // Its first bytes tell the type; whether it is text, the check tells.
    if (isFirst) sniffer.push(piece.subarray(0, 16));
    isFirst = false;
    const bytes = wide ? Buffer.from(wide.decoder.decode(piece, { stream: true })) : piece;
    check.push(bytes);
    window.push(bytes);
  }
  const form = check.end();
  const type = sniffer.type(undefined);
  const isKnownType = type.startsWith('image/') || type === 'application/pdf';
  return {
    ...window.end(),
    digest: hash.digest('hex'),
    form: isKnownType ? undefined : form && wide ? { ...form, encoding: wide.encoding, hasMark: true } : form,
    type: isKnownType ? type : 'application/octet-stream',
  };
}

function tell(
  info: FileInfo,
  found: Scanned,
  { offset, scrub }: { offset: number; scrub: (text: string) => string },
): string {
  const name = showName(info.path);
  const { form, type, totalLines } = found;
  if (!form) {
    const size = `${info.bytes.toLocaleString('en-US')} bytes`;
    if (type.startsWith('image/')) return `${name} is an image (${type}, ${size}). Its picture cannot be shown here.`;
    return `${name} is a binary file (${type}, ${size}), not text. Use Bash to look into it.`;
  }
  if (!info.bytes) return `${name} is empty.`;
  if (offset > totalLines)
    throw new Error(`${name} has ${totalLines} lines: an offset of ${offset} is beyond its end.`);
  const shown = showLines(found.lines, form, scrub);
  const last = offset + shown.length - 1;
  const isAll = offset === 1 && last === totalLines;
  const notes = [
    ...(isAll ? [] : [`Lines ${offset} to ${last} of ${totalLines}.`]),
    ...(last < totalLines ? [`To read on: offset ${last + 1}.`] : []),
    ...(form.encoding === 'utf-8' ? [] : [`Encoding: ${encodingNames[form.encoding]}.`]),
    ...(form.isExact ? [] : ['Some bytes are not UTF-8 and are shown as \ufffd.']),
    ...(found.hasCrlf ? ['Lines end with CRLF.'] : []),
  ];
  return [...shown, ...(notes.length ? [`\n[${notes.join(' ')}]`] : [])].join('\n');
}

/** As many as fit, and at least one. */
function showLines(lines: WindowLine[], { encoding, hasMark }: TextForm, scrub: (text: string) => string): string[] {
  // What was UTF-16 came here as UTF-8.
  const decoder = new TextDecoder(encoding === 'gb18030' ? encoding : 'utf-8', { ignoreBOM: true });
  const shown: string[] = [];
  let room = MOST_CHARS;
  for (const { number, bytes, totalBytes } of lines) {
    // Before it is cut: half a secret is not known as one.
    const whole = scrub(decoder.decode(bytes));
    const text = number === 1 && hasMark ? whole.replace(/^\ufeff/, '') : whole;
    const isCut = text.length > LINE_CHARS || totalBytes > bytes.byteLength;
    const line = `${number}\t${isCut ? `${cutAt(text, LINE_CHARS)} [... cut: ${totalBytes} bytes in this line]` : text}`;
    room -= line.length + 1;
    if (room < 0 && shown.length) break;
    shown.push(line);
  }
  return shown;
}

/** Never between the two halves of a character. */
function cutAt(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '');
}
