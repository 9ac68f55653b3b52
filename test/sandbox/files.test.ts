import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createWorkspaceFiles } from '../../src/sandbox/files.ts';
import type { SandboxFiles } from '../../src/sandbox/sandbox.ts';
import { canMount, createSmallDisk } from '../server/small-disk.ts';

const MODIFIED = new Date('2026-01-02T03:04:05Z');
const isRoot = process.getuid?.() === 0;

let base: string;
let ws: string;
let files: SandboxFiles;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'homard-files-'));
  ws = join(base, 'ws');
  mkdirSync(ws);
  writeFileSync(join(base, 'outside'), 'of the host');
  files = createWorkspaceFiles(ws, { fileBytes: 20_000_000 });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const textOf = async (path: string, range?: { offset?: number; limit?: number }) =>
  Buffer.from(await files.read(path, range)).toString();
const hashOf = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
const refused = (code: string) => ({ code: `sandbox.${code}` });

describe('SBX-08: paths', () => {
  test.each(['../outside', 'a/../../x', '/etc/passwd', '/workspace/../x', '/workspacex', 'a\0b', '/'])(
    'no: %j',
    async (path) => {
      for (const action of [
        () => files.read(path),
        () => files.write(path, 'x'),
        () => files.list(path),
        () => files.stat(path),
        () => files.remove(path),
        () => files.rename(path, 'x'),
      ]) {
        await expect(action()).rejects.toMatchObject(refused('path_refused'));
      }
      expect(readdirSync(base).sort()).toEqual(['outside', 'ws']);
    },
  );

  test.each(['a/b', '/workspace/a/b', './a//./b', '/workspace//a/b/', '//workspace/a/b'])('yes: %j', async (path) => {
    expect(await files.write(path, 'x')).toMatchObject({ path: 'a/b', kind: 'file', bytes: 1 });
    expect(await textOf(path)).toBe('x');
    expect(readFileSync(join(ws, 'a', 'b'), 'utf8')).toBe('x');
  });

  test('the workspace itself is listed and told of, and stays', async () => {
    for (const path of ['', '.', '/workspace', '/workspace/']) {
      expect(await files.list(path)).toEqual({ files: [], isComplete: true });
      expect(await files.stat(path)).toMatchObject({ path: '', kind: 'folder', bytes: 0 });
      await expect(files.remove(path)).rejects.toMatchObject(refused('path_refused'));
      await expect(files.write(path, '')).rejects.toMatchObject(refused('path_refused'));
      await expect(files.rename(path, 'x')).rejects.toMatchObject(refused('path_refused'));
    }
  });
});

describe('reading', () => {
  test('a window', async () => {
    await files.write('a', '0123456789');
    expect(await textOf('a', { offset: 2, limit: 3 })).toBe('234');
    expect(await textOf('a', { offset: 8, limit: 30 })).toBe('89');
    expect(await textOf('a', { offset: 30 })).toBe('');
    expect(await textOf('a', { limit: 0 })).toBe('');
  });

  test('more than the limit at once is refused, a part of it is not', async () => {
    writeFileSync(join(ws, 'sparse'), 'begin');
    truncateSync(join(ws, 'sparse'), 1_000_000_000_000);
    await expect(files.read('sparse')).rejects.toMatchObject(refused('file_too_large'));
    expect(await textOf('sparse', { limit: 5 })).toBe('begin');
    expect(await files.read('sparse', { offset: 999_999_999_999 })).toHaveLength(1);
  });

  test('a large file lets others go on meanwhile', async () => {
    await files.write('large', Buffer.alloc(20_000_000));
    let turns = 0;
    let isOver = false;
    const turn = async () => {
      for (; !isOver; turns++) await setImmediate();
    };
    const turning = turn();
    await files.read('large');
    isOver = true;
    await turning;
    expect(turns).toBeGreaterThan(1);
  });

  test('what is no file', async () => {
    mkdirSync(join(ws, 'folder'));
    execFileSync('mkfifo', [join(ws, 'pipe')]);
    writeFileSync(join(ws, 'file'), '');
    const server = createServer().listen(join(ws, 'socket'));
    await expect(files.read('gone')).rejects.toMatchObject(refused('file_not_found'));
    await expect(files.read('gone/too')).rejects.toMatchObject(refused('file_not_found'));
    await expect(files.read('folder')).rejects.toMatchObject(refused('not_a_file'));
    await expect(files.write('folder', '')).rejects.toMatchObject(refused('not_a_file'));
    await expect(files.read('file/below')).rejects.toMatchObject(refused('path_refused'));
    await expect(files.write('file/below', '')).rejects.toMatchObject(refused('path_refused'));
    await expect(files.list('file')).rejects.toMatchObject(refused('path_refused'));
    await expect(files.list('gone')).rejects.toMatchObject(refused('file_not_found'));
    await expect(files.write('a/'.repeat(3000), '')).rejects.toMatchObject(refused('path_refused'));
    await expect(files.write('n'.repeat(300), '')).rejects.toMatchObject(refused('path_refused'));
    for (const path of ['pipe', 'socket']) {
      await expect(files.read(path)).rejects.toMatchObject(refused('path_refused'));
      await expect(files.write(path, '')).rejects.toMatchObject(refused('path_refused'));
      expect(await files.stat(path)).toMatchObject({ kind: 'other' });
    }
    expect(await files.stat('gone')).toBeNull();
    expect(await files.stat('gone/too')).toBeNull();
    server.close();
  });

  test('SBX-09: 10 MB and binary files come back byte for byte', async () => {
    for (const data of [
      randomBytes(10_000_000),
      Buffer.from(Array.from({ length: 256 }, (_, at) => at)),
      Buffer.alloc(0),
    ]) {
      expect(await files.write('binary', data)).toMatchObject({ bytes: data.byteLength });
      expect(hashOf(await files.read('binary'))).toBe(hashOf(data));
      expect(hashOf(readFileSync(join(ws, 'binary')))).toBe(hashOf(data));
    }
  });
});

