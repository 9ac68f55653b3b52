import { expect, test } from 'vitest';
import { toBytes } from '../../src/sandbox/virtual/bytes.ts';

const cases: [name: string, given: string, bytes: Buffer][] = [
  ['nothing', '', Buffer.alloc(0)],
  ['plain text', 'a\nb\n', Buffer.from('a\nb\n')],
  ['text beyond latin1', '中文 é\n', Buffer.from('中文 é\n')],
  ['text within latin1', 'é ü\n', Buffer.from('é ü\n')],
  ['a character outside of the basic plane', '😀\n', Buffer.from('😀\n')],
  ['bytes', '\0\u00ff\u00fe\u0080', Buffer.from([0, 255, 254, 128])],
  [
    'every byte',
    String.fromCharCode(...Buffer.from(Array.from({ length: 256 }, (_, i) => i))),
    Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
  ],
  ['text that came as bytes', 'Ã©\n', Buffer.from('é\n')],
  ['bytes before text', '\u00ff\u0080\n中\n', Buffer.concat([Buffer.from([255, 128, 10]), Buffer.from('中\n')])],
  [
    'bytes and text in one line',
    '\u00ff\u0080中\u0081',
    Buffer.concat([Buffer.from([255, 128]), Buffer.from('中'), Buffer.from([129])]),
  ],
];

test.each(cases)('the library gives %s back as the bytes that they were', (_, given, bytes) => {
  expect(toBytes(given)).toEqual(bytes);
});
