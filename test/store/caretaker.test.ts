// Automatic backups and retention, as the server does them.
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ConversationKey } from '../../src/kernel/index.ts';
import { readArchiveFile } from '../../src/store/archive-reader.ts';
import { automaticName, listBackups } from '../../src/store/backup-file.ts';
import type { CaretakerConfig } from '../../src/store/caretaker.ts';
import { createCaretaker } from '../../src/store/caretaker.ts';
import { createHealth } from '../../src/store/health.ts';
import { migrate } from '../../src/store/migrations/index.ts';
import type { PgliteDatabase } from '../../src/store/pglite/open.ts';
import { openPglite } from '../../src/store/pglite/open.ts';
import { removeOne } from '../../src/store/removal.ts';
import type { TemporaryDirectory } from '../../src/testing/store.ts';
import { copyTemplate, temporaryDirectory } from '../../src/testing/store.ts';
import { schemaTemplate } from '../server/harness.ts';
import { countOf, fill, owner } from './content.ts';

describe('the caretaker', () => {
  let folder: TemporaryDirectory;
  let database: PgliteDatabase;
  const warnings: string[] = [];
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined };
  beforeAll(async () => {
    folder = await temporaryDirectory();
    await copyTemplate(join(folder.path, 'db'), schemaTemplate);
    database = await openPglite(join(folder.path, 'db'));
    await migrate(database.kysely);
    await fill(database, { conversations: 5, entries: 4 });
  });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });

  const create = (config: Partial<CaretakerConfig>) => {
    const health = createHealth({ database, directory: folder.path, log });
    const backup = { everyHours: 0, keep: 3 };
    return createCaretaker({
      database,
      health,
      directory: folder.path,
      version: '1',
      log,
      backup,
      lookMs: 20,
      ...config,
    });
  };
  const backups = () => join(folder.path, 'backups');

  it('B6 makes a backup when the last one is too old, keeps the newest, and leaves what people put there', async () => {
    await mkdir(backups());
    const old = Array.from({ length: 5 }, (_, i) => automaticName(new Date(Date.now() - (i + 30) * 3_600_000)));
    const mine = 'before-the-journey.gz';
    for (const [i, name] of [...old, mine].entries()) {
      await writeFile(join(backups(), name), 'an old one');
      await utimes(join(backups(), name), new Date(), new Date(Date.now() - (i + 30) * 3_600_000));
    }
    {
      await using _caretaker = create({ backup: { everyHours: 24, keep: 3 } });
      await expect.poll(() => readdir(backups())).toHaveLength(4);
    }
    const [newest] = await listBackups(backups());
    expect((await readArchiveFile(newest!.path)).total.tables.journal?.rows).toBe(20);
    expect((await readdir(backups())).toSorted()).toEqual(
      [mine, old[0]!, old[1]!, newest!.path.split('/').at(-1)!].toSorted(),
    );
    await using _again = create({ backup: { everyHours: 24, keep: 3 } });
    await new Promise((wake) => setTimeout(wake, 200));
    expect(await readdir(backups())).toHaveLength(4);
  });

  it('B6 warns when a backup cannot be made, and tries again after hours', async () => {
    await using other = await temporaryDirectory();
    await writeFile(join(other.path, 'backups'), 'a file in its place');
    const failures = () => warnings.filter((text) => text.startsWith('The automatic backup failed')).length;
    const backup = { everyHours: 24, keep: 3 };
    {
      await using _patient = create({ backup, directory: other.path });
      await expect.poll(failures).toBe(1);
      await new Promise((wake) => setTimeout(wake, 200));
      expect(failures()).toBe(1);
    }
    await using _caretaker = create({ backup, directory: other.path, retryMs: 50 });
    await expect.poll(failures).toBeGreaterThan(2);
  });

  it('deletes what nobody touched for the given days, but nothing that runs', async () => {
    const key = (conversation: string): ConversationKey => ({ ...owner, conversation });
    await sql`update conversation set updated_at = now() - interval '40 days' where id in ('c-0', 'c-1', 'c-2')`.execute(
      database.kysely,
    );
    await sql`update run set status = 'done' where conversation <> 'c-1'`.execute(database.kysely);
    const tombstones = await countOf(database, 'tombstone');
    const removed: string[] = [];
    await using _caretaker = create({
      conversationDays: 30,
      onRemoved: ({ conversation }) => Promise.resolve(void removed.push(conversation)),
    });
    await expect.poll(() => warnings).toContain('2 conversations untouched for 30 days were deleted.');
    expect(removed.toSorted()).toEqual(['c-0', 'c-2']);
    expect(await countOf(database, 'conversation')).toBe(3);
    expect(await countOf(database, 'tombstone')).toBe(tombstones + 2);
    // What was touched after it was found stays.
    expect(await removeOne(database, key('c-3'), { untouchedSince: new Date(0) })).toBe(false);
    expect(await removeOne(database, key('c-1'), { untouchedSince: new Date() })).toBe(false);
    expect(await removeOne(database, key('c-3'), { untouchedSince: new Date(Date.now() + 1000) })).toBe(true);
  });
});
