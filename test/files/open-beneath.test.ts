import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { listFolder } from '../../src/files/listing.ts';
import type { Root } from '../../src/files/open-beneath.ts';
import {
  openFile,
  openFolder,
  openParent,
  readRange,
  removeEntry,
  replaceFile,
  toParts,
  toRoot,
} from '../../src/files/open-beneath.ts';

import { python, swapping } from './swapping.ts';

const SECRET = 'secret of the host';
const isLinux = existsSync('/proc/self/fd');

let base: string;
let inside: string;
let outside: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'homard-beneath-'));
  inside = join(base, 'inside');
  outside = join(base, 'outside');
  mkdirSync(join(outside, 'sub'), { recursive: true });
  writeFileSync(join(outside, 'file'), SECRET);
  writeFileSync(join(outside, 'only-outside'), SECRET);
  writeFileSync(join(outside, 'sub', 'file'), SECRET);
  mkdirSync(inside);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

/** Path -> content of all that is there, links as what they say. */
function snapshot(folder: string): Record<string, string> {
  const found = readdirSync(folder, { withFileTypes: true, recursive: true }).map((entry) => {
    const path = join(entry.parentPath, entry.name);
    if (entry.isSymbolicLink()) return [path, readlinkSync(path)];
    return [path, entry.isFile() ? readFileSync(path, 'utf8') : ''];
  });
  return Object.fromEntries(found);
}

async function readAt(root: Root, path: string): Promise<string> {
  const { folder, name } = openParent(root, toParts(path));
  using _ = folder;
  using file = openFile(folder, name);
  return (await readRange(file, 0, file.stat.size)).toString();
}

async function writeAt(root: Root, path: string, text: string): Promise<void> {
  const { folder, name } = openParent(root, toParts(path), {});
  using _ = folder;
  await replaceFile(folder, name, { data: Buffer.from(text), mode: 0o644 });
}

async function removeAt(root: Root, path: string): Promise<void> {
  const { folder, name } = openParent(root, toParts(path));
  using _ = folder;
  await removeEntry(folder, name);
}

async function listAt(root: Root, path: string) {
  using folder = openFolder(root, toParts(path));
  return await listFolder(folder, { isRecursive: true, limit: 1000 });
}

describe.each(isLinux ? [true, false] : [false])('race-free: %s', (isRaceFree) => {
  const rootOf = (path: string) => toRoot(path, { isRaceFree });

  test('a file is written, read, listed and removed', async () => {
    const root = rootOf(inside);
    await writeAt(root, 'a/./b//c', 'one');
    await writeAt(root, 'a/b/c', 'two');
    expect(await readAt(root, 'a/b/c')).toBe('two');
    expect((await listAt(root, '')).entries.map(({ path }) => path)).toEqual(['a', 'a/b', 'a/b/c']);
    await removeAt(root, 'a');
    expect(readdirSync(inside)).toEqual([]);
  });

  test('F4: the root may be a link, or lie behind one; another folder in its place is refused', async () => {
    symlinkSync(base, join(base, 'behind'));
    symlinkSync(inside, join(base, 'link'));
    for (const path of [join(base, 'link'), join(base, 'behind', 'inside')]) {
      await writeAt(rootOf(path), 'a', path);
      expect(readFileSync(join(inside, 'a'), 'utf8')).toBe(path);
    }
    const root = rootOf(inside);
    renameSync(inside, join(base, 'aside'));
    symlinkSync(outside, inside);
    await expect(readAt(root, 'file')).rejects.toThrow('the root is another folder than it was');
    rmSync(inside);
    symlinkSync(join(base, 'aside'), inside);
    expect(await readAt(root, 'a')).toBe(join(base, 'behind', 'inside'));
  });

  test('what is no file does not open, and never waits', async () => {
    const root = rootOf(inside);
    mkdirSync(join(inside, 'folder'));
    linkSync(join(outside, 'file'), join(inside, 'hard'));
    execFileSync('mkfifo', [join(inside, 'pipe')]);
    await expect(readAt(root, 'folder')).rejects.toMatchObject({ kind: 'folder' });
    await expect(readAt(root, 'hard')).rejects.toMatchObject({ kind: 'hard_link' });
    await expect(readAt(root, 'pipe')).rejects.toMatchObject({ kind: 'special' });
    await expect(readAt(root, 'pipe/a')).rejects.toMatchObject({ kind: 'not_a_folder' });
    await expect(readAt(root, 'gone')).rejects.toMatchObject({ code: 'ENOENT' });
    if (existsSync('/dev/null'))
      await expect(readAt(rootOf('/dev'), 'null')).rejects.toMatchObject({ kind: 'special' });
  });

  test('a tree goes whatever its depth, its modes and its links', async () => {
    const root = rootOf(inside);
    let path = join(inside, 'tree');
    for (let depth = 0; depth < 140; depth++) path = join(path, 'd');
    mkdirSync(path, { recursive: true });
    for (const at of [path, join(inside, 'tree', 'd')]) {
      writeFileSync(join(at, 'file'), '');
      symlinkSync(outside, join(at, 'link'));
      linkSync(join(outside, 'file'), join(at, 'hard'));
    }
    mkdirSync(join(inside, 'tree', 'closed', 'inner'), { recursive: true });
    execFileSync('chmod', ['000', join(inside, 'tree', 'closed')]);
    const before = snapshot(outside);
    const listing = await listAt(root, 'tree');
    expect(listing.isComplete).toBe(false);
    await removeAt(root, 'tree');
    expect(readdirSync(inside)).toEqual([]);
    expect(snapshot(outside)).toEqual(before);
  });

  test('the removal of a folder that is being written to comes to an end', async () => {
    mkdirSync(join(inside, 'busy'));
    let isWriting = true;
    const write = async () => {
      for (let at = 0; isWriting; at++) {
        if (existsSync(join(inside, 'busy'))) writeFileSync(join(inside, 'busy', `${at}`), '');
        await setImmediate();
      }
    };
    const writing = write();
    await removeAt(rootOf(inside), 'busy').catch((error: unknown) => expect(error).toMatchObject({ kind: 'busy' }));
    isWriting = false;
    await writing;
  });

  test('path containment: no path reaches what is outside', async () => {
    symlinkSync(outside, join(inside, 'link'));
    symlinkSync('../outside', join(inside, 'relative'));
    symlinkSync('.', join(inside, 'self'));
    symlinkSync('link', join(inside, 'chain'));
    symlinkSync(join(outside, 'new'), join(inside, 'dangling'));
    linkSync(join(outside, 'file'), join(inside, 'hard'));
    const root = rootOf(inside);
    const before = snapshot(outside);
    const names = [
      '..',
      '.',
      '',
      '/',
      '\0',
      '\\',
      '~',
      '%2e%2e',
      '..\\',
      '...',
      '. .',
      'a',
      'file',
      'new',
      'sub',
      'inside',
    ];
    const links = ['link', 'relative', 'self', 'chain', 'dangling', 'hard', 'outside', 'proc', 'self', 'cwd', outside];
    const part = fc.oneof(fc.constantFrom(...names, ...links), fc.string({ maxLength: 3, unit: 'binary' }));
    const paths = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
    const actions = [readAt, (root: Root, path: string) => writeAt(root, path, 'x'), listAt];
    await fc.assert(
      fc.asyncProperty(paths, fc.constantFrom(...actions, removeAt), async (path, action) => {
        const result = await action(root, path).catch(() => 'refused');
        expect(result).not.toBe(SECRET);
        expect(snapshot(outside)).toEqual(before);
        expect(readdirSync(base).sort()).toEqual(['inside', 'outside']);
      }),
      { numRuns: 100 },
    );
  });
});

