// Data directories that are copied from a packed database instead of being made by initdb.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { zstdCompressSync } from 'node:zlib';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fingerprintOf } from '../../src/store/migrations/index.ts';
import { openPglite } from '../../src/store/pglite/open.ts';
import { packTemplate, unpackTemplate } from '../../src/store/pglite/template.ts';
import type { TemporaryDirectory } from '../../src/testing/store.ts';
import { preparePgliteTemplate, temporaryDirectory } from '../../src/testing/store.ts';

const isFast = !process.env.HOMARD_CRASH;

/** Relative path -> content; null for a directory. */
function treeOf(root: string): Map<string, Buffer | null> {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  return new Map(
    entries.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [relative(root, path), entry.isFile() ? readFileSync(path) : null];
    }),
  );
}

describe('a packed database', () => {
  let folder: TemporaryDirectory;
  let original: string;
  let template: string;
  beforeAll(async () => {
    folder = await temporaryDirectory();
    original = await preparePgliteTemplate();
    template = join(folder.path, 'packed');
    packTemplate(original, template);
  });
  afterAll(() => folder[Symbol.asyncDispose]());

  /** A directory below a place of its own, with nothing in it. */
  function emptyDirectory(name: string): string {
    const directory = join(folder.path, name, 'db');
    mkdirSync(directory, { recursive: true });
    return directory;
  }

  it('gives back every file and every empty directory, for this user alone', async () => {
    const directory = emptyDirectory('whole');
    expect(await unpackTemplate(template, directory)).toBe(true);
    const [was, is] = [treeOf(original), treeOf(directory)];
    expect([...is.keys()].toSorted()).toEqual([...was.keys()].toSorted());
    for (const [path, content] of was) expect(content?.equals(is.get(path)!) ?? is.get(path) === null).toBe(true);
    expect(statSync(join(directory, 'base')).mode & 0o777).toBe(0o700);
    expect(statSync(join(directory, 'PG_VERSION')).mode & 0o777).toBe(0o600);
    expect(statSync(template).size).toBeLessThan(2_000_000);
  });

  const damages: Record<string, (packed: Buffer) => Buffer> = {
    'is cut off': (packed) => packed.subarray(0, packed.length - 100),
    'has one wrong bit': (packed) => {
      const copy = Buffer.from(packed);
      copy.writeUInt8(copy.readUInt8(copy.length >> 1) ^ 1, copy.length >> 1);
      return copy;
    },
    'is empty': () => Buffer.alloc(0),
    'is something else': () => Buffer.from('not packed'),
    'holds less than it says': () => zstdCompressSync(Buffer.from('[{"path":"PG_VERSION","bytes":3}]\n18')),
  };
  it.each(Object.entries(damages))('is left alone when it %s', async (name, damage) => {
    const file = join(folder.path, 'damaged');
    writeFileSync(file, damage(readFileSync(template)));
    const directory = emptyDirectory(name);
    expect(await unpackTemplate(file, directory)).toBe(false);
    expect(readdirSync(directory)).toEqual([]);
  });

  const answersOf = async (directory: string, file: string) => {
    await using database = await openPglite(directory, { template: () => Promise.resolve(file) });
    return await database.exec('all', 'select datname from pg_database order by 1', []);
  };
  const databases = [['postgres'], ['template0'], ['template1']];

  const isMade = async (name: string, file: string) => {
    const directory = emptyDirectory(name);
    mkdirSync(`${directory}.unfinished`);
    writeFileSync(`${directory}.unfinished/PG_VERSION`, '18');
    expect(await answersOf(directory, file)).toEqual(databases);
    expect(existsSync(`${directory}.unfinished`)).toBe(false);
  };

  it('becomes a database in an empty directory, and again after a start that was cut short', async () => {
    await isMade('deep/down', template);
  });

  it('is stale as soon as a migration does something else', async () => {
    const step = (text: string): Migration => ({ up: async (db) => void (await sql.raw(text).execute(db)) });
    const before = await fingerprintOf({ one: step('create table a (id int)') });
    expect(await fingerprintOf({ one: step('create table a (id int)') })).toBe(before);
    expect(await fingerprintOf({ one: step('create table a (id int8)') })).not.toBe(before);
    expect(await fingerprintOf({ two: step('create table a (id int)') })).not.toBe(before);
  });

  it.skipIf(isFast)('is not needed: without one, initdb makes the database', { timeout: 60_000 }, async () => {
    await isMade('plain', join(folder.path, 'absent'));
  });

  it(
    'leaves no half of a database when the process is killed at any point of the making',
    { timeout: 60_000 },
    async () => {
      const script = fileURLToPath(new URL('./holder.ts', import.meta.url));
      for (const delayMs of [0, 20, 60, 150]) {
        const directory = join(folder.path, `killed-${delayMs}`, 'db');
        mkdirSync(join(directory, '..'));
        const child = spawn(process.execPath, ['--liftoff-only', script, directory, 'hold', template], {
          stdio: 'ignore',
        });
        const gone = once(child, 'exit');
        await expect.poll(() => existsSync(`${directory}.unfinished`), { interval: 2, timeout: 20_000 }).toBe(true);
        await sleep(delayMs);
        child.kill('SIGKILL');
        await gone;
        // Whatever it had come to: absent, or whole.
        if (existsSync(directory))
          expect([...treeOf(directory).keys()]).toEqual(expect.arrayContaining([...treeOf(original).keys()]));
        expect(await answersOf(directory, template)).toEqual(databases);
        rmSync(join(directory, '..'), { recursive: true });
      }
    },
  );
});
