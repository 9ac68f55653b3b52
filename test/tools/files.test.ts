import { link, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createRig } from './hands.ts';

const gbk = Buffer.from([0xc4, 0xe3, 0xba, 0xc3, 0x0a, 0xca, 0xc0, 0xbd, 0xe7, 0x0a]); // 你好, 世界
const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('你好\r\nzwei\r\n', 'utf16le')]);

describe('Read', () => {
  test('MEM-25: 2,000 lines at once, by offset and limit, with the true number of lines', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'a.txt'), Array.from({ length: 5321 }, (_, at) => `line ${at + 1}\n`).join(''));
    const first = await rig.call('Read', { path: 'a.txt' });
    expect(first).toMatch(/^1\tline 1\n2\tline 2\n/);
    expect(first).toMatch(/\n2000\tline 2000\n\n\[Lines 1 to 2000 of 5321\. To read on: offset 2001\.\]$/);
    expect(await rig.call('Read', { path: 'a.txt', offset: 5320, limit: 5000 })).toBe(
      '5320\tline 5320\n5321\tline 5321\n\n[Lines 5320 to 5321 of 5321.]',
    );
    expect(await rig.call('Read', { path: '/workspace/a.txt', offset: 7, limit: 1 })).toMatch(/^7\tline 7\n\n/);
    await expect(rig.call('Read', { path: 'a.txt', offset: 5322 })).rejects.toThrow('a.txt has 5321 lines');
  });

  test('MEM-25: longer lines are cut at 2,000 characters and told, and so is what would be too much at once', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'long'), `${'字'.repeat(2000)}\n${'🙂'.repeat(3000)}\n${'x'.repeat(50_000)}`);
    const lines = (await rig.call('Read', { path: 'long' })).split('\n');
    expect(lines).toEqual([
      `1\t${'字'.repeat(2000)}`,
      `2\t${'🙂'.repeat(1000)} [... cut: 12000 bytes in this line]`,
      `3\t${'x'.repeat(2000)} [... cut: 50000 bytes in this line]`,
    ]);
    await writeFile(join(rig.root, 'wide'), `${'y'.repeat(999)}\n`.repeat(100));
    const wide = await rig.call('Read', { path: 'wide' });
    expect(wide.length).toBeLessThan(50_000);
    expect(wide).toMatch(/\[Lines 1 to 47 of 100\. To read on: offset 48\.\]$/);
  });

  test('MEM-25: a file of 105 MB is read in bounded memory, in pieces of at most 1 MB', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'big'), '');
    const { files } = rig.sandbox;
    const { stat } = files;
    const block = Buffer.from(`${'z'.repeat(99)}\n`.repeat(10_486));
    files.stat = async (path) => ({ ...(await stat(path))!, bytes: 105_000_000 });
    let most = 0;
    files.read = async (_, { offset = 0, limit = Number.POSITIVE_INFINITY } = {}) => {
      most = Math.max(most, limit);
      return new Uint8Array(block.subarray(offset % 100, (offset % 100) + limit));
    };
    const before = process.memoryUsage();
    const result = await rig.call('Read', { path: 'big', offset: 1_049_999 });
    const after = process.memoryUsage();
    expect(result).toBe(
      `1049999\t${'z'.repeat(99)}\n1050000\t${'z'.repeat(99)}\n\n[Lines 1049999 to 1050000 of 1050000.]`,
    );
    expect(most).toBeLessThanOrEqual(1_048_576);
    expect(after.heapUsed - before.heapUsed).toBeLessThan(50_000_000);
    expect(rig.sandbox.seen.get('big')).toMatch(/^[0-9a-f]{64}$/);
  });

  test('MEM-25: images, other binary files, empty files and folders are told', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'a.png'), Buffer.from('\x89PNG\r\n\x1a\nabc', 'latin1'));
    await writeFile(join(rig.root, 'a.bin'), Buffer.from([1, 2, 0, 3]));
    await writeFile(join(rig.root, 'random'), Buffer.from([0xff, 0x81, 0x20, 0x9f, 0x01, 0xfe]));
    await writeFile(join(rig.root, 'empty'), '');
    await mkdir(join(rig.root, 'folder'));
    expect(await rig.call('Read', { path: 'a.png' })).toMatch(/^a\.png is an image \(image\/png, 11 bytes\)/);
    expect(await rig.call('Read', { path: 'a.bin' })).toMatch(
      /^a\.bin is a binary file \(application\/octet-stream, 4 bytes\)/,
    );
    expect(await rig.call('Read', { path: 'random' })).toMatch(/binary file/);
    expect(await rig.call('Read', { path: 'empty' })).toBe('empty is empty.');
    await expect(rig.call('Read', { path: 'folder' })).rejects.toThrow('folder is a folder. List shows what is in it.');
    await expect(rig.call('Read', { path: 'none' })).rejects.toThrow('There is no file none. Use List or Glob');
  });

  test('UTF-8 with a mark, UTF-16, GBK and CRLF are read and told', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'mark'), '\ufeffa\r\nb\r\n');
    await writeFile(join(rig.root, 'utf16'), utf16);
    await writeFile(join(rig.root, 'gbk'), gbk);
    await writeFile(join(rig.root, 'late'), Buffer.concat([Buffer.alloc(2_000_000, 'ascii line\n'), gbk]));
    await writeFile(
      join(rig.root, 'broken'),
      Buffer.concat([Buffer.from('中文 and some more text '), Buffer.from([0xff, 0x0a])]),
    );
    expect(await rig.call('Read', { path: 'mark' })).toBe('1\ta\n2\tb\n\n[Lines end with CRLF.]');
    expect(await rig.call('Read', { path: 'utf16' })).toBe(
      '1\t你好\n2\tzwei\n\n[Encoding: UTF-16 (little endian). Lines end with CRLF.]',
    );
    expect(await rig.call('Read', { path: 'gbk' })).toBe('1\t你好\n2\t世界\n\n[Encoding: GBK.]');
    expect(await rig.call('Read', { path: 'late', offset: 181_820 })).toContain('世界');
    expect(await rig.call('Read', { path: 'broken' })).toMatch(/^1\t中文 and .*\ufffd\n\n\[Some bytes are not UTF-8/);
  });

  test('SBX-08: nothing outside of the workspace, and no link', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, '../secret'), 'secret');
    await symlink('../secret', join(rig.root, 'link'));
    await link(join(rig.root, '../secret'), join(rig.root, 'second'));
    for (const path of ['../secret', '/etc/passwd', 'link', 'second']) {
      await expect(rig.call('Read', { path })).rejects.toThrow(/\. (Use a path|Name the file)/);
      await expect(rig.call('Write', { path, content: 'x' })).rejects.toThrow(/\. (Use a path|Name the file)/);
      await expect(rig.call('Edit', { path, oldString: 'secret', newString: 'x' })).rejects.toThrow(
        /\. (Use a path|Name the file)/,
      );
    }
    expect(await readFile(join(rig.root, '../secret'), 'utf8')).toBe('secret');
  });
});

