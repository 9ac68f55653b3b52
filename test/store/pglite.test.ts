import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, globSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PgliteDatabase } from '../../src/store/pglite/open.ts';
import { openPglite } from '../../src/store/pglite/open.ts';
import { startWorker } from '../../src/store/pglite/link.ts';
import { createMaintenance } from '../../src/store/pglite/maintenance.ts';
import { copyTemplate, preparePgliteTemplate, temporaryDirectory } from '../../src/testing/store.ts';
import { databaseCases, tableOf } from './database-cases.ts';

interface Place extends AsyncDisposable {
  directory: string;
  database: PgliteDatabase;
}

async function openCopy(): Promise<Place> {
  const folder = await temporaryDirectory();
  const directory = join(folder.path, 'db');
  await copyTemplate(directory);
  const database = await openPglite(directory);
  return {
    directory,
    database,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Starts holder.ts; `lines` are what it prints. */
function hold(directory: string, { mode = 'hold', uid }: { mode?: string; uid?: number } = {}) {
  const script = fileURLToPath(new URL('./holder.ts', import.meta.url));
  // Without the optimising compiler, an engine that lives for a second costs half.
  const child = spawn(process.execPath, ['--liftoff-only', script, directory, mode], {
    stdio: ['ignore', 'pipe', 'inherit'],
    uid,
  });
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const firstLine = once(reader, 'line').then(() => lines[0]);
  const kill = async () => {
    const ended = Promise.all([once(child, 'exit'), once(reader, 'close')]);
    child.kill('SIGKILL');
    await ended;
  };
  return { child, lines, firstLine, kill };
}

/** Path, type and content of everything below a path. */
function contentOf(path: string): Record<string, string> {
  const entries = [path, ...globSync('**/*', { cwd: path }).map((name) => join(path, name))];
  const hash = (path: string) => createHash('md5').update(readFileSync(path)).digest('hex');
  return Object.fromEntries(entries.map((entry) => [entry, lstatSync(entry).isFile() ? hash(entry) : 'directory']));
}

// Seconds each: `.ci/run` and HOMARD_CRASH=1 run them.
const isFast = !process.env.HOMARD_CRASH;

describe('the embedded database', () => {
  describe('as every back end', () => {
    let place: Place;
    beforeAll(async () => {
      place = await openCopy();
    });
    afterAll(() => place[Symbol.asyncDispose]());
    it.each(databaseCases)('$name', (each) => expect(each.run(place.database, tableOf(each))).resolves.toBeUndefined());
  });

  describe('on disk', () => {
    it('syncs at each commit, also of a transaction, and not at a read', async () => {
      await using place = await openCopy();
      const { database } = place;
      await sql`create table t (id int)`.execute(database.kysely);
      const start = await database.syncs();
      for (let i = 0; i < 5; i++) await database.exec('insert', 'insert into t values ($1)', [i]);
      const written = await database.syncs();
      expect(written - start).toBeGreaterThanOrEqual(5);
      await database.exec('read', 'select count(*) from t', []);
      expect(await database.syncs()).toBe(written);
      await database.kysely.transaction().execute((trx) => sql`insert into t values (9)`.execute(trx));
      expect(await database.syncs()).toBeGreaterThan(written);
    });

    it.skipIf(isFast)(
      'keeps every acknowledged row when its process is killed, five times over',
      async () => {
        await using folder = await temporaryDirectory();
        const directory = join(folder.path, 'db');
        await copyTemplate(directory);
        {
          await using database = await openPglite(directory);
          await sql`create table row_of_crash (id serial primary key, body text)`.execute(database.kysely);
        }
        const acknowledged: number[] = [];
        for (let round = 0; round < 5; round++) {
          const { firstLine, lines, kill } = hold(directory, { mode: 'write' });
          expect(await firstLine).toBe('ready');
          await expect.poll(() => lines.length).toBeGreaterThan(10 + round * 10);
          await kill();
          acknowledged.push(...lines.slice(1).map(Number));
        }
        await using database = await openPglite(directory);
        const ids = new Set((await database.exec('ids', 'select id from row_of_crash', [])).map(([id]) => Number(id)));
        expect(acknowledged.length).toBeGreaterThan(150);
        expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);
      },
      90_000,
    );
  });

  describe('is one process at a time', () => {
    it('refuses a second opening here, by another name and in another process', async () => {
      await using place = await openCopy();
      const link = `${place.directory}-link`;
      symlinkSync(place.directory, link);
      const locked = { code: 'store.locked', message: expect.stringContaining(place.directory) };
      await expect(openPglite(place.directory)).rejects.toMatchObject(locked);
      await expect(openPglite(link)).rejects.toMatchObject(locked);
      // After those: a refused opening must not have freed the lock.
      const other = hold(place.directory);
      expect(await other.firstLine).toBe('store.locked');
      await place.database[Symbol.asyncDispose]();
      await using again = await openPglite(link);
      expect(again.kind).toBe('pglite');
    });

    it('refuses while the holder is stopped, and is free once it is killed', async () => {
      await using folder = await temporaryDirectory();
      const directory = join(folder.path, 'db');
      await copyTemplate(directory);
      const holder = hold(directory);
      expect(await holder.firstLine).toBe('ready');
      holder.child.kill('SIGSTOP');
      await expect(openPglite(directory)).rejects.toMatchObject({ code: 'store.locked' });
      await holder.kill();
      await using database = await openPglite(directory);
      expect(database.kind).toBe('pglite');
    });
  });

  describe('leaves what it cannot read as it was', () => {
    const garbage: Record<string, (directory: string, template: string) => void> = {
      'other files': (directory) => {
        mkdirSync(directory);
        writeFileSync(join(directory, 'diary.txt'), 'dear diary');
      },
      'a file in its place': (directory) => writeFileSync(directory, 'not a directory'),
      'a file in its path': (directory) => {
        rmSync(join(directory, '..'), { recursive: true });
        writeFileSync(join(directory, '..'), 'not a directory');
      },
      'another version of PostgreSQL': (directory) => {
        mkdirSync(directory);
        writeFileSync(join(directory, 'PG_VERSION'), '19\n');
      },
      'a database without its parts': (directory) => {
        mkdirSync(directory);
        writeFileSync(join(directory, 'PG_VERSION'), '18\n');
      },
      'an empty control file': (directory) => {
        for (const name of ['global', 'base', 'pg_wal']) mkdirSync(join(directory, name), { recursive: true });
        for (const name of ['PG_VERSION', 'postgresql.conf']) writeFileSync(join(directory, name), '18\n');
        writeFileSync(join(directory, 'global/pg_control'), '');
      },
      'a log of noise': (directory, template) => {
        cpSync(template, directory, { recursive: true });
        for (const name of globSync('pg_wal/0*', { cwd: directory })) {
          writeFileSync(join(directory, name), Buffer.alloc(16 * 1024 * 1024, 'noise'));
        }
      },
      'a control file of noise': (directory, template) => {
        cpSync(template, directory, { recursive: true });
        writeFileSync(join(directory, 'global/pg_control'), Buffer.alloc(8192, 'noise'));
      },
    };
    it.each(Object.entries(garbage))('%s', async (_, spoil) => {
      await using folder = await temporaryDirectory();
      const directory = join(folder.path, 'data/db');
      mkdirSync(join(folder.path, 'data'));
      spoil(directory, await preparePgliteTemplate());
      const before = contentOf(folder.path);
      await expect(openPglite(directory)).rejects.toMatchObject({
        code: 'store.unreadable',
        message: expect.stringContaining(directory),
        hint: expect.stringContaining('HOMARD_DATA'),
      });
      const { [`${directory}.lock`]: _lock, ...after } = contentOf(folder.path);
      expect(after).toEqual(before);
    });

    it('a directory that this user may not write', async () => {
      await using folder = await temporaryDirectory();
      const directory = join(folder.path, 'db');
      await copyTemplate(directory);
      await chmod(folder.path, 0o755);
      await chmod(directory, 0o555);
      // Root may write anything: there the attempt is made as another user.
      const { firstLine } = hold(directory, { uid: process.getuid?.() === 0 ? 65_534 : undefined });
      expect(await firstLine).toBe('store.unreadable');
      await chmod(directory, 0o755);
    });
  });

  describe('while it runs', () => {
    it('rolls back what a connection left open', async () => {
      await using place = await openCopy();
      const { kysely } = place.database;
      await sql`create table t (id int)`.execute(kysely);
      await kysely.connection().execute(async (connection) => {
        await sql`begin`.execute(connection);
        await sql`insert into t values (1)`.execute(connection);
      });
      expect(await place.database.exec('count', 'select count(*) from t', [])).toEqual([['0']]);
    });

    it('rejects what waits and what comes after the end of its worker', async () => {
      await using folder = await temporaryDirectory();
      const directory = join(folder.path, 'db');
      await copyTemplate(directory);
      const link = startWorker();
      await link.open({ directory, isNew: false });
      const query = {
        op: 'query',
        client: 0,
        text: 'select count(*) from generate_series(1, 100000000)',
        values: [],
      } as const;
      const outcomes = Promise.allSettled([link.send(query), link.send(query)]);
      await link.stop();
      const died = { status: 'rejected', reason: { code: 'store.worker_died', retryable: true } };
      expect(await outcomes).toMatchObject([died, died]);
      await expect(link.send(query)).rejects.toMatchObject({ code: 'store.worker_died' });
    });

    it.skipIf(isFast)(
      'removes dead rows and the log they left, while other work goes on',
      async () => {
        await using place = await openCopy();
        const { database } = place;
        await sql`create table worn (id int primary key, body text)`.execute(database.kysely);
        await sql`insert into worn select g, repeat('x', 800) from generate_series(1, 20000) g`.execute(
          database.kysely,
        );
        for (let i = 0; i < 3; i++) await sql`update worn set body = body || 'y'`.execute(database.kysely);
        const query = async (text: string) => {
          const { rows } = await sql<Record<string, unknown>>`${sql.raw(text)}`.execute(database.kysely);
          return { command: '', rowCount: rows.length, rows };
        };
        const logBytes = 'select (pg_current_wal_insert_lsn() - redo_lsn)::int8 as bytes from pg_control_checkpoint()';
        const seen =
          "select n_dead_tup as dead, last_vacuum, last_analyze from pg_stat_user_tables where relname = 'worn'";
        const [before] = (await query(seen)).rows;
        expect(before).toMatchObject({ last_vacuum: null });
        expect(before?.dead).toBeGreaterThan(10_000);
        const maintenance = createMaintenance({ query, everyStatements: 1 });
        maintenance.count();
        await expect
          .poll(() => query(seen).then(({ rows }) => rows[0]?.last_analyze), { timeout: 20_000 })
          .toBeInstanceOf(Date);
        maintenance.stop();
        expect((await query(seen)).rows[0]?.dead).toBeLessThan(Number(before?.dead));
        expect((await query(logBytes)).rows[0]?.bytes).toBeLessThan(40 * 1024 * 1024);
      },
      60_000,
    );
  });
});
