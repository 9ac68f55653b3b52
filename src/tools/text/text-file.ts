// Whether bytes are text and in which encoding: by a byte order mark, else UTF-8, else GBK where they are valid GBK.
import { isAscii, isUtf8 } from 'node:buffer';

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'gb18030';

export interface TextForm {
  encoding: Encoding;
  /** It begins with a byte order mark. */
  hasMark: boolean;
  /** False: some bytes are not UTF-8, and are read as U+FFFD. */
  isExact: boolean;
}

export const encodingNames: Record<Encoding, string> = {
  'utf-8': 'UTF-8',
  'utf-16le': 'UTF-16 (little endian)',
  'utf-16be': 'UTF-16 (big endian)',
  gb18030: 'GBK',
};

const marks: [Encoding, number[]][] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
];

/** By the mark that the first bytes of a file are. */
export function encodingOfMark(bytes: Uint8Array): Encoding | undefined {
  return marks.find(([, mark]) => mark.every((byte, at) => bytes[at] === byte))?.[0];
}

/** What no text has; GBK that is none decodes to characters for private use and to control characters. */
const CONTROL = /[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]/;
const NOT_GBK = /[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ue000-\uf8ff]/;
const BAD = new RegExp(`\\ufffd|${CONTROL.source}`, 'g');
/** Of the bytes: more that are no text make a binary file. */
const MOST_BAD = 0.1;

export interface TextCheck {
  /** All of a file that does not begin with a mark of UTF-16, in order. */
  push(chunk: Uint8Array): void;
  /** Undefined: binary. */
  end(): TextForm | undefined;
}

/** Tells the form of a file of any size. */
export function createTextCheck(): TextCheck {
  const utf8 = createTrial('utf-8', (text) => !text.includes('\0'));
  const gbk = createTrial('gb18030', (text) => !NOT_GBK.test(text));
  let bytes = 0;
  let badBytes = 0;
  let hasZero = false;
  let isPlain = true;
  let hasMark: boolean | undefined;
  return {
    push(chunk) {
      hasMark ??= encodingOfMark(chunk) === 'utf-8';
      hasZero ||= chunk.includes(0);
      if (hasZero) return;
      bytes += chunk.byteLength;
      if (isPlain && isAscii(chunk)) return;
      isPlain = false;
      gbk.push(chunk);
      if (!utf8.push(chunk)) badBytes += new TextDecoder().decode(chunk).match(BAD)?.length ?? 0;
    },
    end() {
      if (hasZero) return undefined;
      const form = { hasMark: hasMark ?? false, isExact: true };
      if (utf8.end()) return { encoding: 'utf-8', ...form };
      if (gbk.end()) return { encoding: 'gb18030', ...form };
      return badBytes > bytes * MOST_BAD ? undefined : { encoding: 'utf-8', ...form, isExact: false };
    },
  };
}

/** Whether everything decodes to what is accepted. */
function createTrial(encoding: Encoding, accepts: (text: string) => boolean) {
  let decoder: TextDecoder | undefined;
  let isGood = true;
  const attempt = (chunk?: Uint8Array): boolean => {
    try {
      // Not before it is needed: for a small file it takes longer than all the rest.
      decoder ??= new TextDecoder(encoding, { fatal: true });
      isGood &&= accepts(decoder.decode(chunk, { stream: chunk !== undefined }));
    } catch {
      // It is how a fatal decoder says no.
      isGood = false;
    }
    return isGood;
  };
  return { push: attempt, end: () => (decoder ? attempt() : true) };
}

/** Undefined: binary. Line ends stay as they are; the mark is not part of the text. */
export function decodeText(bytes: Uint8Array): (TextForm & { text: string }) | undefined {
  const marked = encodingOfMark(bytes);
  const isWide = marked !== undefined && marked !== 'utf-8';
  const form = isWide ? { encoding: marked, hasMark: true, isExact: true } : formOf(bytes);
  if (!form) return undefined;
  const text = form.encoding === 'utf-8' ? fromUtf8(bytes, form) : new TextDecoder(form.encoding).decode(bytes);
  return isWide && text.includes('\0') ? undefined : { ...form, text };
}

function fromUtf8(bytes: Uint8Array, { hasMark }: TextForm): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  return hasMark ? text.slice(1) : text;
}

/** As a check tells, and faster for what is all there. */
function formOf(bytes: Uint8Array): TextForm | undefined {
  if (bytes.includes(0)) return undefined;
  if (isUtf8(bytes)) return { encoding: 'utf-8', hasMark: encodingOfMark(bytes) === 'utf-8', isExact: true };
  const check = createTextCheck();
  check.push(bytes);
  return check.end();
}

/** Undefined: a character that the encoding does not have. */
export function encodeText(text: string, { encoding, hasMark }: TextForm): Uint8Array | undefined {
  const mark = hasMark ? '\ufeff' : '';
  if (encoding === 'utf-8') return Buffer.from(mark + text);
  if (encoding === 'gb18030') return encodeGbk(text);
  const bytes = Buffer.from(mark + text, 'utf16le');
  return encoding === 'utf-16be' ? bytes.swap16() : bytes;
}

/** Only what has one or two bytes in GBK: programs that read GBK do not know the four bytes of GB 18030. */
function encodeGbk(text: string): Uint8Array | undefined {
  const bytes = Buffer.alloc(text.length * 2);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const code = unit < 0x80 ? unit : gbkCodes().get(text[at]!);
    if (code === undefined) return undefined;
    if (code > 0xff) bytes[length++] = code >> 8;
    bytes[length++] = code & 0xff;
  }
  return bytes.subarray(0, length);
}

let gbkTable: Map<string, number> | undefined;

/** Made from the decoder, at the first use. */
function gbkCodes(): Map<string, number> {
  if (gbkTable) return gbkTable;
  const codes: number[] = [];
  for (let lead = 0x81; lead <= 0xfe; lead++) {
    for (let trail = 0x40; trail <= 0xfe; trail++) if (trail !== 0x7f) codes.push((lead << 8) | trail);
  }
  const all = new TextDecoder('gb18030').decode(
    Uint8Array.from(codes.flatMap((code) => [code >> 8, code & 0xff, 0x0a])),
  );
  const characters = all.split('\n');
  gbkTable = new Map(codes.map((code, at) => [characters[at]!, code] as const).filter(([found]) => found.length === 1));
  return gbkTable;
}
