import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Folders } from '../../src/sandbox/folders.ts';
import { createFolders } from '../../src/sandbox/folders.ts';

const warnings: string[] = [];
const log = { warn: (_: object, message: string) => warnings.push(message), error: () => undefined };
const ann = { tenant: 't', owner: 'ann', conversation: 'web' };

async function root(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'homard-folders-'));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

async function open(path: string, isAlone = false): Promise<Folders> {
  return await createFolders(path, { hasUser: true, isAlone, log });
}

test('the files of a conversation are where its run is, and come back', async () => {
  const folders = await open(await root());
  expect(await folders.find(ann)).toBe('nowhere');
  const slot = await folders.makeSlot();
  const workspace = await folders.take(slot, ann);
  await writeFile(join(slot.directory, 'ws', 'a.txt'), 'kept');
  expect(await readFile(join(workspace!.root, 'a.txt'), 'utf8')).toBe('kept');
  workspace!.seen.set('a.txt', 'hash');
  expect(await folders.find(ann)).toBe('taken');
  expect(await folders.take(await folders.makeSlot(), ann)).toBeUndefined();
  await workspace!.release();
  const found = await folders.find(ann);
  expect(found).toEqual({ root: expect.any(String) });
  expect(await readFile(join((found as { root: string }).root, 'a.txt'), 'utf8')).toBe('kept');
  const again = await folders.take(await folders.makeSlot(), ann);
  expect([...again!.seen]).toEqual([['a.txt', 'hash']]);
  await again!.release();
});

test('conversations of two owners, and names that are no paths, never meet', async () => {
  const path = await root();
  const folders = await open(path);
  const keys = [
    ann,
    { ...ann, owner: 'bob' },
    { ...ann, tenant: 'u' },
    { ...ann, conversation: '../../x' },
    { ...ann, conversation: '中文/'.repeat(80) },
  ];
  for (const [i, key] of keys.entries()) {
    await folders.make(key);
    const { root } = (await folders.find(key)) as { root: string };
    expect(await readdir(root)).toEqual([]);
    expect(root.startsWith(join(path, 'conversations'))).toBe(true);
    await writeFile(join(root, 'who'), String(i));
  }
  expect((await readdir(path)).sort()).toEqual(['conversations', 'lost', 'slots', 'trash']);
  await folders.removeAll({ tenant: 't', owner: 'bob' });
  expect(await folders.find(keys[1]!)).toBe('nowhere');
  expect(await folders.find(ann)).not.toBe('nowhere');
});

/** What a server leaves that was killed while a run had files. */
async function leftBehind(path: string): Promise<{ id: string; owner: string }> {
  const folders = await open(path);
  const slot = await folders.makeSlot();
  await folders.take(slot, ann);
  await writeFile(join(slot.directory, 'ws', 'a.txt'), 'kept');
  return { id: slot.id, owner: join(path, 'slots', slot.id, 'owner.json') };
}

test('SBX-13: what a server that died had in its slot is brought back, once its process is gone', async () => {
  const path = await root();
  const { owner } = await leftBehind(path);
  const other = await open(path);
  expect(await other.reap()).toBe(0); // this process lives
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  await writeFile(owner, JSON.stringify({ ...(JSON.parse(await readFile(owner, 'utf8')) as object), pid: child.pid }));
  expect(await other.reap()).toBe(1);
  const { root: files } = (await other.find(ann)) as { root: string };
  expect(await readFile(join(files, 'a.txt'), 'utf8')).toBe('kept');
  expect(await readdir(join(path, 'slots'))).toEqual([]);
});

test('SBX-13: what a dead server left running is ended before its files are moved, and only then', async () => {
  const path = await root();
  const { owner } = await leftBehind(path);
  const calls: string[] = [];
  let endLeft = async () => {
    calls.push('refused');
    await Promise.reject(new Error('still running'));
  };
  const folders = await createFolders(path, { hasUser: true, isAlone: false, log, endLeft: () => endLeft() });
  expect(await folders.reap()).toBe(0);
  expect(calls, 'its server lives').toEqual([]);
  await writeFile(owner, JSON.stringify({ ...(JSON.parse(await readFile(owner, 'utf8')) as object), pid: 0 }));
  const slot = await folders.makeSlot();
  expect(await folders.take(slot, ann)).toBeUndefined();
  expect([calls, warnings.at(-1)]).toEqual([['refused'], expect.stringContaining('still running')]);
  endLeft = async () => {
    calls.push('ended');
    expect(await folders.find(ann)).toBe('taken');
  };
  const workspace = await folders.take(slot, ann);
  expect(await readFile(join(workspace!.root, 'a.txt'), 'utf8')).toBe('kept');
  await workspace!.release();
  expect(calls).toEqual(['refused', 'ended']);
});

