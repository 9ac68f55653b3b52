import { expect, test } from 'vitest';
import { MAX_BLOCK_CHARS } from '../../src/md/MdBlock.ts';
import { draw, drawOnce } from './harmless.ts';
import { elements } from './page.ts';

const many = (text: string, times: number): string => text.repeat(times);
const counted = (times: number, line: (n: number) => string): string =>
  Array.from({ length: times }, (_, n) => line(n)).join('\n');

const HUGE: [string, string][] = [
  ['quotation in quotation', many('>', 10_000)],
  ['quotation with spaces', many('> ', 10_000)],
  ['opening brackets', many('[', 10_000)],
  ['brackets closed again', many('[', 5_000) + 'x' + many(']', 5_000)],
  ['asterisks', many('*', 10_000)],
  ['brackets, as long as open marks are closed', many('[', 1_990) + 'x' + many(']', 1_990)],
  ['asterisks before text', many('*', 40_000) + 'a'],
  ['spaces where a table could have its dashes', `|a|\n${many(' ', 40_000)}x`],
  ['tabs in a table row', `|a|\n|${many('\t', 40_000)}x`],
  ['quotations with spaces that hold nothing', `>${many(' ', 40_000)}\n${many('> ', 20_000)}`],
  ['asterisks that open', many('*a ', 10_000)],
  ['asterisks that open and close', many('**a', 5_000)],
  ['underscores', many('___a', 5_000)],
  ['strikes', many('~~a ', 5_000)],
  ['both kinds of emphasis', many('*a _b ', 5_000)],
  ['backticks of all lengths', counted(250, (n) => many('`', n)).replaceAll('\n', ' ')],
  ['links never closed', many('[a](', 5_000)],
  ['links in images', many('[![', 3_000)],
  ['images never closed', many('![a](', 4_000)],
  ['brackets in an address', '[a](' + many('(', 20_000)],
  ['less-than signs', many('<', 10_000)],
  ['comments', many('<!--', 5_000)],
  ['CDATA', many('<![CDATA[', 2_500)],
  ['entities', many('&#', 10_000)],
  ['bare addresses', many('http://', 3_000)],
  ['mail schemes', many('mailto:', 3_000)],
  ['addresses with brackets', many('https://a.example/c?d(', 2_000)],
  ['list in list', counted(300, (n) => many(' ', n * 2) + '- a')],
  ['list markers in one line', many('- ', 5_000)],
  ['definitions', counted(1_000, (n) => `[r${n}]: http://a.example/${n}`)],
  ['references without a definition', many('[a][b]', 4_000)],
  ['wide table with empty rows', `|${many('a|', 3_000)}\n|${many('-|', 3_000)}\n${many('|\n', 3_000)}`],
  ['narrow table with many empty rows', `|${many('a|', 30)}\n|${many('-|', 30)}\n${many('|\n', 4_000)}`],
  ['escapes', many('\\', 10_000)],
  ['tildes between digits', many('1~', 5_000)],
  ['dollars', many('$$a', 5_000)],
  ['hashes', many('#', 10_000)],
  ['lines of one paragraph', many('a\n', 5_000)],
  ['pipes', many('|', 10_000)],
  ['direction marks', many('\u202e', 20_000)],
];

const LIMIT_MS = 200;

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

test.each(HUGE)('huge input is drawn in less than 200 ms: %s', (_name, text) => {
  draw(text.slice(0, 100));
  // Processor time, and the best of a few: the machine also runs other things.
  const times: number[] = [];
  while (times.length < 5 && !times.some((time) => time < LIMIT_MS)) {
    const start = cpuMs();
    drawOnce(text);
    times.push(cpuMs() - start);
  }
  expect(Math.min(...times)).toBeLessThan(LIMIT_MS);
  draw(text);
});

test('nesting has an end: 10,000 marks make no 10,000 levels', () => {
  for (const mark of ['>', '> ', '[', '*', '- ', '**a ', '![']) {
    expect(elements(draw(many(mark, 10_000)).root).length).toBeLessThan(3_000);
  }
});

test('a table of more than 10,000 cells is text', () => {
  const { root, text } = draw(`intro\n|${many('a|', 100)}\n|${many('-|', 100)}\n${many('|b|\n', 200)}\nafter`);
  expect(elements(root, 'table')).toEqual([]);
  expect(text).toContain('|b|');
  expect(elements(root, 'p').length).toBe(2);
});

test('a block longer than a person reads is plain text', () => {
  const { root, text } = draw('**a** '.repeat(MAX_BLOCK_CHARS / 6 + 1));
  expect(elements(root, 'strong')).toEqual([]);
  expect(text).toContain('**a**');
});
