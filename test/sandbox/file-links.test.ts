import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createWorkspaceFiles } from '../../src/sandbox/files.ts';
import type { SandboxFiles } from '../../src/sandbox/sandbox.ts';
import { swapping } from '../files/swapping.ts';

const SECRET = 'secret of the host';
const isLinux = existsSync('/proc/self/fd');

let base: string;
let ws: string;
let outside: string;
let files: SandboxFiles;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'homard-files-'));
  ws = join(base, 'ws');
  outside = join(base, 'outside');
  mkdirSync(ws);
  mkdirSync(outside);
  writeFileSync(join(outside, 'only-outside'), SECRET);
  files = createWorkspaceFiles(ws, { fileBytes: 20_000_000 });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const textOf = async (path: string) => Buffer.from(await files.read(path)).toString();
const outsideNow = () =>
  readdirSync(outside).map((name) => [
    name,
    readFileSync(join(outside, name), 'utf8'),
    statSync(join(outside, name)).mode,
  ]);
const refused = (code: string) => ({ code: `sandbox.${code}` });

describe('F1: a link leads nowhere', () => {
  /** What is made in the workspace, and a path through it to what is outside. */
  const links: Record<string, { make: () => void; path: string }> = {
    relative: { make: () => symlinkSync('../outside/only-outside', join(ws, 'l')), path: 'l' },
    absolute: { make: () => symlinkSync(join(outside, 'only-outside'), join(ws, 'l')), path: 'l' },
    dangling: { make: () => symlinkSync(join(outside, 'new'), join(ws, 'l')), path: 'l' },
    chain: {
      make: () => {
        rmSync(join(ws, 'second'), { force: true });
        symlinkSync('second', join(ws, 'l'));
        symlinkSync(join(outside, 'only-outside'), join(ws, 'second'));
      },
      path: 'l',
    },
    loop: { make: () => symlinkSync('l', join(ws, 'l')), path: 'l' },
    'to a folder': { make: () => symlinkSync(outside, join(ws, 'l')), path: 'l' },
    'on the way': { make: () => symlinkSync(outside, join(ws, 'd')), path: 'd/only-outside' },
    'on the way, to a new file': { make: () => symlinkSync(outside, join(ws, 'd')), path: 'd/new/file' },
    'to /proc': { make: () => symlinkSync('/proc/self/cwd', join(ws, 'd')), path: 'd/package.json' },
    hard: { make: () => linkSync(join(outside, 'only-outside'), join(ws, 'l')), path: 'l' },
  };

  test.each(Object.entries(links))('%s', async (_, { make, path }) => {
    make();
    const before = outsideNow();
    const isAtEnd = path === 'l';
    const isHard = isAtEnd && lstatSync(join(ws, 'l')).isFile();
    await expect(files.read(path)).rejects.toMatchObject({
      ...refused('path_refused'),
      message: expect.stringContaining(path),
    });
    await expect(files.write(path, 'x')).rejects.toMatchObject(refused('path_refused'));
    await expect(files.list(path)).rejects.toMatchObject(refused('path_refused'));
    const listed = (await files.list('', { isRecursive: true })).files;
    expect(listed.filter((file) => file.path.includes('only-outside') || file.path.includes('/'))).toEqual([]);
    if (isAtEnd) {
      // The name itself is the workspace's: it may be looked at, moved and removed.
      expect(await files.stat(path)).toMatchObject({ kind: isHard ? 'file' : 'link' });
      await files.rename(path, 'moved');
      await files.write('other', 'x');
      await files.rename('other', 'moved');
      make();
      await files.remove(path);
      expect(readdirSync(ws)).not.toContain('l');
    } else {
      await expect(files.stat(path)).rejects.toMatchObject(refused('path_refused'));
      await expect(files.remove(path)).rejects.toMatchObject(refused('path_refused'));
      await expect(files.rename(path, 'taken')).rejects.toMatchObject(refused('path_refused'));
      await files.write('mine', 'x');
      await expect(files.rename('mine', path)).rejects.toMatchObject(refused('path_refused'));
    }
    expect(outsideNow()).toEqual(before);
  });

  test.runIf(isLinux)('swapped with a folder meanwhile', async () => {
    mkdirSync(join(ws, 'd'));
    writeFileSync(join(ws, 'd', 'file'), 'mine');
    writeFileSync(join(outside, 'file'), SECRET);
    symlinkSync(outside, join(ws, 'l'));
    const before = outsideNow();
    let [read, leaked] = [0, 0];
    const attempt = async (action: () => Promise<unknown>) => {
      // What is refused at the moment of a swap is right.
      const result = await action().catch(() => undefined);
      if (result === SECRET) leaked++;
      else if (result === 'mine') read++;
    };
    {
      await using _ = await swapping([join(ws, 'd'), join(ws, 'l')]);
      for (const end = Date.now() + 300; Date.now() < end; await setImmediate()) {
        for (let at = 0; at < 5; at++) await attempt(() => textOf('d/file'));
        await attempt(() => files.write('d/new', 'x'));
        await attempt(() => files.write('d/file', 'mine', { isExecutable: true }));
        await attempt(() => files.rename('d/new', 'd/newer'));
        await attempt(() => files.remove('d/newer'));
        await attempt(() => files.remove('d/only-outside'));
      }
    }
    expect(leaked).toBe(0);
    expect(read).toBeGreaterThan(0);
    expect(outsideNow()).toEqual(before);
  });
});

test('F4: a workspace behind a link works', async () => {
  symlinkSync(ws, join(base, 'link'));
  files = createWorkspaceFiles(join(base, 'link'), { fileBytes: 1000 });
  await files.write('a/b', 'x');
  expect(await textOf('/workspace/a/b')).toBe('x');
  expect(readFileSync(join(ws, 'a', 'b'), 'utf8')).toBe('x');
});

test('path containment: whatever is asked for, nothing outside is read or changed', async () => {
  symlinkSync(outside, join(ws, 'link'));
  symlinkSync('..', join(ws, 'up'));
  const before = outsideNow();
  const part = fc.oneof(
    fc.constantFrom('..', '.', '', '/', '\0', 'workspace', 'link', 'up', 'outside', 'ws', 'a', 'only-outside', base),
    fc.string({ maxLength: 3, unit: 'binary' }),
  );
  const paths = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
  await fc.assert(
    fc.asyncProperty(paths, paths, async (path, other) => {
      expect(await textOf(path).catch(() => 'refused')).not.toBe(SECRET);
      for (const action of [
        () => files.write(path, 'x'),
        () => files.list(path, { isRecursive: true }),
        () => files.rename(path, other),
        () => files.remove(path),
      ]) {
        await action().catch((error: unknown) =>
          expect(error).toMatchObject({ code: expect.stringMatching(/^sandbox\.(?!failed)/) }),
        );
      }
      expect(outsideNow()).toEqual(before);
      expect(readdirSync(base).sort()).toEqual(['outside', 'ws']);
    }),
    { numRuns: 80 },
  );
});