test.runIf(isLinux)('F1: a folder that is swapped with a link meanwhile never leads outside', async () => {
  const tree = join(inside, 'tree');
  mkdirSync(join(tree, 'sub'), { recursive: true });
  writeFileSync(join(tree, 'file'), 'mine');
  writeFileSync(join(tree, 'sub', 'file'), 'mine');
  symlinkSync(outside, join(inside, 'link'));
  writeFileSync(join(inside, 'plain'), 'mine');
  symlinkSync(join(outside, 'file'), join(inside, 'plain-link'));
  const before = snapshot(outside);
  const root = toRoot(inside);
  const counts = { read: 0, written: 0, listed: 0, removed: 0, refused: 0, leaked: 0 };
  const attempt = async (kind: 'read' | 'written' | 'listed' | 'removed', action: () => Promise<string | void>) => {
    try {
      if ((await action()) === SECRET) counts.leaked++;
      counts[kind]++;
    } catch {
      // By the race: it is a link, or not there, at this moment.
      counts.refused++;
    }
  };
  {
    await using _ = await swapping([tree, join(inside, 'link')], [join(inside, 'plain'), join(inside, 'plain-link')]);
    const end = Date.now() + 1000;
    for (let at = 0; Date.now() < end; at++) {
      for (const path of ['tree/file', 'tree/sub/file', 'plain', 'tree/file', 'tree/sub/file', 'plain']) {
        await attempt('read', () => readAt(root, path));
      }
      await attempt('written', () => writeAt(root, `tree/sub/new-${at % 5}`, 'x'));
      await attempt('listed', async () => {
        const { entries } = await listAt(root, '');
        return entries.some(({ path }) => path.endsWith('only-outside')) ? SECRET : undefined;
      });
      await attempt('removed', () => removeAt(root, `tree/sub/new-${at % 5}`));
      await attempt('removed', () => removeAt(root, 'tree/only-outside'));
      await setImmediate();
    }
  }
  console.log('swapped for 1 s:', JSON.stringify(counts));
  expect(counts.leaked).toBe(0);
  expect(counts.read).toBeGreaterThan(0);
  expect(counts.refused).toBeGreaterThan(0);
  expect(snapshot(outside)).toEqual(before);
});

test.runIf(isLinux)(
  'F1: a tree that is removed while its folders are swapped with links takes nothing outside with it',
  async () => {
    const before = snapshot(outside);
    const root = toRoot(inside);
    mkdirSync(join(inside, 'top', 'tree', 'sub'), { recursive: true });
    for (let at = 0; at < 300; at++) writeFileSync(join(inside, 'top', 'tree', 'sub', `${at}`), '');
    symlinkSync(outside, join(inside, 'top', 'link'));
    await using _ = await swapping([join(inside, 'top', 'tree'), join(inside, 'top', 'link')]);
    await removeAt(root, 'top');
    expect(existsSync(join(inside, 'top'))).toBe(false);
    expect(snapshot(outside)).toEqual(before);
  },
);

test.runIf(isLinux && python)('a file that another process has a lease on does not make a read wait', async () => {
  writeFileSync(join(inside, 'leased'), 'x');
  const script = `import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], 'r+')
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('ready', flush=True)
sys.stdin.read()`;
  const child = spawn(python ?? '', ['-c', script, join(inside, 'leased')], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await once(child.stdout, 'data');
    await expect(readAt(toRoot(inside), 'leased')).rejects.toMatchObject({ kind: 'busy' });
  } finally {
    child.kill('SIGKILL');
  }
});