describe('Write', () => {
  test('makes a file with its folders, and the second time says that it is there', async () => {
    await using rig = await createRig();
    expect(await rig.call('Write', { path: 'a/b/c.txt', content: 'one\n二' })).toBe(
      'Created a/b/c.txt: 2 lines, 7 bytes.',
    );
    expect(await readFile(join(rig.root, 'a/b/c.txt'), 'utf8')).toBe('one\n二');
    expect(await rig.call('Write', { path: 'a/b/c.txt', content: 'one\n二' })).toMatch(
      /already has exactly this content/,
    );
    expect(await rig.call('Write', { path: 'a//b/./c.txt', content: '' })).toBe(
      'Replaced a/b/c.txt: 0 lines, 0 bytes.',
    );
    await expect(rig.call('Write', { path: 'a', content: '' })).rejects.toThrow('a is a folder');
  });

  test('MEM-24: a file that was not read, or has changed since, is neither replaced nor edited', async () => {
    await using rig = await createRig();
    const file = join(rig.root, 'f');
    const write = () => rig.call('Write', { path: 'f', content: 'mine' });
    const edit = (oldString: string) => rig.call('Edit', { path: 'f', oldString, newString: 'new' });
    await writeFile(file, 'theirs');
    await expect(write()).rejects.toThrow('f exists and was not read in this conversation. Read it first.');
    await expect(edit('theirs')).rejects.toThrow('Read it first');
    await rig.call('Read', { path: './f' });
    await writeFile(file, 'theirs, later');
    await expect(write()).rejects.toThrow(
      'f has changed since it was last read or written here. Read it first, again.',
    );
    await expect(edit('theirs')).rejects.toThrow('has changed');
    expect(await readFile(file, 'utf8')).toBe('theirs, later');
    await rig.call('Read', { path: '/workspace/f', limit: 1 });
    expect(await edit('theirs')).toBe('Edited f:\n1\tnew, later');
    expect(await write()).toMatch(/^Replaced f/);
    expect(await edit('mine')).toBe('Edited f:\n1\tnew');
    await rm(file);
    expect(await write()).toMatch(/^Created f/);
  });

  test('calls that come together have their turns', async () => {
    await using rig = await createRig();
    await writeFile(join(rig.root, 'f'), 'a b c d e');
    const read = rig.call('Read', { path: 'f' });
    const edits = ['a', 'b', 'c', 'd', 'e'].map((letter) =>
      rig.call('Edit', { path: 'f', oldString: letter, newString: letter.toUpperCase() }),
    );
    await Promise.all([read, ...edits]);
    expect(await readFile(join(rig.root, 'f'), 'utf8')).toBe('A B C D E');
  });
});

