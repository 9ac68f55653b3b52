import { chmod, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toCovers } from '../../src/sandbox/namespaces/covers.ts';

let root: string;
beforeAll(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'homard-covers-')));
  for (const path of ['shown/app/data', 'shown/app2', 'shown/closed/data', 'other/app']) {
    await mkdir(join(root, path), { recursive: true });
  }
  await symlink(join(root, 'shown/app'), join(root, 'link'));
  await symlink(join(root, 'other/app'), join(root, 'shown/out'));
  await chmod(join(root, 'shown/closed'), 0o700);
  await chmod(root, 0o755);
});
afterAll(() => rm(root, { recursive: true }));

const covers = (...hidden: string[]) =>
  toCovers(
    hidden.map((path) => join(root, path)),
    [join(root, 'shown')],
  ).map((path) => path.slice(root.length));

test('a folder below one that is shown is covered, once, by its real name', () => {
  expect(covers('shown/app/data', 'shown/app2')).toEqual(['/shown/app/data', '/shown/app2']);
  expect(covers('shown/app/data', 'link', 'shown/app', 'link/data')).toEqual(['/shown/app']);
});

test('what is not shown, or not there, needs no cover', () => {
  expect(covers('other/app', 'shown/out', '', 'shown', 'shown/missing')).toEqual([]);
});

test.runIf(process.getuid?.() === 0)('of a folder that commands cannot enter, all is covered', () => {
  expect(covers('shown/closed/data')).toEqual(['/shown/closed']);
});

test('folders of programs are never covered', () => {
  const needed = ['/usr', '/usr/bin', '/usr/lib', '/usr/share', '/usr/local', '/usr/local/bin', '/'];
  const found = toCovers(needed, ['/usr']);
  for (const folder of needed) expect(found).not.toContain(folder);
});
