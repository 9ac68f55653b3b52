// Sandbox suite: files, between the host and the commands, and never beyond the workspace.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { link, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bench, Case } from './sandbox-bench.ts';
import { hasCode, hasPrograms, stdoutOf } from './sandbox-bench.ts';

const refused = hasCode('sandbox.path_refused');
const missing = hasCode('sandbox.file_not_found');
const strange = [
  'line\nbreak',
  'a|b',
  `it's "x"`,
  '$(touch made)',
  ' blank ',
  '中文 é',
  '-rf',
  '*',
  '#',
  'back\\slash',
];

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const pathsOf = async ({ files }: Pick<Bench, 'files'>, path: string, isRecursive = false): Promise<string[]> =>
  (await files.list(path, { isRecursive })).files.map(({ path }) => path);

/** Nothing that is named by these leads to the host, be it read, written, listed, removed or renamed. */
async function expectRefused({ files, outside }: Pick<Bench, 'files' | 'outside'>, paths: string[]): Promise<void> {
  for (const path of paths) {
    await assert.rejects(files.read(path), refused, `read ${path}`);
    await assert.rejects(files.write(path, 'taken'), refused, `write ${path}`);
  }
  assert.equal(await readFile(outside.file, 'utf8'), outside.text, 'the file of the host was changed');
}