describe('List', () => {
  test('SBX-22: shows names so that one cannot be taken for another', async () => {
    await using rig = await createRig();
    const names = ['plain.txt', 'two\nlines', 'a | b', 'say "hi"', "it's", '$(x)', ' blank', '中文', 'rtl\u202etxt'];
    for (const name of names) await writeFile(join(rig.root, name), 'x');
    await mkdir(join(rig.root, 'folder'));
    await symlink('plain.txt', join(rig.root, 'link'));
    const lines = (await rig.call('List', {})).split('\n');
    expect(lines.toSorted()).toEqual(
      [
        'plain.txt  (1 bytes)',
        String.raw`"two\nlines"  (1 bytes)`,
        '"a | b"  (1 bytes)',
        String.raw`"say \"hi\""  (1 bytes)`,
        `"it's"  (1 bytes)`,
        '"$(x)"  (1 bytes)',
        '" blank"  (1 bytes)',
        '中文  (1 bytes)',
        String.raw`"rtl\u202etxt"  (1 bytes)`,
        'folder/',
        'link  (link, not followed)',
      ].toSorted(),
    );
    for (const name of ['two\nlines', '$(x)']) expect(await rig.call('Read', { path: name })).toBe('1\tx');
    expect(await rig.call('Glob', { pattern: 'two*' })).toBe(String.raw`"two\nlines"`);
    expect(await rig.call('Grep', { pattern: 'x', path: '$(x)', output: 'content' })).toBe('"$(x)":1:x');
  });

  test('tells an empty folder, what is no folder or not there, and that there is more', async () => {
    await using rig = await createRig();
    expect(await rig.call('List', {})).toBe('The folder is empty.');
    for (const name of ['f1', 'f2', 'f3']) await writeFile(join(rig.root, name), '');
    const { files } = rig.sandbox;
    const { list } = files;
    files.list = (path, options) => list(path, { ...options, limit: 2 });
    expect(await rig.call('List', { path: '/workspace' })).toMatch(
      /^f1  \(0 bytes\)\nf2  \(0 bytes\)\n\n\[There are more than 1000 entries/,
    );
    await expect(rig.call('List', { path: 'f1' })).rejects.toThrow('f1 is no folder. Use Read for a file.');
    await expect(rig.call('List', { path: 'none' })).rejects.toThrow('is not there. List the folder');
    await expect(rig.call('List', { path: '../' })).rejects.toThrow('Use a path below /workspace');
  });
});
