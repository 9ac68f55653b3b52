import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/kernel/index.ts';
import { replaceText } from '../../src/tools/text/replace.ts';
import { findSimilar } from '../../src/tools/text/similar-line.ts';
import { decodeText, encodeText } from '../../src/tools/text/text-file.ts';
import { createRig } from './hands.ts';

/** Writes a file, reads it as the model would, edits it, and gives what was told and what the file is then. */
async function edit(content: string | Uint8Array, args: { [key: string]: Json }) {
  await using rig = await createRig();
  const file = join(rig.root, 'f');
  await writeFile(file, content);
  await rig.call('Read', { path: 'f' });
  const told = await rig.call('Edit', { path: 'f', ...args }).catch((error: Error) => error.message);
  return { told, bytes: await readFile(file), text: await readFile(file, 'utf8') };
}

describe('SBX-20: Edit', () => {
  test('replaces the one match and shows the changed lines with their numbers', async () => {
    const content = Array.from({ length: 20 }, (_, at) => `line ${at + 1}\n`).join('');
    const { told, text } = await edit(content, { oldString: 'line 10\n', newString: 'ten\nand a half\n' });
    expect(text).toBe(content.replace('line 10\n', 'ten\nand a half\n'));
    expect(told).toBe(
      'Edited f:\n7\tline 7\n8\tline 8\n9\tline 9\n10\tten\n11\tand a half\n12\tline 11\n13\tline 12\n14\tline 13\n15\tline 14',
    );
  });

  test('tells how many matches there are and where, and replaces all when asked to', async () => {
    const content = 'a = 1\nb = 1\nc = 2\nd = 1\n';
    const args = { oldString: '= 1', newString: '= 10' };
    expect(await edit(content, args)).toMatchObject({
      told: 'oldString is 3 times in f, from lines 1, 2, 4. Add lines around it until it is unique, or set replaceAll.',
      text: content,
    });
    const all = await edit(content, { ...args, replaceAll: true });
    expect(all.text).toBe('a = 10\nb = 10\nc = 2\nd = 10\n');
    expect(all.told).toMatch(/^Edited f in 3 places; the first:\n1\ta = 10\n2\tb = 10/);
    expect((await edit('aaa', { oldString: 'aa', newString: 'b' })).told).toMatch(/^oldString is 2 times/);
  });

  test('ends soon where there are very many places', async () => {
    const content = 'a'.repeat(2_000_000);
    const many = await edit(content, { oldString: 'a', newString: 'b', replaceAll: true });
    expect(many).toMatchObject({
      told: 'oldString is in more than 100,000 places of f. Use Bash, for example with sed.',
      text: content,
    });
    const { told } = await edit(content, { oldString: 'a'.repeat(10_000), newString: 'b' });
    expect(told).toMatch(/^oldString is at least 1000 times in f/);
  });

  test('SBX-17: shows no part of a secret', async () => {
    await using rig = await createRig();
    const secret = 's3cr3t-"Value"-'.repeat(3);
    const scrub = (text: string) => text.replaceAll(secret, '***');
    await writeFile(join(rig.root, 'f'), `one\n${'x'.repeat(280)}${secret}\nthree`);
    await rig.call('Read', { path: 'f' });
    const told = await rig.call('Edit', { path: 'f', oldString: 'one', newString: '1' }, { scrub });
    expect(told).toBe(`Edited f:\n1\t1\n2\t${'x'.repeat(280)}***\n3\tthree`);
    const args = { path: 'f', oldString: `${'x'.repeat(280)}${secret}!`, newString: '1' };
    const missing = await rig.call('Edit', args, { scrub }).catch((error: Error) => error.message);
    expect(missing).toContain('The nearest is line 2');
    expect(missing).not.toContain('s3cr3t');
  });

  test('MEM-22: an empty old string and equal strings are refused at once', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'f'), 'x'.repeat(5_000_000));
    await rig.call('Read', { path: 'f' });
    const began = performance.now();
    const cpu = process.cpuUsage();
    await expect(rig.call('Edit', { path: 'f', oldString: '', newString: 'y' })).rejects.toThrow(
      'oldString: It is empty',
    );
    await expect(rig.call('Edit', { path: 'f', oldString: 'x', newString: 'x' })).rejects.toThrow('are the same');
    expect(performance.now() - began).toBeLessThan(100);
    const { user, system } = process.cpuUsage(cpu);
    expect(user + system).toBeLessThan(100_000);
  });

  test('tells the nearest line where nothing matches', async () => {
    const content = 'import a\n\nfunction total(items) {\n\treturn sum(items);\n}\n';
    const told = async (oldString: string) => (await edit(content, { oldString, newString: 'x' })).told;
    expect(await told('function total(items) {\n  return sum(items);\n}')).toBe(
      String.raw`oldString is not in f. The nearest is line 4: it is "\treturn sum(items);", where oldString has "  return sum(items);".`,
    );
    expect(await told('function totals(item) {')).toContain('The nearest is line 3: it is "function total(items) {"');
    expect(await told('3\tfunction total(items) {\n4\t\treturn sum(items);')).toContain('Leave out the line numbers');
    expect(await told('nothing like it at all')).toContain('Read the file again');
  });

  test('finds the nearest line of a large file soon', () => {
    const text = 'some long line of a program with a number 12345 in it\n'.repeat(200_000);
    const before = process.cpuUsage();
    expect(findSimilar(text, 'some long line of a program with the number 12345 in it')).toMatchObject({ line: 1 });
    expect(process.cpuUsage(before).user).toBeLessThan(500_000);
  });

  test('keeps CRLF, also in what is inserted, and a byte order mark', async () => {
    const { text } = await edit('\ufeffa\r\nb\r\nc\r\n', { oldString: 'a\nb', newString: 'one\ntwo\nthree' });
    expect(text).toBe('\ufeffone\r\ntwo\r\nthree\r\nc\r\n');
    expect((await edit('a\r\nb\r\n', { oldString: 'b', newString: 'b\nc' })).text).toBe('a\r\nb\r\nc\r\n');
    expect((await edit('a\nb\r\nc\n', { oldString: 'a', newString: 'a\nx' })).text).toBe('a\nx\nb\r\nc\n');
    expect((await edit('a\r\nb', { oldString: 'a\r\nb', newString: 'c' })).text).toBe('c');
  });

  test('inserts what looks like a pattern as it is', async () => {
    const newString = "$& $1 $$ $` $' \\n";
    expect((await edit('a.b a+b', { oldString: 'a.b', newString })).text).toBe(`${newString} a+b`);
    expect((await edit('x\r\nx', { oldString: 'x', newString: '$&\n', replaceAll: true })).text).toBe(
      '$&\r\n\r\n$&\r\n',
    );
  });

  test('keeps UTF-16 and GBK, and refuses what would harm the file', async () => {
    const utf16 = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le');
    expect((await edit(utf16('你好\n'), { oldString: '好', newString: '们🙂' })).bytes).toEqual(utf16('你们🙂\n'));
    const gbk = Buffer.from([0xc4, 0xe3, 0xba, 0xc3, 0x0a]);
    const toGbk = (await edit(gbk, { oldString: '好', newString: 'A世界' })).bytes;
    expect([...toGbk]).toEqual([0xc4, 0xe3, 0x41, 0xca, 0xc0, 0xbd, 0xe7, 0x0a]);
    expect(await edit(gbk, { oldString: '好', newString: '🙂' })).toMatchObject({
      told: expect.stringContaining('newString has characters that GBK does not have'),
      bytes: gbk,
    });
    const broken = Buffer.from('\xff some text that is not UTF-8', 'latin1');
    expect(await edit(broken, { oldString: 'some', newString: 'any' })).toMatchObject({
      told: expect.stringContaining('f is not quite UTF-8'),
      bytes: broken,
    });
    expect((await edit(Buffer.from([0, 1, 2]), { oldString: 'a', newString: 'b' })).told).toContain('binary file');
  });
});

