import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BlockSplitter } from '../../src/md/blocks.ts';
import Markdown from '../../src/md/Markdown.vue';
import { longDocument, pieces } from './document.ts';
import { expectHarmless } from './harmless.ts';
import { elements, htmlOf, open, textOf } from './page.ts';

const FRAGMENTS = [
  '# ',
  '## ',
  '- ',
  '* ',
  '1. ',
  '2) ',
  '> ',
  '    ',
  '\t',
  '---',
  '===',
  '```',
  '~~~',
  '```js\n',
  '|',
  '| a | b |\n',
  '|---|---|\n',
  '**',
  '*',
  '_',
  '`',
  '[',
  ']',
  '](',
  ')',
  '![',
  '<',
  '>',
  'a',
  'b ',
  '重',
  '。',
  'http://a.b ',
  '\\',
  '&amp;',
  '[a]',
  '[a]: /x\n',
  '[b]: http://b.example "t"\n',
  '\n',
  '\n\n',
  '\r\n',
  '\r',
  ' ',
  '- [ ] ',
  'text',
  '\ud83d\ude00',
  '\0',
];
const markdown = fc.array(fc.constantFrom(...FRAGMENTS), { maxLength: 60 }).map((parts) => parts.join(''));

const split = (text: string): BlockSplitter => {
  const splitter = new BlockSplitter();
  splitter.update(text);
  return splitter;
};

test('text that grows by any cuts ends with the blocks and definitions of the whole text', () => {
  fc.assert(
    fc.property(markdown, fc.array(fc.nat(200), { maxLength: 30 }), (text, cuts) => {
      const growing = new BlockSplitter();
      for (const cut of cuts.sort((a, b) => a - b)) growing.update(text.slice(0, cut));
      growing.update(text);
      const whole = split(text);
      expect(growing.blocks).toEqual(whole.blocks);
      expect(growing.references).toEqual(whole.references);
    }),
    { numRuns: 3_000 },
  );
});

test('text that grows by single characters ends the same', () => {
  fc.assert(
    fc.property(markdown, (text) => {
      const growing = new BlockSplitter();
      for (let end = 0; end <= text.length; end++) growing.update(text.slice(0, end));
      expect(growing.blocks).toEqual(split(text).blocks);
    }),
    { numRuns: 300 },
  );
});

test.each([
  ['dashes that turn out to be text of the list', 'one\n\ntwo\n\n- a\n---', ' x'],
  ['dashes under a row that turn out to be text', 'one\n\ntwo\n\nText\n| a | b |\n|--|--|', ' x'],
  ['a fence that turns out to be text', 'one\n\ntwo\n\ntext\n```', ' a`'],
  ['a number that is no list', 'one\n\ntwo\n\ntext\n1. ', '\n2'],
])('a line that no longer starts a block joins the one before: %s', (_name, first, rest) => {
  const growing = new BlockSplitter();
  const before = growing.update(first).length;
  growing.update(first + rest);
  expect(growing.blocks).toEqual(split(first + rest).blocks);
  expect(growing.blocks.length).toBeLessThanOrEqual(before);
});

test('definitions stay the same object while none of them changes, or every block would be drawn again', () => {
  const splitter = new BlockSplitter();
  const text = '[a]: https://a.example\n\none [a]\n\ntwo\n\nthree';
  splitter.update(text);
  const { references } = splitter;
  splitter.update(`${text}\n\nfour`);
  expect(splitter.references).toBe(references);
  splitter.update(`${text}\n\nfour\n\n[b]: https://b.example\n`);
  expect(Object.keys(splitter.references)).toEqual(['A', 'B']);
});

test('the blocks together are the whole text', () => {
  fc.assert(
    fc.property(markdown, (text) => {
      expect(
        split(text)
          .blocks.map(({ src }) => src)
          .join(''),
      ).toBe(text.replace(/\r\n?/g, '\n'));
    }),
    { numRuns: 1_000 },
  );
});

test('text that is replaced, or cut short, is split like new text', () => {
  fc.assert(
    fc.property(fc.array(markdown, { minLength: 2, maxLength: 5 }), (texts) => {
      const splitter = new BlockSplitter();
      for (const text of texts) expect(splitter.update(text)).toEqual(split(text).blocks);
      const last = texts.at(-1) ?? '';
      const shorter = last.slice(0, last.length / 2);
      expect(splitter.update(shorter)).toEqual(split(shorter).blocks);
    }),
    { numRuns: 500 },
  );
});

test('what is drawn at the end of a stream is what the whole text draws, and each frame is harmless', async () => {
  await fc.assert(
    fc.asyncProperty(markdown, fc.array(fc.nat(200), { maxLength: 8 }), async (text, cuts) => {
      const page = open(Markdown, { text: '', live: true });
      for (const cut of cuts.sort((a, b) => a - b)) {
        await page.update({ text: text.slice(0, cut) });
        expectHarmless(page.root);
      }
      await page.update({ text, live: false });
      const whole = open(Markdown, { text, live: false });
      const [grown, expected] = [htmlOf(page.root), htmlOf(whole.root)];
      page.close();
      whole.close();
      expect(grown).toBe(expected);
    }),
    { numRuns: 200 },
  );
});

