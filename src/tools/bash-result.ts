// A command's output as the model reads it: text of bounded length, head and tail.
import { createSniffer } from '../files/mime.ts';
import type { Output } from '../sandbox/sandbox.ts';
import { stripEscapes } from './bash-live.ts';
import { decodeText } from './text/text-file.ts';

/** Of the two streams of a command together. */
export const MOST_CHARS = 30_000;
/** Of each end of a stream more is not even decoded: four bytes for each character, and some for what is taken out. */
const END_BYTES = 4 * MOST_CHARS + 8192;
/** A cut is moved to a line end that is this near. */
const NEAR_BYTES = 4096;

export const GAP = '\n[... left out ...]\n';

/** What a stream has, as text: all of it in `head` where it is not cut. */
export interface Shown {
  head: string;
  tail: string;
  isCut: boolean;
}

/** Escape sequences, control characters and what a progress bar has overwritten are taken out. */
/** `scrub`: before the middle is left out, as half a secret is not known as one. */
export function toShown(output: Output, scrub: (text: string) => string): Shown {
  const { head, tail, isCut } = endsOf(output);
  const decoded = decodeText(Buffer.concat([head, tail]));
  if (!decoded) return { head: tellBinary(output), tail: '', isCut: false };
  // As both together were read: one of them alone could look like something else.
  const decoder = new TextDecoder(decoded.encoding);
  return { head: clean(scrub(decoder.decode(head))), tail: clean(scrub(decoder.decode(tail))), isCut };
}

function endsOf({ head, tail, omittedBytes }: Output): { head: Uint8Array; tail: Uint8Array; isCut: boolean } {
  if (!omittedBytes && head.byteLength <= 2 * END_BYTES) return { head, tail: new Uint8Array(), isCut: false };
  return {
    head: trimEnd(head.subarray(0, END_BYTES)),
    tail: trimStart((omittedBytes ? tail : head).subarray(-END_BYTES)),
    isCut: true,
  };
}

/** Up to a line end, else up to a whole character. */
function trimEnd(bytes: Uint8Array): Uint8Array {
  const line = bytes.lastIndexOf(0x0a);
  if (line >= Math.max(0, bytes.byteLength - NEAR_BYTES)) return bytes.subarray(0, line + 1);
  let lead = bytes.byteLength - 1;
  while (lead > bytes.byteLength - 4 && (bytes[lead]! & 0xc0) === 0x80) lead--;
  return bytes[lead]! >= 0xc0 ? bytes.subarray(0, lead) : bytes;
}

function trimStart(bytes: Uint8Array): Uint8Array {
  const line = bytes.subarray(0, NEAR_BYTES).indexOf(0x0a);
  if (line >= 0) return bytes.subarray(line + 1);
  let lead = 0;
  while (lead < 3 && (bytes[lead]! & 0xc0) === 0x80) lead++;
  return bytes.subarray(lead);
}

function tellBinary({ head, tail, omittedBytes }: Output): string {
  const sniffer = createSniffer();
  sniffer.push(head);
  const bytes = (head.byteLength + tail.byteLength + omittedBytes).toLocaleString('en-US');
  return `[binary output (${sniffer.type(undefined)}, ${bytes} bytes) is not shown: write it to a file]`;
}

function clean(text: string): string {
  const plain = stripEscapes(text).replaceAll('\r\n', '\n');
  const lines = plain.includes('\r') ? plain.split('\n').map(lastState).join('\n') : plain;
  return lines.replaceAll(/[\0-\x08\x0b-\x1f\x7f]/g, '');
}

/** Of a line that was written over and over, what was written last. */
function lastState(line: string): string {
  let end = line.length;
  while (line[end - 1] === '\r') end--;
  return line.slice(line.lastIndexOf('\r', end - 1) + 1, end);
}

/** At most `limit` characters, from both ends alike; whole characters. */
export function shorten({ head, tail, isCut }: Shown, limit: number): string {
  if (!isCut && head.length <= limit) return head;
  const end = isCut ? tail : head;
  const room = Math.max(0, limit - GAP.length);
  const first = head.slice(0, Math.ceil(room / 2)).replace(/[\ud800-\udbff]$/, '');
  const last = end.slice(Math.max(0, end.length - Math.floor(room / 2))).replace(/^[\udc00-\udfff]/, '');
  return `${first}${GAP}${last}`;
}

/** Each stream has half, and what the other does not need. */
export function shareOut(stdout: Shown, stderr: Shown): { stdout: string; stderr: string; isCut: boolean } {
  const [out, err] = [lengthOf(stdout), lengthOf(stderr)];
  const forErr = Math.min(err, Math.max(MOST_CHARS / 2, MOST_CHARS - out));
  const forOut = Math.min(out, MOST_CHARS - forErr);
  return {
    stdout: shorten(stdout, forOut),
    stderr: shorten(stderr, forErr),
    isCut: stdout.isCut || stderr.isCut || out + err > MOST_CHARS,
  };
}

const lengthOf = ({ head, tail, isCut }: Shown): number => head.length + tail.length + (isCut ? GAP.length : 0);
