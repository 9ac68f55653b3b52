// Files go when nobody names them any more, and not before.
import { existsSync, globSync } from 'node:fs';
import { rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Owner } from '../../src/kernel/index.ts';
import { createCaretaker } from '../../src/store/caretaker.ts';
import { createConversations } from '../../src/store/conversations.ts';
import type { Database } from '../../src/store/database.ts';
import type { Files, StoredFile } from '../../src/store/files.ts';
import { createFiles } from '../../src/store/files.ts';
import { createHealth } from '../../src/store/health.ts';
import { createSqlJournal } from '../../src/store/journal.ts';
import { migrate } from '../../src/store/migrations/index.ts';
import { openDatabase } from '../../src/store/open.ts';
import { removeUntouched } from '../../src/store/retention.ts';
import type { TemporaryPostgres } from '../../src/testing/postgres.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import { backends } from '../server/harness.ts';

const DAY_MS = 86_400_000;

async function* from(text: string) {
  yield await Promise.resolve(Buffer.from(text));
}

describe.each(backends)('files that nobody names on %s', (backend) => {
  let database: Database;
  let postgres: TemporaryPostgres | undefined;
  let files: Files;
  const directory = join(tmpdir(), `homard-files-${crypto.randomUUID()}`);
  const root = join(directory, 'files');
  beforeAll(async () => {
    if (backend === 'postgres') postgres = await createTemporaryPostgres();
    else await copyTemplate(join(directory, 'db'));
    database = await openDatabase({ url: postgres?.url, directory });
    await migrate(database.kysely);
    files = createFiles(database, root);
  });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  let owners = 0;
  const newOwner = (): Owner => ({ tenant: 't%', owner: `ann-${++owners}` });
  const save = (owner: Owner, text: string) => files.save(owner, { name: text, source: from(text) });
  const blobsOf = ({ id }: StoredFile) => globSync(`*/${id.slice(0, 2)}/${id}`, { cwd: root });
  const has = async (owner: Owner, file: StoredFile) => (await files.find(owner, [file.id])).size === 1;
  const sweepDay = () => files.sweep(new Date(Date.now() - DAY_MS));

  /** As if it had been given two days ago. */
  async function age(...old: StoredFile[]): Promise<void> {
    const then = new Date(Date.now() - 2 * DAY_MS);
    for (const { id } of old) {
      await sql`update file set at = ${then} where id = ${id}`.execute(database.kysely);
      for (const path of blobsOf({ id } as StoredFile)) await utimes(join(root, path), then, then);
    }
  }

  async function send(owner: Owner, conversation: string, ...sent: StoredFile[]): Promise<void> {
    const parts = [{ type: 'text' as const, text: 'see' }, ...sent.map((file) => ({ type: 'file' as const, ...file }))];
    const request = { agent: 'a', model: 'm' };
    const journal = createSqlJournal(database);
    await journal.submit({
      ...owner,
      conversation,
      run: crypto.randomUUID(),
      worker: 'w',
      message: { parts },
      request,
    });
  }

  it('go with the only conversation that named them; what another one, a fork or a queue names stays', async () => {
    const [ann, bob] = [newOwner(), newOwner()];
    const conversations = createConversations(database);
    const [one, shared, forked, waiting, unsent] = await Promise.all(
      ['one', 'shared', 'forked', 'waiting', 'unsent'].map((text) => save(ann, text)),
    );
    const foreign = await save(bob, 'one');
    await send(bob, 'his', foreign);
    await send(ann, 'gone', one!, shared!);
    await send(ann, 'other', shared!);
    await send(ann, 'other', waiting!);
    await send(ann, 'parent', forked!);
    await conversations.fork({ ...ann, conversation: 'parent' }, { id: 'fork', seq: 1 });
    await age(one!, shared!, forked!, waiting!);
    expect(await sweepDay()).toBe(0);

    await conversations.remove({ ...ann, conversation: 'gone' });
    await conversations.remove({ ...ann, conversation: 'parent' });
    expect(blobsOf(one!)).toHaveLength(2);
    expect(await sweepDay()).toBe(1);
    const all = [one, shared, forked, waiting, unsent];
    expect(await Promise.all(all.map((file) => has(ann, file!)))).toEqual([false, true, true, true, true]);
    expect(all.map((file) => blobsOf(file!).length)).toEqual([1, 1, 1, 1, 1]);
    await expect(files.open(ann, one!.id)).rejects.toMatchObject({ code: 'store.file_gone' });
    expect(String(await files.read(bob, foreign.id, new AbortController().signal))).toBe('one');

    await conversations.removeAll(ann);
    await age(unsent!);
    expect(await sweepDay()).toBe(4);
    expect(await Promise.all(all.map((file) => has(ann, file!)))).toEqual(all.map(() => false));
    expect(await has(bob, foreign)).toBe(true);
    expect(globSync('drafts/*', { cwd: root })).toEqual([]);
  });

  it('go by the caretaker, after retention; none of the last day does', async () => {
    const ann = newOwner();
    const [old, young] = [await save(ann, 'old one'), await save(ann, 'young one')];
    await send(ann, 'c', old, young);
    await sql`update run set status = 'done' where owner = ${ann.owner}`.execute(database.kysely);
    await age(old);
    await removeUntouched(database, { before: new Date(Date.now() + 1000) });
    const log = { warn: () => undefined, error: () => undefined };
    using health = createHealth({ database, directory: undefined, log });
    await using _caretaker = createCaretaker({
      database,
      health,
      directory,
      version: '1',
      log,
      backup: { everyHours: 0, keep: 1 },
      sweepFiles: files.sweep,
      lookMs: 20,
    });
    await expect.poll(() => has(ann, old)).toBe(false);
    expect(blobsOf(old)).toEqual([]);
    expect([await has(ann, young), blobsOf(young).length]).toEqual([true, 1]);
  });

  it('that are sent or given again just now stay', async () => {
    const ann = newOwner();
    const [taken, given, looked] = [await save(ann, 'taken'), await save(ann, 'given'), await save(ann, 'looked at')];
    await age(taken, given, looked);
    expect((await files.take(ann, [taken.id, 'nothing'])).get(taken.id)).toEqual(taken);
    await save(ann, 'given');
    await files.find(ann, [looked.id]);
    expect(await sweepDay()).toBe(1);
    expect([await has(ann, taken), await has(ann, given), await has(ann, looked)]).toEqual([true, true, false]);
  });

  it('whose content was just written stay, though the row is old', async () => {
    const ann = newOwner();
    const file = await save(ann, 'written anew');
    await sql`update file set at = now() - interval '2 days' where id = ${file.id}`.execute(database.kysely);
    expect(await sweepDay()).toBe(0);
    expect([await has(ann, file), blobsOf(file).length]).toEqual([true, 1]);
  });

  it('are many: all go, in batches', async () => {
    const ann = newOwner();
    const many = await Promise.all(Array.from({ length: 45 }, (_, i) => save(ann, `file ${i}`)));
    await send(ann, 'c', many[7]!);
    await age(...many);
    expect(await sweepDay()).toBe(44);
    expect(await has(ann, many[7]!)).toBe(true);
  });

  it('can be removed one by one by their owner, again and again', async () => {
    const [ann, bob] = [newOwner(), newOwner()];
    const [mine, his] = [await save(ann, 'both have it'), await save(bob, 'both have it')];
    expect(await files.remove(ann, mine.id)).toBe(true);
    expect(await files.remove(ann, mine.id)).toBe(false);
    expect([await has(ann, mine), await has(bob, his), blobsOf(his).length]).toEqual([false, true, 1]);
    for (const id of ['', '../x', 'a\0b', '\ud800']) expect(await files.remove(ann, id)).toBe(false);
    await save(ann, 'both have it');
    expect(existsSync(join(root, blobsOf(mine)[1]!))).toBe(true);
  });
});
