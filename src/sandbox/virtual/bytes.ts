// just-bash passes text and bytes in the same kind of string and does not tell which it was: text as it is, bytes that are
// no UTF-8 as latin1. Here it becomes bytes again.
import { isUtf8 } from 'node:buffer';

const WIDE = /([^\0-\u00ff]+)/;
/** C1 control characters are in no text, and in nearly all bytes that are no UTF-8. */
const C1 = /[\u0080-\u009f]/;
/** As `C1`, or UTF-8 that was not taken for what it is. */
const MAY_BE_BYTES = /[\u0080-\u009f]|[\u00c2-\u00f4][\u00a0-\u00bf]/;

/**
 * The bytes of an output. Wrong for bytes from A0 to FF that are no UTF-8 where no byte from 80 to 9F is near: in the whole
 * output, or in the same line where characters beyond U+00FF are in the output, too.
 */
export function toBytes(output: string): Buffer {
  if (!MAY_BE_BYTES.test(output)) return Buffer.from(output);
  if (C1.test(output) && !WIDE.test(output)) return Buffer.from(output, 'latin1');
  // Lines that are just text stay together: there may be millions.
  const pieces: Buffer[] = [];
  let textFrom = 0;
  for (let start = 0, end = 0; start < output.length; start = end) {
    end = output.indexOf('\n', start) + 1 || output.length;
    const line = output.slice(start, end);
    if (!MAY_BE_BYTES.test(line)) continue;
    pieces.push(Buffer.from(output.slice(textFrom, start)), lineToBytes(line));
    textFrom = end;
  }
  return Buffer.concat([...pieces, Buffer.from(output.slice(textFrom))]);
}

function lineToBytes(line: string): Buffer {
  if (C1.test(line))
    return Buffer.concat(line.split(WIDE).map((part, i) => Buffer.from(part, i % 2 ? 'utf8' : 'latin1')));
  const bytes = Buffer.from(line, 'latin1');
  return !WIDE.test(line) && isUtf8(bytes) ? bytes : Buffer.from(line);
}
