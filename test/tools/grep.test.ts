import { mkdir, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseGlob } from '../../src/tools/search/glob-pattern.ts';
import { createRig } from './hands.ts';

async function createTree(tree: Record<string, string | Uint8Array>) {
  const rig = await createRig();
  for (const [path, content] of Object.entries(tree)) {
    await mkdir(dirname(join(rig.root, path)), { recursive: true });
    await writeFile(join(rig.root, path), content);
  }
  return rig;
}

const gbk = Buffer.from([0x31, 0x0a, 0xc4, 0xe3, 0xba, 0xc3, 0x0a]); // 1, 你好

describe('SBX-21: Grep', () => {
  test('finds files, lines with those around them, and counts, in order', async () => {
    await using rig = await createTree({
      'src/b.ts': 'one\ntwo\nthree two\nfour\nfive\nsix\nseven\neight two\n',
      'src/a.ts': 'nothing\r\ntwo\r\n',
      'c.txt': 'no match',
    });
    const grep = (more: object) => rig.call('Grep', { pattern: 'two', ...more });
    expect(await grep({})).toBe('src/a.ts\nsrc/b.ts');
    expect(await grep({ output: 'count' })).toBe('src/a.ts:1\nsrc/b.ts:3');
    expect(await grep({ output: 'content' })).toBe(
      'src/a.ts:2:two\nsrc/b.ts:2:two\nsrc/b.ts:3:three two\nsrc/b.ts:8:eight two',
    );
    expect(await grep({ output: 'content', path: 'src/b.ts', context: 1 })).toBe(
      'src/b.ts-1-one\nsrc/b.ts:2:two\nsrc/b.ts:3:three two\nsrc/b.ts-4-four\n--\nsrc/b.ts-7-seven\nsrc/b.ts:8:eight two',
    );
    expect(await grep({ output: 'content', path: 'src/a.ts', before: 1 })).toBe('src/a.ts-1-nothing\nsrc/a.ts:2:two');
    expect(await grep({ pattern: 'TWO$', ignoreCase: true, path: '/workspace/src' })).toBe('src/a.ts\nsrc/b.ts');
    expect(await grep({ output: 'content', limit: 2 })).toMatch(
      /^src\/a\.ts:2:two\nsrc\/b\.ts:2:two\n\n\[These are the first 2 matching lines/,
    );
    expect(await grep({ pattern: 'absent' })).toBe('Nothing was found.');
  });

  test('type and glob both apply', async () => {
    const names = ['a.ts', 'a.js', 'lib/b.ts', 'lib/deep/c.tsx', 'test/d.ts', 'README.md'];
    await using rig = await createTree(Object.fromEntries(names.map((name) => [name, 'needle\n'])));
    const grep = (more: object) => rig.call('Grep', { pattern: 'needle', ...more });
    expect(await grep({ type: 'ts' })).toBe('a.ts\nlib/b.ts\nlib/deep/c.tsx\ntest/d.ts');
    expect(await grep({ glob: '*.{ts,md}' })).toBe('README.md\na.ts\nlib/b.ts\ntest/d.ts');
    expect(await grep({ type: 'ts', glob: 'lib/**' })).toBe('lib/b.ts\nlib/deep/c.tsx');
    expect(await grep({ type: 'ts', glob: 'deep/*', path: 'lib' })).toBe('lib/deep/c.tsx');
    expect(await grep({ type: 'js', glob: '*.ts' })).toBe('Nothing was found.');
    await expect(grep({ type: 'cobol' })).rejects.toThrow('type');
  });

  test('multiline matches span lines', async () => {
    await using rig = await createTree({ f: 'begin\r\n  x\r\nend\r\nother\r\nbegin end\r\n' });
    const grep = (multiline: boolean) => rig.call('Grep', { pattern: 'begin.*?end', output: 'content', multiline });
    expect(await grep(false)).toBe('f:5:begin end');
    expect(await grep(true)).toBe('f:1:begin\nf:2:  x\nf:3:end\nf:5:begin end');
    expect(await rig.call('Grep', { pattern: '^\\s*x$', output: 'content', multiline: true })).toBe('f:2:  x');
  });

  test('finds text in GBK and UTF-16, and tells what it passes over', async () => {
    await using rig = await createTree({
      gbk,
      utf16: Buffer.from('\ufeffx\n你好\n', 'utf16le'),
      utf8: '你好\n',
      binary: Buffer.concat([Buffer.from('你好'), Buffer.alloc(3)]),
      huge: '你好\n',
      '.git/f': '你好\n',
      'node_modules/m/f': '你好\n',
    });
    await truncate(join(rig.root, 'huge'), 10_000_001);
    await symlink('/etc', join(rig.root, 'etc'));
    expect(await rig.call('Grep', { pattern: '你好', output: 'content' })).toBe(
      'gbk:2:你好\nutf16:2:你好\nutf8:1:你好\n\n[Files over 10 MB that were not searched: 1. Binary files that were not searched: 1.]',
    );
    expect(await rig.call('Grep', { pattern: '你好', path: 'node_modules' })).toBe('node_modules/m/f');
    expect(await rig.call('Grep', { pattern: '你好', glob: '.git/**' })).toMatch(/^\.git\/f/);
    expect(await rig.call('Grep', { pattern: '\\p{Script=Han}{2}', path: 'gbk' })).toBe('gbk');
    for (const path of ['../', '/etc', 'etc', 'none']) {
      await expect(rig.call('Grep', { pattern: 'x', path })).rejects.toThrow(/\. (Use a path|List the|Name a)/);
    }
  });

  test('a pattern that would take for ever is stopped within 2 s, says so, and the next search works', async () => {
    await using rig = await createTree({ a: 'needle\n', b: `${'a'.repeat(40)}!\n` });
    expect(await rig.call('Grep', { pattern: 'needle' })).toBe('a');
    let ticks = 0;
    const timer = setInterval(() => ticks++, 10);
    const began = performance.now();
    const slow = rig.call('Grep', { pattern: '^(a+)+$' });
    const other = rig.call('Grep', { pattern: 'needle' });
    await expect(slow).rejects.toThrow('Matching took too long and was stopped. Use a simpler pattern');
    expect(performance.now() - began).toBeLessThan(2000);
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(20);
    expect(await other).toBe('a');
  });

  test('says what is wrong with a pattern, and takes those that other programs write', async () => {
    await using rig = await createTree({ f: 'say "hi" - now\n' });
    await expect(rig.call('Grep', { pattern: '(' })).rejects.toThrow(
      /Invalid regular expression: .*Correct the pattern\./,
    );
    expect(await rig.call('Grep', { pattern: String.raw`\"hi\" \- ` })).toBe('f');
  });

  test('of a long line it shows what is around the match', async () => {
    await using rig = await createTree({ f: `${'x'.repeat(5000)}needle${'y'.repeat(5000)}` });
    const line = await rig.call('Grep', { pattern: 'needle', output: 'content' });
    expect(line).toMatch(/^f:1:\[\.\.\.\] x+needley+ \[\.\.\.\]$/);
    expect(line.length).toBeLessThan(530);
  });

  test('SBX-17: of a long line with a secret no part of it is shown', async () => {
    await using rig = await createRig();
    const secret = 's3cr3t-Value-'.repeat(10);
    const scrub = (text: string) => text.replaceAll(secret, '***');
    const long = 'x'.repeat(1_000);
    await writeFile(join(rig.root, 'f'), `needle ${'y'.repeat(450)}${secret}${long}\nneedle ${long}\n`);
    const told = await rig.call('Grep', { pattern: 'needle', output: 'content' }, { scrub });
    expect(told).not.toContain('s3cr3t');
    expect(told).toMatch(/^f:1:\[\.\.\. a long line with a secret.*\nf:2:needle x+ \[\.\.\.\]$/);
  });
});

describe('SBX-21: many files', () => {
  test('are searched and listed up to a number, which is told', async () => {
    await using rig = await createRig();
    const { files } = rig.sandbox;
    const names = Array.from({ length: 10_002 }, (_, at) => `f${at}`);
    const about = { kind: 'file', bytes: 7, modifiedAt: 0, isExecutable: false } as const;
    files.list = async () => ({ files: names.map((path) => ({ path, ...about })), isComplete: true });
    let reads = 0;
    files.read = async () => Buffer.from(`needle${reads++}`);
    const result = await rig.call('Grep', { pattern: 'needle(9999|10000)$' });
    expect(result).toBe('f9999\n\n[Only 10,000 files and 100 MB were searched. Give a narrower path, glob or type.]');
    const lines = (await rig.call('Glob', { pattern: '*' })).split('\n');
    expect(lines.length).toBe(1002);
    expect(lines.at(-1)).toBe('[The newest 1000 of 10002. Use a narrower pattern.]');
    expect(await rig.call('Grep', { pattern: 'needle' })).toMatch(/f249\n\n\[These are the first 250 files;/);
  });
});

describe('SBX-21: Glob', () => {
  test('finds files by their paths, the newest first', async () => {
    const names = ['a.ts', 'src/b.ts', 'src/x/c.ts', 'src/x/d.js', '.env', 'node_modules/m/e.ts', '.outputs/call.txt'];
    await using rig = await createTree(Object.fromEntries(names.map((name) => [name, ''])));
    for (const [at, name] of names.entries()) await utimes(join(rig.root, name), 1000 + at, 1000 + at);
    const glob = (pattern: string, path?: string) => rig.call('Glob', { pattern, ...(path !== undefined && { path }) });
    expect(await glob('**/*.ts')).toBe('src/x/c.ts\nsrc/b.ts\na.ts');
    expect(await glob('*')).toBe('.env\na.ts');
    expect(await glob('*.{ts,js}', 'src/x')).toBe('src/x/d.js\nsrc/x/c.ts');
    expect(await glob('node_modules/**')).toBe('node_modules/m/e.ts');
    expect(await glob('*', '.outputs')).toBe('.outputs/call.txt');
    expect(await glob('*.py')).toBe('No file matches.');
    await expect(glob('{a,b}'.repeat(10))).rejects.toThrow('too many alternatives');
    await expect(glob('*', 'a.ts')).rejects.toThrow('a.ts is no folder');
    for (const path of ['..', '/etc', 'none'])
      await expect(glob('*', path)).rejects.toThrow(/\. (Use a path|List the)/);
  });

  const cases: [pattern: string, yes: string[], no: string[]][] = [
    ['*.ts', ['a.ts', '.ts'], ['a.tsx', 'x/a.ts', 'ats']],
    ['**/*.ts', ['a.ts', 'x/y/a.ts'], ['a.js']],
    ['src/**', ['src/a', 'src/x/a'], ['a', 'lib/src/a']],
    ['**/x/**/y', ['x/y', 'a/x/b/c/y'], ['x', 'y/x']],
    ['a?c', ['abc', 'a中c', 'a🙂c'], ['ac', 'abbc', 'a/c']],
    ['[a-c]x[!0-9]', ['axb', 'cx-'], ['dxb', 'ax1']],
    ['a[]]b[-x]', ['a]b-', 'a]bx'], ['a[b-']],
    ['{a,b{c,d}}.x', ['a.x', 'bc.x', 'bd.x'], ['b.x', 'c.x']],
    ['{a}/./b//c', ['{a}/b/c'], ['a/b/c']],
    ['a.b+(c)', ['a.b+(c)'], ['axb+(c)', 'a.bbc']],
    ['/workspace/src/*', ['src/a'], ['a']],
  ];
  test.each(cases)('%s', (pattern, yes, no) => {
    const matches = parseGlob(pattern)!;
    expect([yes.filter((path) => !matches(path)), no.filter((path) => matches(path))]).toEqual([[], []]);
  });

  test('a pattern of stars takes no time', () => {
    const began = performance.now();
    expect(parseGlob(`${'*a'.repeat(100)}b`)!('a'.repeat(5000))).toBe(false);
    expect(parseGlob(`${'**/a/'.repeat(100)}b`)!('a/'.repeat(2000))).toBe(false);
    expect(performance.now() - began).toBeLessThan(200);
  });

  test('a path without special characters matches itself only', () => {
    const path = fc.string({ unit: fc.constantFrom('a', 'b', '.', '-'), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(path, path, (one, other) => {
        fc.pre(one !== '.' && other !== '.');
        return parseGlob(`${one}/x`)!(`${other}/x`) === (one === other);
      }),
    );
  });
});