test('a conversation that is deleted while its files are taken is not half made', async () => {
  const path = await root();
  const { owner } = await leftBehind(path);
  await writeFile(owner, JSON.stringify({ ...(JSON.parse(await readFile(owner, 'utf8')) as object), pid: 0 }));
  const folders = await createFolders(path, {
    hasUser: true,
    isAlone: false,
    log,
    endLeft: () => folders.remove(ann),
  });
  const slot = await folders.makeSlot();
  expect(await folders.take(slot, ann)).toBeUndefined();
  expect(await folders.find(ann)).toBe('nowhere');
  const workspace = await folders.take(slot, ann);
  await writeFile(join(workspace!.root, 'new.txt'), 'x');
  await workspace!.release();
  expect(await readdir(((await folders.find(ann)) as { root: string }).root)).toEqual(['new.txt']);
  expect(await readdir(join(path, 'lost'))).toEqual([]);
});

test('SBX-13: slots of another machine stay as long as it is heard of', async () => {
  const path = await root();
  const { owner } = await leftBehind(path);
  await writeFile(
    owner,
    JSON.stringify({ ...(JSON.parse(await readFile(owner, 'utf8')) as object), host: 'elsewhere' }),
  );
  const folders = await open(path);
  expect(await folders.reap()).toBe(0);
  await utimes(owner, new Date(0), new Date(0));
  expect(await folders.reap()).toBe(1);
  expect(await folders.find(ann)).toEqual({ root: expect.any(String) });
});

test('a server that is alone takes back whatever is in a slot, also one without an owner', async () => {
  const path = await root();
  const { id, owner } = await leftBehind(path);
  await mkdir(join(path, 'slots', 'torn', 'box'), { recursive: true });
  await writeFile(owner, '{"pid": 1');
  const folders = await open(path, true);
  expect(await folders.reap()).toBe(2);
  expect(await readdir(join(path, 'slots'))).toEqual([]);
  // Nobody knows any more whose they are, but they are not thrown away.
  const [lost = ''] = await readdir(join(path, 'lost'));
  expect(lost).toContain(id);
  expect(await readFile(join(path, 'lost', lost, 'a.txt'), 'utf8')).toBe('kept');
  expect(warnings.at(-1)).toContain(lost);
  // The conversation goes on without them.
  const slot = await folders.makeSlot();
  await (await folders.take(slot, ann))!.release();
  expect(await folders.find(ann)).toEqual({ root: expect.any(String) });
});

test('what a command put in the place of its folder is not followed', async () => {
  const path = await root();
  const outside = await root();
  await writeFile(join(outside, 'secret'), 'x');
  const folders = await open(path);
  const slot = await folders.makeSlot();
  const workspace = await folders.take(slot, ann);
  await writeFile(join(slot.directory, 'ws', 'a.txt'), 'kept');
  await rename(join(slot.directory, 'ws'), join(slot.directory, 'tmp', 'moved'));
  await symlink(outside, join(slot.directory, 'ws'));
  expect(await readdir(workspace!.root)).toEqual(['a.txt']);
  await workspace!.release();
  const { root: files } = (await folders.find(ann)) as { root: string };
  expect((await stat(files)).isDirectory()).toBe(true);
  expect(await readdir(files)).toEqual(['a.txt']);
  expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('x');
});

/** A slot whose command has given another name to the folder with its one file. */
async function takeAndRename() {
  const path = await root();
  const folders = await open(path);
  const slot = await folders.makeSlot();
  const workspace = await folders.take(slot, ann);
  await writeFile(join(slot.directory, 'ws', 'a.txt'), 'kept');
  await rename(join(slot.directory, 'ws'), join(slot.directory, 'moved'));
  return { path, folders, slot, workspace };
}

test('what has the name of the folder when its files are back goes with the slot', async () => {
  const { path, folders, slot, workspace } = await takeAndRename();
  await mkdir(join(slot.directory, 'ws'));
  await writeFile(join(slot.directory, 'ws', 'big'), 'x'.repeat(1000));
  await workspace!.release();
  expect(await readdir(((await folders.find(ann)) as { root: string }).root)).toEqual(['a.txt']);
  for (const folder of ['slots', 'trash', 'lost']) expect(await readdir(join(path, folder))).toEqual([]);
});

test('files that cannot be gathered are kept with their slot, unless their conversation was deleted', async () => {
  for (const isDeleted of [false, true]) {
    const { path, folders, slot, workspace } = await takeAndRename();
    // In the way of what is gathered.
    await mkdir(join(path, 'slots', slot.id, 'kept'));
    if (isDeleted) await folders.remove(ann);
    await expect(workspace!.release()).rejects.toMatchObject({ code: 'EEXIST' });
    expect(await readdir(join(path, 'slots'))).toEqual([]);
    const [lost] = await readdir(join(path, 'lost'));
    if (isDeleted) {
      expect(lost).toBeUndefined();
    } else {
      expect(await readFile(join(path, 'lost', lost!, 'box', 'moved', 'a.txt'), 'utf8')).toBe('kept');
      expect(warnings.at(-1)).toContain(lost);
    }
  }
});

