// What counts as whole: forks, forks of forks and deletions are; a row that is missing is not.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createConversations } from '../../src/store/conversations.ts';
import { createHealth } from '../../src/store/health.ts';
import { checkDeeply, checkNewest } from '../../src/store/integrity.ts';
import { migrate } from '../../src/store/migrations/index.ts';
import { openPglite } from '../../src/store/pglite/open.ts';
import { copyTemplate, temporaryDirectory } from '../../src/testing/store.ts';
import { schemaTemplate } from '../server/harness.ts';
import { fill, owner } from './content.ts';

describe('the check of what is stored', () => {
  it('B6 B9 finds forks and deletions whole, and the conversation that misses an entry', async () => {
    await using folder = await temporaryDirectory();
    await copyTemplate(join(folder.path, 'db'), schemaTemplate);
    await using database = await openPglite(join(folder.path, 'db'));
    await migrate(database.kysely);
    await fill(database, { conversations: 3, entries: 6 });
    const conversations = createConversations(database);
    const key = (conversation: string) => ({ ...owner, conversation });
    await conversations.fork(key('c-0'), { id: 'fork', seq: 4 });
    await conversations.fork(key('fork'), { id: 'fork of fork', seq: 3 });
    await conversations.fork(key('fork'), { id: 'another', seq: 2 });
    await conversations.remove(key('fork'));
    expect(await checkNewest(database)).toEqual([]);
    await conversations.remove(key('c-0'));
    const whole = await checkDeeply(database);
    expect(whole.problems).toEqual([]);
    expect(whole.tables.find(({ name }) => name === 'journal')?.rows).toBe(12 + 3 + 2);
    await database.exec('cut', "delete from journal where conversation = 'c-1' and seq = 6", []);
    expect(await checkNewest(database)).toEqual([expect.stringContaining('"c-1" of "ann" has 5 of 6 entries')]);
    expect((await checkDeeply(database)).problems).toHaveLength(1);
  });

  it('B6 is not the last word: what is worse is told in its place, and what stays is told again after it', async () => {
    await using folder = await temporaryDirectory();
    await copyTemplate(join(folder.path, 'db'), schemaTemplate);
    await using database = await openPglite(join(folder.path, 'db'));
    await migrate(database.kysely);
    await fill(database, { conversations: 1, entries: 3 });
    await database.exec('cut', 'delete from journal where seq = 3', []);
    const log = { warn: () => undefined, error: () => undefined };
    using health = createHealth({ database, directory: folder.path, log, lookMs: 20 });
    const code = () => health.problem()?.code;
    await health.check();
    expect(health.problem()).toMatchObject({ code: 'store.inconsistent', isReadOnly: false });
    health.observe(Object.assign(new Error('full'), { code: 'ENOSPC' }));
    expect(health.problem()).toMatchObject({ code: 'store.disk_full', isReadOnly: true });
    expect(() => health.assertWritable()).toThrow(/Nothing can be written/);
    expect(() => health.assertWritable({ isEnding: true })).not.toThrow();
    // The disk has space, as it turns out.
    await expect.poll(code).toBe('store.inconsistent');
    // Cleaning up failed as well: the first error counts.
    const first = Object.assign(new Error('bad page'), { code: 'XX001' });
    health.observe(new SuppressedError(new Error('connection lost'), first, 'An error was suppressed'));
    expect(code()).toBe('store.damaged');
    health.observe(Object.assign(new Error('full'), { code: '53100' }));
    expect(code()).toBe('store.damaged');
    expect(() => health.assertWritable({ isEnding: true })).toThrow(/Nothing can be written/);
    health.observe(Object.assign(new Error('gone'), { code: 'store.replaced' }));
    await new Promise((wake) => setTimeout(wake, 100));
    expect(code()).toBe('store.replaced');
  });
});
