// Backups: of either back end, while it is written to, into either back end, and never half.
import { createHash } from 'node:crypto';
import {
  createWriteStream,
  existsSync,
  globSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip, gunzipSync, gzipSync } from 'node:zlib';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBlobs } from '../../src/files/blobs.ts';
import { readArchiveFile } from '../../src/store/archive-reader.ts';
import { writeArchive } from '../../src/store/archive.ts';
import type { Database } from '../../src/store/database.ts';
import { createFiles } from '../../src/store/files.ts';
import { appliedTo, migrate, migrations } from '../../src/store/migrations/index.ts';
import { openDatabase } from '../../src/store/open.ts';
import { openPglite } from '../../src/store/pglite/open.ts';
import { restoreArchive } from '../../src/store/restore.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import { copyTemplate, temporaryDirectory } from '../../src/testing/store.ts';
import { backends } from '../server/harness.ts';
import type { Backend } from '../server/harness.ts';
import { fill, hashes, owner } from './content.ts';

interface Place extends AsyncDisposable {
  directory: string;
  url: string | undefined;
  database: Database;
}

async function createPlace(backend: Backend): Promise<Place> {
  const folder = await temporaryDirectory();
  const postgres = backend === 'postgres' ? await createTemporaryPostgres() : undefined;
  const database = await openDatabase({ directory: folder.path, url: postgres?.url });
  await migrate(database.kysely);
  return {
    directory: folder.path,
    url: postgres?.url,
    database,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await postgres?.[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Writes a backup as the commands do. */
async function backUp(
  { database, directory }: Pick<Place, 'database' | 'directory'>,
  file: string,
  secrets?: Record<string, string>,
): Promise<void> {
  const blobs = createBlobs(join(directory, 'files'));
  const lines = writeArchive(database, {
    version: '9.9.9',
    openFile: (who, id) => blobs.open(who, id),
    ...(secrets && { secrets }),
  });
  await pipeline(Readable.from(lines), createGzip(), createWriteStream(file));
}

/** The same archive with other lines. */
function rewrite(file: string, change: (lines: string[]) => string[]): void {
  const lines = gunzipSync(readFileSync(file)).toString().split('\n');
  writeFileSync(file, gzipSync(change(lines).join('\n')));
}

const rowOf = (lines: string[]) => lines.findIndex((line) => line.startsWith('["tenant"'));

describe.each(backends)('a backup of %s', (backend) => {
  let place: Place;
  let file: string;
  let before: Record<string, string>;
  beforeAll(async () => {
    place = await createPlace(backend);
    file = join(place.directory, 'backup.gz');
    await fill(place.database, { conversations: 20, entries: 10 });
    const content = Readable.from([Buffer.alloc(100_000, 'a'), Buffer.from('\0\xff', 'latin1')]);
    await createFiles(place.database, join(place.directory, 'files')).save(owner, { name: '图.bin', source: content });
    before = await hashes(place.database);
    await backUp(place, file, { token: 'a secret' });
  });
  afterAll(() => place[Symbol.asyncDispose]());

  it.each(backends)('becomes the same database on %s, with files, numbers that go on, and secrets', async (into) => {
    await using folder = await temporaryDirectory();
    await using postgres = into === 'postgres' ? await createTemporaryPostgres() : undefined;
    const { aside, total } = await restoreArchive({ file, directory: folder.path, url: postgres?.url });
    expect(aside).toBeUndefined();
    expect(total).toMatchObject({ files: 1, missingFiles: 0 });
    await using database = await openDatabase({ directory: folder.path, url: postgres?.url });
    expect(await migrate(database.kysely)).toEqual([]);
    expect(await hashes(database)).toEqual(before);
    const [blob] = globSync('files/*/*/*', { cwd: folder.path });
    const bytes = readFileSync(join(folder.path, blob!));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(blob!.split('/').at(-1));
    expect(readFileSync(join(folder.path, 'token'), 'utf8')).toBe('a secret');
    const highest = 'select max(position) from run';
    const [[last]] = (await database.exec('highest', highest, [])) as [[string]];
    await fill(database, { conversations: 1, entries: 1, prefix: 'later' });
    expect(Number((await database.exec('highest', highest, []))[0]![0])).toBe(Number(last) + 1);
  });

  it('is of one instant, while rows are written', async () => {
    let isDone = false;
    let written = 0;
    const writing = (async () => {
      for (; !isDone; written++) {
        await place.database.kysely.transaction().execute(async (transaction) => {
          const values = { tenant_id: 't', owner: 'busy', conversation: `b${written}`, version: 1, hash: 'x' };
          await transaction.insertInto('tombstone').values(values).execute();
          const row = { tenant_id: 't', owner: 'busy', id: `b${written}`, name: 'n', mime: 'm', bytes: 1 };
          await transaction.insertInto('file').values(row).execute();
        });
      }
    })();
    const busy = join(place.directory, 'busy.gz');
    await backUp(place, busy);
    isDone = true;
    await writing;
    const rows: Record<string, number> = {};
    await readArchiveFile(busy, {
      rows: ({ name }, lines) =>
        Promise.resolve(void (rows[name] = (rows[name] ?? 0) + lines.filter((line) => line.includes('busy')).length)),
    });
    expect(written).toBeGreaterThan(0);
    expect(rows.tombstone ?? 0).toBe(rows.file ?? 0);
    await place.database.kysely.deleteFrom('tombstone').where('owner', '=', 'busy').execute();
    await place.database.kysely.deleteFrom('file').where('owner', '=', 'busy').execute();
  });

  it('that is given up half way leaves nothing open', async () => {
    const lines = Readable.from(
      writeArchive(place.database, { version: '1', openFile: () => Promise.resolve(undefined) }),
    );
    for await (const _ of lines) break;
    const open = "select (select count(*) from pg_cursors where name like 'homard%')";
    await expect.poll(() => place.database.exec('cursors', open, [])).toEqual([['0']]);
    if (backend === 'embedded') return;
    const busy = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%'";
    await expect.poll(() => place.database.exec('idle', busy, [])).toEqual([['0']]);
  });

  it.skipIf(backend === 'embedded')('whose connection is lost tells that, and the server lives on', async () => {
    const lines = writeArchive(place.database, {
      version: '1',
      openFile: () => Promise.resolve(undefined),
      pauseMs: 50,
    });
    const end =
      "select count(pg_terminate_backend(pid)) from pg_stat_activity where state like 'idle in%' and datname = current_database()";
    const lost = (async () => {
      for await (const _ of lines) {
        expect(await place.database.exec('end', end, [])).toEqual([['1']]);
        await new Promise((wake) => setTimeout(wake, 100));
      }
    })();
    const error: unknown = await lost.catch((thrown: unknown) => thrown);
    expect(error).not.toBeInstanceOf(SuppressedError);
    expect(String(error)).toMatch(/terminat|connection/i);
    expect(await place.database.exec('after', 'select 1', [])).toEqual([['1']]);
  });

  it('holds no secrets unless it is told to', async () => {
    const plain = join(place.directory, 'plain.gz');
    await backUp(place, plain);
    expect(await readArchiveFile(plain)).toMatchObject({ hasSecrets: false, header: { version: '9.9.9' } });
    expect(await readArchiveFile(file)).toMatchObject({ hasSecrets: true });
  });

  const damages: [string, string, (path: string) => void][] = [
    ['that is cut off', 'store.backup_damaged', (path) => truncateSync(path, 2000)],
    ['that is no archive', 'store.backup_damaged', (path) => writeFileSync(path, 'a diary')],
    ['without a row', 'store.backup_damaged', (path) => rewrite(path, (lines) => lines.toSpliced(rowOf(lines), 1))],
    [
      'with a changed row',
      'store.backup_damaged',
      (path) => rewrite(path, (lines) => lines.with(rowOf(lines), lines[rowOf(lines)]!.replace('"ann"', '"bob"'))),
    ],
    [
      'with a number in the place of a line',
      'store.backup_damaged',
      (path) => rewrite(path, (lines) => lines.toSpliced(1, 0, '5')),
    ],
    [
      'with nothing in the place of a line',
      'store.backup_damaged',
      (path) => rewrite(path, (lines) => lines.toSpliced(1, 0, 'null')),
    ],
    [
      'with nothing in the place of its header',
      'store.backup_damaged',
      (path) => rewrite(path, (lines) => lines.with(0, 'null')),
    ],
    [
      'with tables that are none',
      'store.backup_damaged',
      (path) => rewrite(path, (lines) => lines.with(0, lines[0]!.replace(/"tables":.*\]/, '"tables":[null]'))),
    ],
    ['without its end', 'store.backup_damaged', (path) => rewrite(path, (lines) => lines.slice(0, -2))],
    [
      'with a changed file',
      'store.backup_damaged',
      (path) => rewrite(path, (lines) => lines.map((line) => line.replace('{"content":"YWFh', '{"content":"YWFi'))),
    ],
    [
      'of a newer format',
      'store.backup_newer',
      (path) => rewrite(path, (lines) => lines.with(0, lines[0]!.replace('"format":1', '"format":2'))),
    ],
    [
      'of a newer schema',
      'store.backup_newer',
      (path) => rewrite(path, (lines) => lines.with(0, lines[0]!.replace('"0001_core"', '"0001_core","9999_later"'))),
    ],
  ];
  it.each(damages)('B6 %s is refused as %s, and nothing is there then', async (_, code, spoil) => {
    await using folder = await temporaryDirectory();
    const spoilt = join(folder.path, 'spoilt.gz');
    writeFileSync(spoilt, readFileSync(file));
    spoil(spoilt);
    const directory = join(folder.path, 'data');
    await expect(restoreArchive({ file: spoilt, directory })).rejects.toMatchObject({ code });
    expect(globSync('*', { cwd: directory }).filter((name) => !name.endsWith('.lock'))).toEqual([]);
  });
});

describe('restoring', () => {
  it('of an older release brings the rows to this one, on a database that is new', async () => {
    await using place = await createPlace('embedded');
    await fill(place.database, { conversations: 2, entries: 2 });
    const file = join(place.directory, 'backup.gz');
    await backUp(place, file);
    await using folder = await temporaryDirectory();
    const [header] = gunzipSync(readFileSync(file)).toString().split('\n', 1);
    const names = (JSON.parse(header!) as { migrations: string[] }).migrations;
    expect(names.length).toBeGreaterThan(1);
    const early = await createEarlyArchive(folder.path, names[0]!);
    await restoreArchive({ file: early, directory: join(folder.path, 'data') });
    await using database = await openDatabase({ directory: join(folder.path, 'data') });
    expect(await migrate(database.kysely)).toEqual([]);
    expect(await database.exec('count', 'select count(*) from tombstone', [])).toEqual([['1']]);
  });

  it('refuses a place that has rows; --replace keeps them aside, also where they cannot be read', async () => {
    await using place = await createPlace('embedded');
    await fill(place.database, { conversations: 2, entries: 2 });
    const before = await hashes(place.database);
    const file = join(place.directory, 'backup.gz');
    await backUp(place, file);
    const { directory } = place;
    await expect(restoreArchive({ file, directory })).rejects.toMatchObject({ code: 'store.locked' });
    await place.database[Symbol.asyncDispose]();
    await expect(restoreArchive({ file, directory })).rejects.toMatchObject({
      code: 'store.not_empty',
      hint: expect.stringContaining('--replace'),
    });
    writeFileSync(join(directory, 'db/global/pg_control'), Buffer.alloc(8192, 'noise'));
    await expect(restoreArchive({ file, directory })).rejects.toMatchObject({ code: 'store.not_empty' });
    const { aside } = await restoreArchive({ file, directory, isReplacing: true });
    expect(readFileSync(join(aside!, 'db/global/pg_control'), 'latin1')).toContain('noise');
    await using database = await openDatabase({ directory });
    expect(await hashes(database)).toEqual(before);
  });

  it('with secrets puts them over those that others may read, and keeps these aside', async () => {
    await using place = await createPlace('embedded');
    await fill(place.database, { conversations: 2, entries: 2 });
    const { directory } = place;
    const file = join(directory, 'backup.gz');
    await backUp(place, file, { token: 'of the backup' });
    await place.database[Symbol.asyncDispose]();
    writeFileSync(join(directory, 'token'), 'of before', { mode: 0o644 });
    writeFileSync(join(directory, 'secret'), 'stays', { mode: 0o600 });
    const { aside } = await restoreArchive({ file, directory, isReplacing: true });
    expect(readFileSync(join(directory, 'token'), 'utf8')).toBe('of the backup');
    expect(statSync(join(directory, 'token')).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(aside!, 'token'), 'utf8')).toBe('of before');
    expect(readFileSync(join(directory, 'secret'), 'utf8')).toBe('stays');
  });

  it.skipIf(!backends.includes('postgres'))(
    'changes nothing of a database that is not empty, nor secrets',
    async () => {
      await using place = await createPlace('embedded');
      await fill(place.database, { conversations: 2, entries: 2 });
      const file = join(place.directory, 'backup.gz');
      await backUp(place, file, { token: 'of the backup' });
      await using folder = await temporaryDirectory();
      await using postgres = await createTemporaryPostgres();
      await using target = await openDatabase({ directory: folder.path, url: postgres.url });
      const [first] = Object.keys(migrations);
      await migrate(target.kysely, first);
      await sql`insert into tombstone(tenant_id, owner, conversation, version, hash) values ('t', 'o', 'c', 1, 'h')`.execute(
        target.kysely,
      );
      writeFileSync(join(folder.path, 'token'), 'of before');
      await expect(restoreArchive({ file, directory: folder.path, url: postgres.url })).rejects.toMatchObject({
        code: 'store.not_empty',
      });
      expect(await appliedTo(target.kysely)).toEqual([first]);
      expect(readFileSync(join(folder.path, 'token'), 'utf8')).toBe('of before');
    },
  );

  it('that was killed among its moves is finished by the next start', async () => {
    await using place = await createPlace('embedded');
    await fill(place.database, { conversations: 2, entries: 2 });
    const before = await hashes(place.database);
    await place.database[Symbol.asyncDispose]();
    const { directory } = place;
    // The old one is aside already, the new one not yet in its place.
    await mkdir(join(directory, 'restoring'));
    renameSync(join(directory, 'db'), join(directory, 'restoring/db'));
    writeFileSync(join(directory, 'restoring/ready.json'), JSON.stringify({ aside: join(directory, 'aside') }));
    await using database = await openDatabase({ directory });
    expect(await hashes(database)).toEqual(before);
    expect(existsSync(join(directory, 'restoring'))).toBe(false);
  });
});

async function createEarlyArchive(folder: string, last: string): Promise<string> {
  await copyTemplate(join(folder, 'early/db'));
  await using database = await openPglite(join(folder, 'early/db'));
  await migrate(database.kysely, last);
  await sql`insert into tombstone(tenant_id, owner, conversation, version, hash) values ('t', 'o', 'c', 1, 'h')`.execute(
    database.kysely,
  );
  const file = join(folder, 'early.gz');
  await backUp({ database, directory: folder }, file);
  return file;
}
