// Names of files for ids that people chose: any string becomes a name that stays in its folder, on every file system, and
// two ids never get the same name, where case and the form of accents do not count, too.
import { createHash } from 'node:crypto';

const PREFIX = 'chat-';
const SUFFIX = '.yaml';

/** Bytes of an encoded id; file systems take 255 for a name, and copies are kept under longer ones. */
const MAX_BYTES = 150;

/** Names of devices on Windows. */
const DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$/i;

export interface TranscriptName {
  file: string;
  /** Whether the id can be read from the name; else the file itself has to tell. */
  isWhole: boolean;
}

export function toTranscriptName(id: string): TranscriptName {
  const { text, isWhole } = encodeName(id);
  return { file: PREFIX + text + SUFFIX, isWhole };
}

/** The part of a name that `toTranscriptName` gives; undefined for any other name. */
export function stemOf(file: string): string | undefined {
  const name = file.normalize('NFC');
  if (!name.startsWith(PREFIX) || !name.endsWith(SUFFIX)) return undefined;
  const stem = name.slice(PREFIX.length, -SUFFIX.length);
  return stem.includes('.') ? undefined : stem;
}

/** Another name beside a transcript's, that is never taken for a transcript. */
export function toAsideName(file: string, what: string, at: Date): string {
  const time = at.toISOString().replaceAll(/[:.]/g, '-');
  return `${file.slice(0, -SUFFIX.length)}.${what}-${time}${SUFFIX}`;
}

/** The transcript that a name belongs to, be it its own or that of a copy which was set aside. */
export function ownerOfName(file: string): string | undefined {
  const name = file.normalize('NFC');
  if (!name.startsWith(PREFIX) || !name.endsWith(SUFFIX)) return undefined;
  return name.slice(0, name.indexOf('.')) + SUFFIX;
}

/**
 * Letters, digits, `-` and `_` stay; the rest is `%` and hex. Where another string might be the same name to a file system
 * that ignores case, a hash tells them apart; a long one is cut, and then the hash stands for the rest.
 */
export function encodeName(id: string): { text: string; isWhole: boolean } {
  if (id === '') return { text: '~', isWhole: true };
  const whole = escape(id);
  if (Buffer.byteLength(whole) > MAX_BYTES) return { text: `${cut(whole)}~${hashOf(id, 32)}`, isWhole: false };
  const text = isFolded(id) ? whole : `${whole}~${hashOf(id, 8)}`;
  return { text, isWhole: true };
}

/** The id of a whole name; undefined for what `encodeName` does not give. */
export function decodeName(text: string): string | undefined {
  const encoded = text.split('~', 1)[0]!;
  if (/%(?![0-9a-f]{2}|u[0-9a-f]{4})/.test(encoded)) return undefined;
  const id = encoded.replaceAll(/%u([0-9a-f]{4})|(?:%[0-9a-f]{2})+/g, (found, unit: string | undefined) =>
    unit === undefined
      ? Buffer.from(found.replaceAll('%', ''), 'hex').toString('utf8')
      : String.fromCharCode(Number.parseInt(unit, 16)),
  );
  const again = encodeName(id);
  return again.isWhole && again.text === text ? id : undefined;
}

/** Of a string in another form of Unicode a file system would keep the one that it likes: there, only ASCII stays. */
function escape(id: string): string {
  const hidden = id.normalize('NFC') === id ? /[^\p{L}\p{M}\p{N}_-]/gu : /[^a-zA-Z0-9_-]/gu;
  const escaped = id.replaceAll(hidden, (character) => {
    const unit = character.charCodeAt(0);
    if (character.length === 1 && unit >= 0xd800 && unit <= 0xdfff) return `%u${unit.toString(16)}`;
    return hex(character);
  });
  return DEVICE.test(escaped) ? hex(escaped[0]!) + escaped.slice(1) : escaped;
}

const hex = (text: string): string =>
  Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

function isFolded(id: string): boolean {
  const folded = id.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFC');
  return folded === id;
}

/** Never inside a character or an escape. */
function cut(whole: string): string {
  let kept = '';
  let bytes = 0;
  for (const [piece] of whole.matchAll(/%u[0-9a-f]{4}|(?:%[0-9a-f]{2})+|\P{M}\p{M}*|\p{M}+/gu)) {
    bytes += Buffer.byteLength(piece);
    if (bytes > MAX_BYTES / 2) break;
    kept += piece;
  }
  return kept;
}

const hashOf = (id: string, digits: number): string =>
  // UTF-16, because UTF-8 makes all lone surrogates the same.
  createHash('sha256').update(Buffer.from(id, 'utf16le')).digest('hex').slice(0, digits);
