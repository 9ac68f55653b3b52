import { expect, it } from 'vitest';
import { withVisibleHidden } from '../../src/md/characters.ts';

it.each([
  ['a line end', 'a\nb', 'a⟨U+000A⟩b'],
  ['what turns the order around', 'cod\u202Efdp.exe', 'cod⟨U+202E⟩fdp.exe'],
  ['what has no width', 'pay\u200Bpal', 'pay⟨U+200B⟩pal'],
  ['a separator of lines', 'a\u2028b', 'a⟨U+2028⟩b'],
  ['what is far out', 'a\u{E0041}', 'a⟨U+E0041⟩'],
  ['half of a character', 'a\ud83d', 'a⟨U+D83D⟩'],
])('a name spells out %s', (_what, name, shown) => {
  expect(withVisibleHidden(name)).toBe(shown);
});

it('a name of any language stays as it is', () => {
  expect(withVisibleHidden('Bericht "Q3" – 报告 😀 عربي.txt')).toBe('Bericht "Q3" – 报告 😀 عربي.txt');
});
