// What a file is, by its first bytes and by whether it is text; what its sender says counts for the rest.

export interface Sniffer {
  /** All of the content, in order. */
  push(chunk: Uint8Array): void;
  /** `declared`: a Content-Type as it came. */
  type(declared: string | undefined): string;
}

const ANY = 'application/octet-stream';

/** Said by programs that do not know: curl's default, and what systems take `.ts` for. */
const UNKNOWN = new Set([ANY, 'application/x-www-form-urlencoded', 'binary/octet-stream', 'video/mp2t']);

const magics: [type: string, pattern: RegExp][] = [
  ['image/png', /^\x89PNG\r\n\x1a\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
  ['application/pdf', /^%PDF-/],
];

const HEAD_BYTES = 16;

export function createSniffer(): Sniffer {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let head = '';
  let isText = true;
  const decode = (chunk?: Uint8Array) => {
    try {
      isText &&= !decoder.decode(chunk, { stream: chunk !== undefined }).includes('\0');
    } catch {
      isText = false;
    }
  };
  return {
    push(chunk) {
      if (head.length < HEAD_BYTES) head += Buffer.from(chunk.subarray(0, HEAD_BYTES)).toString('latin1');
      if (isText) decode(chunk);
    },
    type(declared) {
      if (isText) decode();
      const magic = magics.find(([, pattern]) => pattern.test(head));
      if (magic) return magic[0];
      const said = normalise(declared);
      // What says that it is an image and does not begin like one is none.
      const isUnknown = UNKNOWN.has(said) || magics.some(([type]) => type === said);
      return isUnknown ? (isText ? 'text/plain' : ANY) : said;
    },
  };
}

/** Lower case, without parameters. */
function normalise(declared = ''): string {
  const type = (declared.split(';', 1)[0] ?? '').trim().toLowerCase();
  const known = type === 'image/jpg' ? 'image/jpeg' : type;
  return known.length <= 100 && /^[a-z0-9][\w!#$&^.+-]*\/[a-z0-9][\w!#$&^.+-]*$/.test(known) ? known : ANY;
}