export const fileCases: Case[] = [
  {
    name: 'a file comes back as it was written (SBX-09)',
    async body({ files }) {
      for (const bytes of [0, 1, 5_000_000]) {
        const data = new Uint8Array(randomBytes(bytes));
        const { path, kind, bytes: written } = await files.write('folder/deep/中文 é.bin', data);
        assert.deepEqual([path, kind, written], ['folder/deep/中文 é.bin', 'file', bytes]);
        assert.equal(digest(await files.read('/workspace/folder/deep/中文 é.bin')), digest(data));
      }
      await files.write('text.txt', 'é 中');
      assert.equal(
        textOf(await files.read('text.txt', { offset: 3, limit: 2 })),
        textOf(Buffer.from('é 中').subarray(3, 5)),
      );
    },
  },
  {
    name: 'stat, list, rename and remove tell and do what they say',
    async body(bench) {
      const { files } = bench;
      for (const path of ['b.txt', 'a/z.txt', 'a/b/c.txt']) await files.write(path, path);
      assert.deepEqual(await pathsOf(bench, ''), ['a', 'b.txt']);
      assert.deepEqual(await pathsOf(bench, '', true), ['a', 'a/b', 'a/b/c.txt', 'a/z.txt', 'b.txt']);
      const stat = await files.stat('a/z.txt');
      assert.deepEqual([stat?.kind, stat?.bytes, stat?.isExecutable], ['file', 7, false]);
      assert(Math.abs(stat!.modifiedAt - Date.now()) < 60_000);
      assert.deepEqual([(await files.stat(''))?.kind, await files.stat('nothing')], ['folder', null]);
      await files.rename('a/b', 'moved');
      assert.equal(textOf(await files.read('moved/c.txt')), 'a/b/c.txt');
      await files.remove('moved');
      await files.remove('moved');
      assert.deepEqual(await pathsOf(bench, '', true), ['a', 'a/z.txt', 'b.txt']);
      await assert.rejects(files.read('moved/c.txt'), missing);
      await assert.rejects(files.read('a'), hasCode('sandbox.not_a_file'));
    },
  },
  {
    name: 'commands see what the host writes, and the host what commands write',
    async body({ files, tell }) {
      await files.write('from host.txt', 'host');
      assert.equal(await tell('cat "from host.txt"'), 'host');
      await tell('mkdir -p made/here; echo command > made/here/file.txt; echo more >> "from host.txt"');
      assert.equal(textOf(await files.read('made/here/file.txt')), 'command\n');
      assert.equal(textOf(await files.read('from host.txt')), 'hostmore\n');
      await files.write('from host.txt', 'again');
      assert.equal(await tell('cat "from host.txt"; ls made'), 'againhere\n');
    },
  },
  {
    name: 'commands see what the host removes and renames, and the host what commands do',
    async body({ files, tell }) {
      for (const path of ['one.txt', 'two.txt', 'folder/three.txt']) await files.write(path, 'text');
      assert.equal(await tell('cat one.txt'), 'text');
      await files.remove('one.txt');
      await files.rename('folder', 'other');
      assert.equal(await tell('ls -A; cat other/three.txt'), 'other\ntwo.txt\ntext');
      await tell('rm two.txt; mv other/three.txt up.txt; rm -r other');
      assert.deepEqual(
        (await files.list('')).files.map(({ path }) => path),
        ['up.txt'],
      );
      assert.equal(await files.stat('two.txt'), null);
      await files.write('other', 'now a file');
      assert.equal(await tell('cat other'), 'now a file');
    },
  },
  {
    name: 'binary files of 10 MB are the same on both sides (SBX-09)',
    isSlow: true,
    async body({ files, tell }) {
      const data = new Uint8Array(randomBytes(10_000_000));
      await files.write('from.bin', data);
      assert.equal((await tell('cp from.bin to.bin; sha256sum to.bin')).slice(0, 64), digest(data));
      assert.equal(digest(await files.read('to.bin')), digest(data));
    },
  },
  {
    name: 'a file that is executable runs, and stays so when it is written again',
    needs: hasPrograms,
    async body({ files, exec, tell }) {
      await files.write('run.sh', '#!/bin/sh\necho "ran $1"\n', { isExecutable: true });
      assert.equal(stdoutOf(await exec(['./run.sh', 'a b'])), 'ran a b\n');
      await files.write('run.sh', '#!/bin/sh\necho "again $1"\n');
      assert.equal(stdoutOf(await exec(['./run.sh', 'x'])), 'again x\n');
      await files.write('plain.sh', '#!/bin/sh\necho no\n');
      assert.equal((await exec(['./plain.sh'])).exitCode, 126);
      assert.equal((await files.stat('run.sh'))?.isExecutable, true);
      await tell('chmod +x plain.sh && ./plain.sh');
      assert.equal((await files.stat('plain.sh'))?.isExecutable, true);
    },
  },
  {
    name: 'strange names are listed, read and run as they are (SBX-22)',
    async body(bench) {
      const { files, exec, tell } = bench;
      for (const name of strange) await files.write(`from/${name}`, name);
      const read = await exec({ argv: ['cat', '--', ...strange], cwd: 'from' });
      assert.equal(stdoutOf(read), strange.join(''));
      await exec(['mkdir', 'to']);
      const script = 'for name in "$@"; do printf "%s" "$name" > "$name"; done';
      assert.equal((await exec({ argv: ['bash', '-c', script, 'x', ...strange], cwd: 'to' })).exitCode, 0);
      const expected = strange.map((name) => `to/${name}`);
      assert.deepEqual(new Set(await pathsOf(bench, 'to')), new Set(expected));
      for (const name of strange) assert.equal(textOf(await files.read(`to/${name}`)), name);
      assert.equal(await tell('ls -A'), 'from\nto\n', 'nothing was run');
    },
  },
  {
    name: 'paths that leave the workspace are refused (SBX-08)',
    async body(bench) {
      const { files, outside, slot } = bench;
      await files.write('inside.txt', 'x');
      await expectRefused(bench, [
        '../outside.txt',
        'a/../../x',
        '/workspace/../x',
        '/workspaces',
        outside.file,
        '/etc/passwd',
        join(slot.directory, 'ws', 'inside.txt'),
        'a\0b',
      ]);
      await assert.rejects(files.list('..'), refused);
      await assert.rejects(files.list('/'), refused);
      await assert.rejects(files.remove('../tmp'), refused);
      await assert.rejects(files.rename('inside.txt', '../taken'), refused);
      await assert.rejects(files.rename(outside.file, 'taken'), refused);
    },
  },
  {
    name: 'links are never followed, whoever made them (SBX-08)',
    async body(bench) {
      const { files, outside, slot } = bench;
      const workspace = join(slot.directory, 'ws');
      await files.write('real/inside.txt', 'x');
      await symlink(outside.file, join(workspace, 'file-link'));
      await symlink(outside.directory, join(workspace, 'folder-link'));
      await symlink('/proc/self/root', join(workspace, 'root-link'));
      await symlink('real', join(workspace, 'own-link'));
      await symlink(join(outside.directory, 'made'), join(workspace, 'dangling'));
      const paths = ['file-link', 'folder-link/outside.txt', `root-link${outside.file}`, 'own-link/inside.txt'];
      await expectRefused(bench, [...paths, 'dangling', 'folder-link/new.txt']);
      await assert.rejects(files.list('folder-link'), refused);
      await assert.rejects(files.remove('folder-link/outside.txt'), refused);
      await assert.rejects(files.rename('folder-link/outside.txt', 'taken'), refused);
      const { files: listed } = await files.list('', { isRecursive: true });
      assert.deepEqual(
        listed.map(({ path, kind }) => [path, kind]),
        [
          ['dangling', 'link'],
          ['file-link', 'link'],
          ['folder-link', 'link'],
          ['own-link', 'link'],
          ['real', 'folder'],
          ['real/inside.txt', 'file'],
          ['root-link', 'link'],
        ],
      );
      await files.remove('folder-link');
      assert.equal(await readFile(outside.file, 'utf8'), outside.text, 'a link is removed, not what it leads to');
    },
  },
  {
    name: 'what commands make of links, pipes and second names is not opened (SBX-08)',
    needs: hasPrograms,
    async body(bench) {
      const { files, outside, tell } = bench;
      await tell('mkdir sub; ln -s "$TARGET" sub/link; ln -s ../sub own; mkfifo pipe; echo x > one; ln one two', {
        env: { TARGET: outside.file },
      });
      const kinds = Object.fromEntries((await files.list('')).files.map(({ path, kind }) => [path, kind]));
      // A back end may leave out what it cannot bring over; what it brings is refused.
      for (const path of ['sub/link', 'own/link', 'pipe']) {
        const read = files.read(path).then(
          () => 'read',
          (error: unknown) => String((error as { code?: unknown }).code),
        );
        assert.match(await read, /^sandbox\.(path_refused|file_not_found)$/, path);
      }
      if (kinds.pipe) assert.equal(kinds.pipe, 'other');
      assert.equal(await readFile(outside.file, 'utf8'), outside.text);
    },
  },
  {
    name: 'a second name of a file of the host is not opened (SBX-08)',
    async body(bench) {
      await link(bench.outside.file, join(bench.slot.directory, 'ws', 'two-names'));
      await expectRefused(bench, ['two-names']);
    },
  },
  {
    name: 'a folder that turns into a link again and again never leads outside (SBX-08)',
    isSlow: true,
    needs: hasPrograms,
    async body({ files, outside, bash }) {
      await files.write('real/outside.txt', 'inside');
      const until = performance.now() + 1500;
      const script = `
        for i in $(seq 100000); do
          mv real kept; ln -s "$TARGET" real; rm real; mv kept real
        done`;
      const racing = bash(script, { env: { TARGET: outside.directory }, timeoutMs: 2000 });
      const seen = { inside: 0, refused: 0 };
      while (performance.now() < until) {
        try {
          assert.equal(textOf(await files.read('real/outside.txt')), 'inside');
          seen.inside++;
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error;
          seen.refused++;
        }
        await files.write('real/new.txt', 'x').catch(() => undefined);
      }
      await racing;
      assert(seen.inside > 0, JSON.stringify(seen));
      await assert.rejects(readFile(join(outside.directory, 'new.txt')), { code: 'ENOENT' });
    },
  },
  {
    name: 'a script of several files and large data runs where there is Python',
    async body({ files, bash, backend }) {
      const data = new Uint8Array(randomBytes(1_500_000));
      await files.write('skills/x/data.bin', data);
      await files.write('skills/x/part.py', 'def name():\n    return "sibling"\n');
      await files.write(
        'skills/x/run.py',
        'import hashlib, os, part\n' +
          'path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data.bin")\n' +
          'print(part.name(), hashlib.sha256(open(path, "rb").read()).hexdigest())\n',
      );
      const copied = await bash('sha256sum skills/x/data.bin');
      assert.equal(stdoutOf(copied).slice(0, 64), digest(data));
      if (!backend.capabilities.hasPrograms || (await bash('command -v python3')).exitCode !== 0) return;
      assert.equal(stdoutOf(await bash('python3 skills/x/run.py')), `sibling ${digest(data)}\n`);
    },
  },
];