test('a conversation that was deleted while a run had its files leaves nothing', async () => {
  const path = await root();
  const folders = await open(path);
  const slot = await folders.makeSlot();
  const workspace = await folders.take(slot, ann);
  await mkdir(join(slot.directory, 'ws', 'closed'));
  await writeFile(join(slot.directory, 'ws', 'closed', 'a.txt'), 'x');
  await chmod(join(slot.directory, 'ws', 'closed'), 0o000);
  await folders.remove(ann);
  await workspace!.release();
  expect(await folders.find(ann)).toBe('nowhere');
  for (const folder of ['slots', 'conversations', 'trash']) expect(await readdir(join(path, folder))).toEqual([]);
});

test.skipIf(process.getuid?.() !== 0)(
  'files belong to the user of commands, whoever they belonged to before',
  async () => {
    const path = await root();
    const plain = await createFolders(path, { hasUser: false, isAlone: false, log });
    const slot = await plain.makeSlot();
    const workspace = await plain.take(slot, ann);
    await mkdir(join(slot.directory, 'ws', 'a'));
    await symlink('/etc/passwd', join(slot.directory, 'ws', 'a', 'link'));
    await workspace!.release();
    const before = await stat('/etc/passwd');
    const folders = await open(path);
    const other = await folders.makeSlot();
    const taken = await folders.take(other, ann);
    expect((await stat(join(other.directory, 'ws', 'a'))).uid).toBe(folders.user?.uid);
    expect((await stat(other.directory)).uid).toBe(0);
    expect((await stat('/etc/passwd')).uid).toBe(before.uid);
    await taken!.release();
  },
);

test('a conversation that is deleted and made anew while a run has its files gets none of them', async () => {
  const path = await root();
  const folders = await open(path);
  const first = await folders.makeSlot();
  const before = await folders.take(first, ann);
  await writeFile(join(before!.root, 'old.txt'), 'x');
  await folders.remove(ann);
  const second = await folders.makeSlot();
  const after = await folders.take(second, ann);
  await writeFile(join(after!.root, 'new.txt'), 'x');
  await before!.release();
  await after!.release();
  expect(await readdir(((await folders.find(ann)) as { root: string }).root)).toEqual(['new.txt']);
  expect(await readdir(join(path, 'lost'))).toEqual([]);
});

test('of several who bring the same files back, none fails', async () => {
  const path = await root();
  for (let i = 0; i < 5; i++) {
    const folders = await open(path);
    await folders.take(await folders.makeSlot(), { ...ann, conversation: `c${i}` });
  }
  const servers = await Promise.all([open(path, true), open(path, true), open(path, true)]);
  await Promise.all(servers.map((folders) => folders.reap()));
  for (let i = 0; i < 5; i++) {
    expect(await servers[0].find({ ...ann, conversation: `c${i}` })).toEqual({ root: expect.any(String) });
  }
  expect(await readdir(join(path, 'slots'))).toEqual([]);
});

test('a tree that is deeper than any path goes with its slot', async () => {
  const path = await root();
  const folders = await open(path);
  const slot = await folders.makeSlot();
  const workspace = await folders.take(slot, ann);
  const deep = spawn(
    '/bin/sh',
    ['-c', 'i=0; while [ $i -lt 300 ]; do mkdir "$1"; cd "$1"; i=$((i+1)); done', 'sh', 'd'.repeat(100)],
    {
      cwd: join(slot.directory, 'tmp'),
    },
  );
  await once(deep, 'exit');
  await workspace!.release();
  expect(await readdir(join(path, 'slots'))).toEqual([]);
  expect(await readdir(join(path, 'trash'))).toEqual([]);
});

test.skipIf(process.getuid?.() !== 0)(
  'whatever modes a command left, an ordinary server gets its files back',
  async () => {
    const path = await root();
    await chmod(path, 0o777);
    const source = new URL('../../src/sandbox/folders.ts', import.meta.url).href;
    const code = `
    const { createFolders } = await import(${JSON.stringify(source)});
    const { chmod, writeFile, readFile, readdir, rename } = await import('node:fs/promises');
    const log = { warn: (_, message) => console.log(message), error: console.log };
    const open = () => createFolders(${JSON.stringify(join(path, 'data'))}, { hasUser: true, isAlone: true, log });
    const folders = await open();
    const key = { tenant: 't', owner: 'o', conversation: 'web' };
    for (const mode of [0o300, 0o500, 0o000, 0o700, 'moved']) {
      const slot = await folders.makeSlot();
      const workspace = await folders.take(slot, key);
      await chmod(workspace.root, 0o700);
      await writeFile(workspace.root + '/a.txt', 'kept');
      if (mode !== 'moved') await chmod(workspace.root, mode);
      else {
        await rename(slot.directory + '/ws', slot.directory + '/x');
        await chmod(slot.directory + '/x', 0o000);
      }
      if (mode === 0o500) await (await open()).reap();
      else await workspace.release();
    }
    const { root } = await folders.find(key);
    console.log(await readFile(root + '/a.txt', 'utf8'), (await readdir(${JSON.stringify(join(path, 'data', 'slots'))})).length);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { uid: 65_534, gid: 65_534 });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)));
    await once(child, 'close');
    expect(text).toBe('kept 0\n');
  },
);
