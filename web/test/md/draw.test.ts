import { afterEach, expect, test } from 'vitest';
import { language } from '../../src/i18n.ts';
import { draw } from './harmless.ts';
import { elements, htmlOf, textOf } from './page.ts';

afterEach(() => (language.value = 'en'));

const body = (text: string): string => htmlOf(draw(text).root).replace(/^<root><div class="md">|<\/div><\/root>$/g, '');

test.each([
  ['emphasis', 'a **b** *c* ~~d~~ `e`', '<p>a <strong>b</strong> <em>c</em> <s>d</s> <code>e</code></p>'],
  ['hard break', 'a  \nb', '<p>a<br></br>b</p>'],
  ['rule', '---', '<hr></hr>'],
  ['tight list', '- a\n- b', '<ul><li>a</li><li>b</li></ul>'],
  ['loose list', '- a\n\n- b', '<ul><li><p>a</p></li><li><p>b</p></li></ul>'],
  ['list that starts at 3', '3. a\n4. b', '<ol start=3><li>a</li><li>b</li></ol>'],
  ['quotation', '> a\n> b', '<blockquote><p>a\nb</p></blockquote>'],
  ['entities', '&copy; &lt;b&gt;', '<p>© <b></p>'],
  ['heading in a quotation is no part of the outline', '> # a', '<blockquote><p class="md-h1">a</p></blockquote>'],
])('%s', (_name, text, html) => {
  expect(body(text)).toBe(html);
});

test('headings start at h2 and skip no level, whatever the text does', () => {
  const { root } = draw('### a\n\n###### b\n\n### c\n\n# d\n\n#### e\n\n##### f\n\n## g');
  const outline = elements(root)
    .filter(({ tag }) => /^h\d$/.test(tag))
    .map((found) => found.tag + textOf(found));
  expect(outline).toEqual(['h2a', 'h3b', 'h2c', 'h2d', 'h3e', 'h4f', 'h3g']);
});

test('a table can be scrolled by keyboard and has a name', () => {
  const { root } = draw('| a | b | c |\n|:--|--:|:-:|\n| 1 | 2 | 3 |');
  const [scroller] = elements(root, 'div').filter(({ attributes }) => attributes.class === 'md-table');
  expect(scroller?.attributes).toEqual({ class: 'md-table', role: 'group', tabindex: 0, 'aria-label': 'Table' });
  expect(elements(root, 'th').map(({ attributes }) => attributes)).toEqual([
    { scope: 'col' },
    { scope: 'col', class: 'md-right' },
    { scope: 'col', class: 'md-center' },
  ]);
  expect(elements(root, 'td').map(textOf)).toEqual(['1', '2', '3']);
});

test('task lists say their state in the language of the page', () => {
  const boxes = (): unknown[] =>
    elements(draw('- [x] a\n- [ ] b\n- c').root, 'span').map(({ attributes }) => attributes['aria-label']);
  expect(boxes()).toEqual(['Done', 'To do']);
  language.value = 'zh';
  expect(boxes()).toEqual(['已完成', '待办']);
});

test.each([
  ['punctuation inside the marks', '**重点：**第一节', '<p><strong>重点：</strong>第一节</p>'],
  ['quotation marks inside the marks', '这是**“重点”**的说明', '<p>这是<strong>“重点”</strong>的说明</p>'],
  ['brackets inside the marks', '**龙虾(lobster)**是红的', '<p><strong>龙虾(lobster)</strong>是红的</p>'],
  ['line break between characters is no space', '第一行\n第二行', '<p>第一行第二行</p>'],
  ['line break beside Latin text stays', '用\nHomard', '<p>用\nHomard</p>'],
  ['asterisk between spaces is no mark', '三 * 五 * 七', '<p>三 * 五 * 七</p>'],
])('Chinese: %s', (_name, text, html) => {
  expect(body(text)).toBe(html);
});

test('a bare address ends at Chinese punctuation', () => {
  const { links, text } = draw(
    '详见https://example.com/a。然后（https://example.com/b）再看https://example.com/文档，好',
  );
  expect(links).toEqual(['https://example.com/a', 'https://example.com/b', 'https://example.com/%E6%96%87%E6%A1%A3']);
  expect(text).toBe('详见https://example.com/a。然后（https://example.com/b）再看https://example.com/文档，好');
});

test('an image without text says where it would come from', () => {
  expect(draw('![](https://a.example/x.png)').text).toBe('Image (a.example)');
});
