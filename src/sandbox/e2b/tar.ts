// Reads an archive of GNU tar as it comes, from a machine that is not trusted: it takes names and contents, nothing else.

export interface TarEntry {
  name: string;
  kind: 'file' | 'link';
  /** Of a file, its content; of a link, its target as text. */
  content: Uint8Array;
}

const BLOCK = 512;

/**
 * Calls `onEntry` for each file and link, in order, and waits for it. An entry of more than `limitBytes` is left out.
 * What is no archive ends it.
 */
export function createTarReader(limitBytes: number, onEntry: (entry: TarEntry) => Promise<void>) {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  /** What is awaited: a header, or the content of the entry that it announced. */
  let entry: { kind: string; name: string; target: string; size: number } | undefined;
  let longName: string | undefined;
  let longTarget: string | undefined;
  let toSkip = 0;
  let isOver = false;

  const wanted = () => (entry ? padded(entry.size) : BLOCK);

  async function take(block: Buffer): Promise<void> {
    if (!entry) return takeHeader(block);
    const { kind, name, target, size } = entry;
    entry = undefined;
    const content = block.subarray(0, size);
    if (kind === 'L') longName = textOf(content);
    else if (kind === 'K') longTarget = textOf(content);
    else {
      const isLink = kind === '2';
      if (isLink || kind === '0') {
        const text = Buffer.from(longTarget ?? target);
        await onEntry({ name: longName ?? name, kind: isLink ? 'link' : 'file', content: isLink ? text : content });
      }
      [longName, longTarget] = [undefined, undefined];
    }
  }

  async function takeHeader(block: Buffer): Promise<void> {
    const size = sizeOf(block);
    if (!block.some((byte) => byte !== 0) || !Number.isSafeInteger(size) || size < 0) {
      isOver = true;
      return;
    }
    const kind = String.fromCharCode(block[156]!);
    if (size > limitBytes) {
      toSkip = padded(size);
      [longName, longTarget] = [undefined, undefined];
      return;
    }
    entry = { kind, name: textOf(block.subarray(0, 100)), target: textOf(block.subarray(157, 257)), size };
    if (size === 0) await take(Buffer.alloc(0));
  }

  return {
    /** One piece of the archive; pieces are pushed one after another. */
    async push(chunk: Uint8Array): Promise<void> {
      let rest = chunk;
      while (!isOver && rest.byteLength) {
        const skipped = Math.min(toSkip, rest.byteLength);
        toSkip -= skipped;
        const part = rest.subarray(skipped, skipped + wanted() - bytes);
        rest = rest.subarray(skipped + part.byteLength);
        if (!part.byteLength) continue;
        pieces.push(part);
        bytes += part.byteLength;
        if (bytes < wanted()) continue;
        const block = Buffer.concat(pieces);
        [pieces, bytes] = [[], 0];
        await take(block);
      }
    },
  };
}

const padded = (size: number): number => Math.ceil(size / BLOCK) * BLOCK;

function textOf(field: Buffer): string {
  const end = field.indexOf(0);
  return field.subarray(0, end < 0 ? field.byteLength : end).toString();
}

/** Octal, or binary where the first bit is set. */
function sizeOf(block: Buffer): number {
  const field = block.subarray(124, 136);
  if (field[0]! & 0x80) return Number(field.readBigUInt64BE(4));
  return Number.parseInt(textOf(field).trim() || '0', 8);
}