describe('writing', () => {
  test('keeps the mode of a file, or sets what may be run', async () => {
    await files.write('a', '1');
    expect(statSync(join(ws, 'a')).mode & 0o7777).toBe(0o644);
    chmodSync(join(ws, 'a'), 0o4750);
    expect(await files.write('a', '2')).toMatchObject({ isExecutable: true });
    expect(statSync(join(ws, 'a')).mode & 0o7777).toBe(0o750);
    expect(await files.write('a', '3', { isExecutable: false })).toMatchObject({ isExecutable: false });
    expect(await files.write('b', '3', { isExecutable: true })).toMatchObject({ isExecutable: true });
    expect(statSync(join(ws, 'b')).mode & 0o7777).toBe(0o755);
  });

  test('more than the limit changes nothing and leaves nothing', async () => {
    await files.write('a', 'old');
    await expect(files.write('a', Buffer.alloc(20_000_001))).rejects.toMatchObject(refused('file_too_large'));
    expect(await textOf('a')).toBe('old');
    expect(readdirSync(ws)).toEqual(['a']);
  });

  test.runIf(canMount)('without space nothing changes, and nothing is left', async () => {
    using disk = createSmallDisk(1);
    files = createWorkspaceFiles(disk.path, { fileBytes: 20_000_000 });
    await files.write('a', 'old');
    await expect(files.write('a', Buffer.alloc(3_000_000))).rejects.toMatchObject(refused('disk_full'));
    expect(await textOf('a')).toBe('old');
    expect(readdirSync(disk.path)).toEqual(['a']);
  });

  test('a reader sees the old content or the new one', async () => {
    await files.write('a', 'a'.repeat(300_000));
    const seen = new Set<string>();
    let isWriting = true;
    const read = async () => {
      while (isWriting) {
        const text = await textOf('a');
        seen.add(`${text.length}${text[0]}${text.at(-1)}`);
      }
    };
    const reading = read();
    for (let at = 0; at < 20; at++) await files.write('a', (at % 2 ? 'a' : 'b').repeat(300_000));
    isWriting = false;
    await reading;
    for (const what of seen) expect(['300000aa', '300000bb']).toContain(what);
  });

  test.runIf(isRoot)('what is made belongs to the user of commands', async () => {
    files = createWorkspaceFiles(ws, { fileBytes: 1000, user: { uid: 64_000, gid: 64_001 } });
    await files.write('a/b/c', 'x');
    writeFileSync(join(ws, 'of-root'), '');
    await files.write('of-root', 'x');
    for (const path of ['a', 'a/b', 'a/b/c', 'of-root']) {
      expect(lstatSync(join(ws, path))).toMatchObject({ uid: 64_000, gid: 64_001 });
    }
  });

  test('each change is told to where the files are used', async () => {
    const told: string[] = [];
    files = createWorkspaceFiles(ws, {
      fileBytes: 10,
      push: async (path) => {
        await setImmediate();
        told.push(path);
      },
    });
    await files.write('/workspace/a/./b', 'x');
    await files.rename('a/b', 'c');
    await files.remove('c');
    await files.read('gone').catch(() => {});
    await files.write('d', 'more than ten').catch(() => {});
    expect(told).toEqual(['a/b', 'a/b', 'c', 'c']);
  });
});

