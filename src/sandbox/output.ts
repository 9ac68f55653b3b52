// What is kept of a stream that may be endless: its head and its tail, in bounded memory.
import type { Output } from './sandbox.ts';

export interface Keeper {
  /** Takes the next piece; keeps no more of it than it must. */
  push(chunk: Uint8Array): void;
  /** Of all pieces, in bytes. */
  readonly totalBytes: number;
  take(): Output;
}

export function createKeeper(keepBytes: number): Keeper {
  const headBytes = keepBytes - (keepBytes >> 1);
  const tailBytes = keepBytes >> 1;
  const head: Uint8Array[] = [];
  let inHead = 0;
  const tail: Uint8Array[] = [];
  let inTail = 0;
  let totalBytes = 0;
  return {
    get totalBytes() {
      return totalBytes;
    },
    push(chunk) {
      totalBytes += chunk.byteLength;
      const fits = Math.min(headBytes - inHead, chunk.byteLength);
      if (fits > 0) {
        // A copy: a small view may hold a large buffer of its reader.
        head.push(new Uint8Array(chunk.subarray(0, fits)));
        inHead += fits;
      }
      if (fits === chunk.byteLength) return;
      tail.push(new Uint8Array(chunk.subarray(Math.max(fits, chunk.byteLength - tailBytes))));
      inTail += tail.at(-1)!.byteLength;
      while (tail.length > 1 && inTail - tail[0]!.byteLength >= tailBytes) inTail -= tail.shift()!.byteLength;
    },
    take() {
      const kept = Buffer.concat(tail);
      const omittedBytes = Math.max(0, totalBytes - inHead - tailBytes);
      if (!omittedBytes) return { head: Buffer.concat([...head, kept]), tail: new Uint8Array(), omittedBytes };
      return { head: Buffer.concat(head), tail: kept.subarray(kept.byteLength - tailBytes), omittedBytes };
    },
  };
}
