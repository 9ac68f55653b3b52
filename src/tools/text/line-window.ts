// Some lines of a file of any size: bytes go through once, and only the wanted lines are kept, each up to a limit. In UTF-8
// and in GBK the byte of a line end is part of no character.

export interface WindowLine {
  number: number;
  /** Without its line end. */
  bytes: Buffer;
  /** Of the whole line; more than `bytes` has where it was cut. */
  totalBytes: number;
}

export interface LineWindow {
  push(chunk: Uint8Array): void;
  end(): { lines: WindowLine[]; totalLines: number; hasCrlf: boolean };
}

/** Keeps `limit` lines from line `offset` (1) on, and of each the first `lineBytes`. */
export function createLineWindow({
  offset,
  limit,
  lineBytes,
}: {
  offset: number;
  limit: number;
  lineBytes: number;
}): LineWindow {
  const lines: WindowLine[] = [];
  const end = offset + limit;
  let number = 1;
  let kept: Uint8Array[] = [];
  let keptBytes = 0;
  let totalBytes = 0;
  let last = -1;
  let hasCrlf = false;

  const take = (chunk: Uint8Array, from: number, to: number) => {
    if (to === from) return;
    totalBytes += to - from;
    last = chunk[to - 1]!;
    if (number < offset || number >= end || keptBytes >= lineBytes) return;
    // A copy, also of a Buffer: a small view would hold its whole chunk.
    const piece = new Uint8Array(chunk.subarray(from, Math.min(to, from + lineBytes - keptBytes)));
    kept.push(piece);
    keptBytes += piece.byteLength;
  };
  const finish = (isEnded: boolean) => {
    const isCrlf = isEnded && last === 0x0d;
    hasCrlf ||= isCrlf;
    if (number >= offset && number < end) {
      const bytes = Buffer.concat(kept);
      const isWhole = keptBytes === totalBytes;
      lines.push({
        number,
        bytes: isCrlf && isWhole ? bytes.subarray(0, -1) : bytes,
        totalBytes: totalBytes - (isCrlf ? 1 : 0),
      });
      kept = [];
      keptBytes = 0;
    }
    number++;
    totalBytes = 0;
    last = -1;
  };

  return {
    push(chunk) {
      let from = 0;
      for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, from)) {
        take(chunk, from, at);
        finish(true);
        from = at + 1;
      }
      take(chunk, from, chunk.byteLength);
    },
    end() {
      if (totalBytes) finish(false);
      return { lines, totalLines: number - 1, hasCrlf };
    },
  };
}