const letters = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\r\n', '中', '$&'), maxLength: 12 });

describe('SBX-20: replacing', () => {
  test('does what splitting and joining does', () => {
    fc.assert(
      fc.property(letters, letters, letters, (text, old, fresh) => {
        fc.pre(old !== '' && !text.includes('\r\n'));
        const replaced = replaceText(text, { old, new: fresh, all: true });
        const parts = text.split(old);
        if (parts.length === 1) return replaced.kind === 'missing';
        if (replaced.kind !== 'replaced' || replaced.text !== parts.join(fresh)) return false;
        const isPlaced = replaced.places.every(({ from, to }) => replaced.text.slice(from, to) === fresh);
        const one = replaceText(text, { old, new: fresh, all: false });
        return isPlaced && (one.kind === 'replaced' ? one.text === replaced.text : one.kind === 'ambiguous');
      }),
    );
  });

  test('keeps CRLF: the same as with LF, with all line ends exchanged', () => {
    const toLf = (part: string) => part.replaceAll('\r\n', '\n');
    fc.assert(
      fc.property(letters, letters, letters, (text, old, fresh) => {
        fc.pre(old !== '' && text.includes('\n'));
        const crlf = toLf(text).replaceAll('\n', '\r\n');
        const replaced = replaceText(crlf, { old, new: fresh, all: true });
        const expected = toLf(crlf).split(toLf(old));
        if (expected.length === 1) return replaced.kind === 'missing';
        return replaced.kind === 'replaced' && replaced.text === expected.join(toLf(fresh)).replaceAll('\n', '\r\n');
      }),
    );
  });

  test('leaves the line ends of a mixed file as they are outside of the match', () => {
    fc.assert(
      fc.property(letters, letters, (before, after) => {
        const replaced = replaceText(`${before}|X|${after}`, { old: '|X|', new: '|Y|', all: false });
        return replaced.kind === 'replaced' && replaced.text === `${before}|Y|${after}`;
      }),
    );
  });

  test('encodes again what was decoded', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '\n', '中', '文', '。', 'é', '€'), minLength: 1 });
    fc.assert(
      fc.property(text, fc.constantFrom('utf-8', 'utf-16le', 'utf-16be', 'gb18030'), (content, encoding) => {
        const form = { encoding, hasMark: encoding.startsWith('utf-16'), isExact: true } as const;
        const bytes = encodeText(content, form)!;
        const decoded = decodeText(bytes)!;
        return (
          Buffer.from(encodeText(decoded.text, decoded)!).equals(bytes) &&
          new TextDecoder(encoding).decode(bytes) === content
        );
      }),
    );
  });
});