describe('moving and removing', () => {
  test('a file takes the place of a file; a folder is never in the way', async () => {
    await files.write('a', 'a');
    await files.write('b', 'b');
    await files.write('d/e', 'e');
    await files.rename('a', 'b');
    expect(await textOf('b')).toBe('a');
    await expect(files.rename('gone', 'x')).rejects.toMatchObject({
      ...refused('file_not_found'),
      message: '"gone" is not there',
    });
    await expect(files.rename('b', 'x/y')).rejects.toMatchObject({
      ...refused('file_not_found'),
      message: '"x/y" is not there',
    });
    await expect(files.rename('b', 'd')).rejects.toMatchObject(refused('not_a_file'));
    await expect(files.rename('d', 'b')).rejects.toMatchObject(refused('path_refused'));
    await expect(files.rename('d', 'd/below')).rejects.toMatchObject(refused('path_refused'));
    await files.rename('d', 'f');
    expect(await textOf('f/e')).toBe('e');
  });

  test('a folder goes with all that is in it; what is not there is removed', async () => {
    for (let at = 0; at < 30; at++) await files.write(`d/${at % 3}/${at}`, 'x');
    await files.remove('d');
    await files.remove('d');
    await files.remove('d/e');
    expect(readdirSync(ws)).toEqual([]);
  });
});

describe('listing', () => {
  test('tells of each entry, folders before what is in them, links not followed', async () => {
    await files.write('b/c', 'xyz', { isExecutable: true });
    await files.write('b.txt', '');
    symlinkSync('b', join(ws, 'a'));
    execFileSync('touch', ['-d', MODIFIED.toISOString(), join(ws, 'b', 'c')]);
    const { files: found, isComplete } = await files.list('', { isRecursive: true });
    expect(isComplete).toBe(true);
    expect(found.map(({ path, kind }) => [path, kind])).toEqual([
      ['a', 'link'],
      ['b', 'folder'],
      ['b/c', 'file'],
      ['b.txt', 'file'],
    ]);
    expect(found[2]).toEqual({
      path: 'b/c',
      kind: 'file',
      bytes: 3,
      modifiedAt: MODIFIED.getTime(),
      isExecutable: true,
    });
    expect((await files.list('b')).files.map(({ path }) => path)).toEqual(['b/c']);
    expect((await files.list('')).files.map(({ path }) => path)).toEqual(['a', 'b', 'b.txt']);
  });

  test('stops at the limit, and says so', async () => {
    for (let at = 0; at < 12; at++) await files.write(`d${at % 4}/${at}`, '');
    expect((await files.list('', { isRecursive: true, limit: 16 })).isComplete).toBe(true);
    for (const limit of [15, 4, 1, 0]) {
      const { files: found, isComplete } = await files.list('', { isRecursive: true, limit });
      expect(found).toHaveLength(limit);
      expect(isComplete).toBe(false);
    }
  });

  test('SBX-22: names with newlines, quotes, "|", "$(x)" and bytes that are no text', async () => {
    const names = [
      'a\nb',
      'pipe|x',
      `'"`,
      '$(touch x)',
      '`x`',
      ' blank ',
      '-rf',
      '*',
      '中文 🦞',
      '\u202egpj.exe',
      '...',
      '\\',
    ];
    for (const name of names) {
      await files.write(`d/${name}`, name);
      expect(await textOf(`d/${name}`)).toBe(name);
    }
    writeFileSync(Buffer.concat([Buffer.from(`${ws}/d/`), Buffer.from([0x61, 0xff, 0xfe])]), 'x');
    const found = (await files.list('', { isRecursive: true })).files.map(({ path }) => path);
    expect(found.toSorted()).toEqual(['d', 'd/a\ufffd\ufffd', ...names.map((name) => `d/${name}`)].toSorted());
    expect(readdirSync(ws)).toEqual(['d']);
    await files.remove('d');
    expect(readdirSync(ws)).toEqual([]);
  });

  test('what comes and goes meanwhile is no error', async () => {
    for (let at = 0; at < 20; at++) await files.write(`d/${at}/f`, '');
    let isChanging = true;
    const change = async () => {
      for (let at = 0; isChanging; at = (at + 1) % 20) {
        renameSync(join(ws, 'd', `${at}`), join(ws, 'd', `x${at}`));
        await setImmediate();
        renameSync(join(ws, 'd', `x${at}`), join(ws, 'd', `${at}`));
        await setImmediate();
      }
    };
    const changing = change();
    for (let at = 0; at < 20; at++) {
      const { files: found } = await files.list('', { isRecursive: true });
      expect(found.length).toBeGreaterThan(35);
      await setImmediate();
    }
    isChanging = false;
    await changing;
  });
});