test('streaming 11 kB in 474 pieces lexes a small multiple of the text, and twice the text costs twice', () => {
  const cost = (text: string, count: number): number => {
    const splitter = new BlockSplitter();
    let grown = '';
    for (const piece of pieces(text, count)) splitter.update((grown += piece));
    expect(splitter.blocks).toEqual(split(text).blocks);
    return splitter.lexedChars;
  };
  const text = longDocument();
  expect(text.length).toBeGreaterThan(8_000);
  const once = cost(text, 474);
  const twice = cost(text + '\n' + text, 948);
  // Each piece lexes about two blocks again. All of it each time would be 474 / 2 = 237 times the text.
  expect(once).toBeLessThan(20 * text.length);
  expect(twice).toBeLessThan(2.3 * once);
});

test('a stream shows no raw mark that the finished text does not show', async () => {
  const text = longDocument();
  const page = open(Markdown, { text: '', live: true });
  let grown = '';
  const raw: string[] = [];
  for (const piece of pieces(text, 1_900)) {
    await page.update({ text: (grown += piece) });
    for (const element of elements(page.root)) {
      if (['p', 'li', 'td', 'th', 'h2', 'h3', 'h4'].includes(element.tag) && !elements(element, 'code').length) {
        const shown = textOf(element);
        if (/\*\*|\*$|^\||^#|`|~~|\]\(|^-+$|\[$/.test(shown)) raw.push(shown);
      }
    }
  }
  page.close();
  expect(raw).toEqual([]);
});

test('a stream only ever adds: nearly no element is taken away again', async () => {
  const text = longDocument();
  const page = open(Markdown, { text: '', live: true });
  let grown = '';
  for (const piece of pieces(text, 474)) await page.update({ text: (grown += piece) });
  await page.update({ live: false });
  const total = elements(page.root).length;
  page.close();
  expect(total).toBeGreaterThan(300);
  expect(page.removed).toBeLessThan(total / 20);
});

test('a block that is complete is not drawn again', async () => {
  const page = open(Markdown, { text: 'one\n\ntwo\n\nthree', live: true });
  const [first] = elements(page.root, 'p');
  await page.update({ text: 'one\n\ntwo\n\nthree **four**\n\n- five' });
  expect(elements(page.root, 'p')[0]).toBe(first);
  page.close();
});

test('a definition that arrives later completes the links above it, once its line is complete', async () => {
  const page = open(Markdown, { text: 'See [the notes][n].\n\nmore\n\nmore\n\n[n]: https://notes.exam', live: true });
  expect(elements(page.root, 'a')).toEqual([]);
  expect(textOf(page.root)).not.toContain('notes.exam');
  await page.update({ text: 'See [the notes][n].\n\nmore\n\nmore\n\n[n]: https://notes.example\n' });
  expect(elements(page.root, 'a').map(({ attributes }) => attributes.href)).toEqual(['https://notes.example']);
  page.close();
});

test.each([
  ['a row that may become a table head', 'Text\n\n| a | b |', 'Text'],
  ['a table head before its dashes', 'Text\n\n| a | b |\n', 'Text'],
  ['a table head with unfinished dashes', 'Text\n\n| a | b |\n|--', 'Text'],
  ['an unfinished row', '| a |\n|---|\n| b', 'a'],
  ['an unfinished heading', 'Text\n\n## Ti', 'Text'],
  ['the line under a heading to be', 'Title\n=', 'Title'],
  ['a line of marks', 'Text\n\n**', 'Text'],
  ['a list marker', '- one\n-', 'one'],
  ['a number of a list', '1. one\n2', 'one'],
  ['a box of a task', '- [x] one\n- [', 'one'],
  ['an unfinished fence', 'Text\n\n```py', 'Text'],
  ['bold at the end', 'a **', 'a'],
  ['bold in bold text', '**a *b* (*', 'a b ('],
  ['bold and italic', 'a **b *c', 'a b c'],
  ['a link without address', 'a [b](https://exa', 'a b'],
])('held back or closed while it grows: %s', (_name, text, shown) => {
  const page = open(Markdown, { text, live: true });
  expect(textOf(page.root)).toBe(shown);
  page.close();
});

test('nothing is held back once the text has ended', () => {
  for (const text of ['| a | b |', '#', '**', '- ', '42', '```', 'a [b](https://exa']) {
    const page = open(Markdown, { text, live: false });
    expect(elements(page.root).length).toBeGreaterThan(2);
    page.close();
  }
});

test('lines of code are shown as they come, whatever they start with', () => {
  const page = open(Markdown, { text: '```py\n# comment\n| a', live: true });
  expect(elements(page.root, 'code').map(textOf)).toEqual(['# comment\n| a']);
  page.close();
});
