// From the embedded database to PostgreSQL: all of it, also when the move is killed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { packArchive, saveBackup } from '../../src/store/backup-file.ts';
import { growDatabase } from '../../src/store/grow.ts';
import { createSqlJournal } from '../../src/store/journal.ts';
import { appliedTo, migrate, migrations } from '../../src/store/migrations/index.ts';
import { openDatabase } from '../../src/store/open.ts';
import { restoreArchive } from '../../src/store/restore.ts';
import type { TemporaryPostgres } from '../../src/testing/postgres.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import type { TemporaryDirectory } from '../../src/testing/store.ts';
import { temporaryDirectory } from '../../src/testing/store.ts';
import { countOf, fill, hashes, owner } from './content.ts';

const given = process.env.HOMARD_TEST_POSTGRES;
const skipped = given ? '' : ' (skipped: HOMARD_TEST_POSTGRES is not set)';

interface Places extends AsyncDisposable {
  folder: TemporaryDirectory;
  postgres: TemporaryPostgres;
}

async function createPlaces(content: Parameters<typeof fill>[1]): Promise<Places> {
  const folder = await temporaryDirectory();
  const postgres = await createTemporaryPostgres();
  await using database = await openDatabase({ directory: folder.path });
  await migrate(database.kysely);
  await fill(database, content);
  return {
    folder,
    postgres,
    async [Symbol.asyncDispose]() {
      await postgres[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const open = ({ folder, postgres }: Places): Promise<[Database, Database]> =>
  Promise.all([openDatabase({ directory: folder.path }), openDatabase({ directory: folder.path, url: postgres.url })]);

/** Starts a move in a process of its own, and kills it when it printed `line`. */
async function killAt({ folder, postgres }: Places, line: RegExp): Promise<void> {
  const script = fileURLToPath(new URL('./mover.ts', import.meta.url));
  const child = spawn(process.execPath, ['--liftoff-only', script, folder.path, postgres.url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  for await (const said of createInterface({ input: child.stdout })) {
    if (line.test(said)) child.kill('SIGKILL');
  }
  expect((await ended)[1]).toBe('SIGKILL');
}

describe.skipIf(!given)(`growing to PostgreSQL${skipped}`, () => {
  it(
    '1,000 conversations arrive with equal hashes, and runs that were under way go on',
    { timeout: 120_000 },
    async () => {
      await using places = await createPlaces({ conversations: 1000, entries: 20 });
      const [source, target] = await open(places);
      await using _source = source;
      await using _target = target;
      const began = performance.now();
      const moved = await growDatabase({ source, target });
      const took = (since: number) => `${Math.round(performance.now() - since)} ms`;
      console.log(`grow: ${moved.reduce((sum, { rows }) => sum + rows, 0)} rows in ${took(began)}`);
      for (const [name, database] of Object.entries({ embedded: source, postgres: target })) {
        await using folder = await temporaryDirectory();
        await using postgres = await createTemporaryPostgres();
        const file = join(folder.path, 'backup.gz');
        const packing = performance.now();
        const { bytes } = await saveBackup(await packArchive(database, { directory: folder.path, version: '1' }), file);
        console.log(`backup of ${name}: ${bytes} bytes in ${took(packing)}`);
        for (const url of [undefined, postgres.url]) {
          const restoring = performance.now();
          await restoreArchive({ file, directory: folder.path, url });
          console.log(`restored to ${url ? 'postgres' : 'embedded'} in ${took(restoring)}`);
          await using restored = await openDatabase({ directory: folder.path, url });
          expect(await hashes(restored)).toEqual(await hashes(source));
        }
      }
      expect(await hashes(target)).toEqual(await hashes(source));
      expect(moved.find(({ name }) => name === 'journal')).toMatchObject({ rows: 20_000, resumed: 0 });
      expect(await migrate(target.kysely)).toEqual([]);
      const claims = await createSqlJournal(target).claim('new', { limit: 10, held: [] });
      expect(claims).toHaveLength(10);
      expect(claims[0]).toMatchObject({ ...owner, epoch: 2, commits: 1 });
      const highest = async () => Number((await target.exec('p', 'select max(position) from run', []))[0]![0]);
      const last = await highest();
      await fill(target, { conversations: 1, entries: 1, prefix: 'later' });
      expect(await highest()).toBe(last + 1);
    },
  );

  it(
    'that was killed in the middle of a table goes on there; no server starts before',
    { timeout: 120_000 },
    async () => {
      await using places = await createPlaces({ conversations: 200, entries: 20 });
      await killAt(places, /^journal batch/);
      const [source, target] = await open(places);
      await using _source = source;
      await using _target = target;
      expect(await countOf(target, 'journal')).toBeGreaterThan(0);
      expect(await countOf(target, 'journal')).toBeLessThan(4000);
      await expect(migrate(target.kysely)).rejects.toMatchObject({
        code: 'store.unfinished',
        hint: expect.stringContaining('homard grow'),
      });
      const moved = await growDatabase({ source, target });
      expect(moved.find(({ name }) => name === 'journal')?.resumed).toBeGreaterThan(0);
      expect(await hashes(target)).toEqual(await hashes(source));
      await expect(growDatabase({ source, target })).rejects.toMatchObject({ code: 'store.not_empty' });
    },
  );

  it('refuses a database that is not its own, and changes nothing of it', { timeout: 60_000 }, async () => {
    await using places = await createPlaces({ conversations: 2, entries: 2 });
    const [source, target] = await open(places);
    await using _source = source;
    await using _target = target;
    const [first] = Object.keys(migrations);
    await migrate(target.kysely, first);
    const tombstone = { tenant_id: 't', owner: 'o', conversation: 'c', version: 1, hash: 'h' };
    await target.kysely.insertInto('tombstone').values(tombstone).execute();
    await expect(growDatabase({ source, target })).rejects.toMatchObject({ code: 'store.not_empty' });
    expect(await appliedTo(target.kysely)).toEqual([first]);
    await target.kysely.deleteFrom('tombstone').execute();
    {
      await using _server = await openDatabase({
        directory: places.folder.path,
        url: places.postgres.url,
        isServer: true,
      });
      await expect(growDatabase({ source, target })).rejects.toMatchObject({ code: 'store.in_use' });
      expect(await appliedTo(target.kysely)).toEqual([first]);
    }
    let server: Promise<unknown> | undefined;
    await growDatabase({
      source,
      target,
      onTable: () => {
        server ??= openDatabase({ directory: places.folder.path, url: places.postgres.url, isServer: true }).catch(
          (error: unknown) => error,
        );
      },
    });
    expect(await server).toMatchObject({ code: 'store.unfinished' });
    expect(await hashes(target)).toEqual(await hashes(source));
    await using later = await openDatabase({ directory: places.folder.path, url: places.postgres.url, isServer: true });
    expect(later.kind).toBe('postgres');
  });

  it('that goes on deletes nothing that it did not bring', { timeout: 60_000 }, async () => {
    await using places = await createPlaces({ conversations: 200, entries: 20 });
    await killAt(places, /^journal batch/);
    const [source, target] = await open(places);
    await using _source = source;
    await using _target = target;
    const tombstone = { tenant_id: 't', owner: 'o', conversation: 'c', version: 1, hash: 'h' };
    await target.kysely.insertInto('tombstone').values(tombstone).execute();
    await expect(growDatabase({ source, target })).rejects.toMatchObject({
      code: 'store.grow_differs',
      message: expect.stringContaining('tombstone'),
    });
    expect(await countOf(target, 'tombstone')).toBe(1);
  });

  it(
    'that was killed, after which people went on talking, brings what is there now',
    { timeout: 120_000 },
    async () => {
      await using places = await createPlaces({ conversations: 100, entries: 20 });
      await killAt(places, /^journal$/);
      const [source, target] = await open(places);
      await using _source = source;
      await using _target = target;
      await fill(source, { conversations: 5, entries: 3, prefix: 'after' });
      await source.kysely.deleteFrom('journal').where('conversation', '=', 'c-7').execute();
      await growDatabase({ source, target });
      expect(await hashes(target)).toEqual(await hashes(source));
    },
  );
});
