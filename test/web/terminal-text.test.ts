import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { lastLines, toPlain } from '../../web/src/chat/terminal-text.ts';

it.each([
  ['colours', '\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m', 'red and blue'],
  ['a title and a link', '\x1b]0;make\x07done \x1b]8;;https://example.org\x1b\\here\x1b]8;;\x1b\\', 'done here'],
  ['a sequence that is cut off', 'half \x1b[3', 'half '],
  ['a progress bar', 'load\r 10 %\r 50 %\r\nnext', ' 50 %\nnext'],
  ['a progress bar that is under way', ' 10 %\r 50 %\r', ' 50 %'],
  ['control characters, but for tabs', 'a\x00\x08b\tc\x7f', 'ab\tc'],
])('shows %s as a terminal leaves it', (_name, printed, shown) => {
  expect(toPlain(printed)).toBe(shown);
});

it('gives the last lines, a line end at the end counting to its line', () => {
  const most = { lines: 2, chars: 100 };
  expect(lastLines('one\ntwo\nthree\n', most)).toEqual({ text: 'two\nthree\n', isAll: false });
  expect(lastLines('one\ntwo\nthree', most)).toEqual({ text: 'two\nthree', isAll: false });
  expect(lastLines('two\nthree\n', most)).toEqual({ text: 'two\nthree\n', isAll: true });
  expect(lastLines('', most)).toEqual({ text: '', isAll: true });
});

it('gives no more than so many characters, and none of them half', () => {
  expect(lastLines(`x${'😀'.repeat(10)}`, { lines: 5, chars: 5 })).toEqual({ text: '😀😀', isAll: false });
});

it('always gives an end of the text, with as many lines as there may be', () => {
  const text = fc.array(fc.constantFrom('\n', 'a', 'bc')).map((parts) => parts.join(''));
  const limits = fc.record({ lines: fc.integer({ min: 1, max: 6 }), chars: fc.integer({ min: 1, max: 40 }) });
  fc.assert(
    fc.property(text, limits, (text, most) => {
      const shown = lastLines(text, most);
      expect(text.endsWith(shown.text)).toBe(true);
      expect(shown.isAll).toBe(shown.text === text);
      const lines = text.replace(/\n$/, '').split('\n');
      const wanted = lines.slice(-most.lines).join('\n') + (text.endsWith('\n') ? '\n' : '');
      expect(shown.text).toBe(wanted.slice(-most.chars));
    }),
  );
});
