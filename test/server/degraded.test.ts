// What a server does when its database is damaged, replaced or locked, or its disk is full: it says so, loses nothing that
// it took, and goes on where it can.
import { createHash, randomBytes } from 'node:crypto';
import { cpSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Model } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { preparePgliteTemplate } from '../../src/testing/store.ts';
import type { TestServer } from './harness.ts';
import { backends, createTestServer, namesOf, schemaTemplate } from './harness.ts';
import type { SmallDisk } from './small-disk.ts';
import { canMount, createSmallDisk } from './small-disk.ts';

// Seconds each: they run where HOMARD_TEST_POSTGRES is set, as in `.ci/run`.
const isFast = !process.env.HOMARD_TEST_POSTGRES;

const quiet = { warn: () => undefined, error: () => undefined };
const fine = () => createScriptedModel(() => 'a whole answer');

const health = async (server: TestServer) => (await server.call('GET', '/health')).body;
const talk = (server: TestServer, conversationId: string, query = 'hello') =>
  server.call('POST', '/chat', { body: { conversationId, query } });

async function until(look: () => Promise<boolean>, seconds = 15): Promise<void> {
  for (let i = 0; i < seconds * 50; i++) {
    if (await look()) return;
    await sleep(20);
  }
  throw new Error(`it did not come to that in ${seconds} s`);
}

/** The files of a table, as they lie in the data directory of a server that has stopped. */
async function pathOf(server: TestServer, table: string): Promise<string> {
  const { openPglite } = await import('../../src/store/pglite/open.ts');
  await using database = await openPglite(join(server.folder, 'db'));
  const [row] = await database.exec('path', `select pg_relation_filepath('${table}')`, []);
  return join(server.folder, 'db', row![0]!);
}

/** Overwrites the second half of each page. */
function spoil(path: string): void {
  const bytes = readFileSync(path);
  for (let at = 4096; at < bytes.length; at += 8192) bytes.fill(0x5a, at, at + 4096);
  writeFileSync(path, bytes);
}

describe('a damaged database', () => {
  it('B6 is told at the start and by /health with the command that helps; what is whole is read, nothing is written', async () => {
    await using server = await createTestServer('embedded', { model: fine(), logger: quiet });
    expect((await talk(server, 'before')).status).toBe(200);
    await server.restart();
    await server.stop();
    spoil(await pathOf(server, 'step'));
    const errors: string[] = [];
    await server.start({ logger: { ...quiet, error: (_, message) => void errors.push(message) } });
    expect(errors).toContainEqual(expect.stringMatching(/table step cannot be read.*homard restore/));
    const problem = { code: 'store.damaged', hint: expect.stringContaining('homard restore'), isReadOnly: true };
    expect(await health(server)).toMatchObject({ status: 'degraded', problem });
    expect((await server.call('GET', '/health', { user: null })).body).toEqual({ status: 'degraded' });
    expect((await server.call('GET', '/conversations/before/messages')).body.messages).toHaveLength(2);
    const refused = {
      status: 503,
      body: { error: { code: 'store.read_only', hint: expect.stringContaining('restore') } },
    };
    expect(await talk(server, 'after')).toMatchObject(refused);
    expect(await server.call('DELETE', '/conversations/before')).toMatchObject(refused);
    expect((await server.call('GET', '/conversations')).body.conversations).toHaveLength(1);
  });

  it.skipIf(isFast)('B6 that is read for the first time while the server runs is told then', async () => {
    await using server = await createTestServer('embedded', { model: fine(), logger: quiet });
    expect((await talk(server, 'before', 'x'.repeat(50_000))).status).toBe(200);
    await server.stop();
    // Long texts lie apart, where the check at the start does not look.
    const path = await pathOf(server, 'tombstone');
    await server.start({});
    expect(await health(server)).toMatchObject({ status: 'ok' });
    const bytes = Buffer.alloc(8192, 0x5a);
    writeFileSync(path, bytes);
    await server.call('DELETE', '/conversations/before');
    expect(await health(server)).toMatchObject({ status: 'degraded', problem: { code: 'store.damaged' } });
  });

  it.skipIf(isFast)('B6 with an entry less is told, and goes on', async () => {
    await using server = await createTestServer('embedded', { model: fine(), logger: quiet });
    await talk(server, 'gap');
    await server.stop();
    {
      const { openPglite } = await import('../../src/store/pglite/open.ts');
      await using database = await openPglite(join(server.folder, 'db'));
      await database.exec('gap', 'delete from journal where seq = 1', []);
    }
    await server.start({});
    const problem = {
      code: 'store.inconsistent',
      reason: expect.stringContaining('"gap" of "ann" has 1 of 2 entries'),
    };
    expect(await health(server)).toMatchObject({ status: 'degraded', problem });
    expect((await talk(server, 'other')).status).toBe(200);
  });
});

describe('a database that is replaced while it is open', () => {
  it('B7 is not written to any more, neither the old nor the new one, and says so', async () => {
    await using server = await createTestServer('embedded', { model: fine(), logger: quiet });
    expect((await talk(server, 'old')).status).toBe(200);
    const home = join(server.folder, 'db');
    cpSync(await preparePgliteTemplate(schemaTemplate), `${home}-backup`, { recursive: true });
    renameSync(home, `${home}-old`);
    renameSync(`${home}-backup`, home);
    const before = contentOf(home);
    const refused = {
      status: 503,
      body: { error: { code: expect.stringMatching(/^store\.(?:replaced|read_only)$/) } },
    };
    expect(await talk(server, 'new')).toMatchObject(refused);
    expect(await health(server)).toMatchObject({
      status: 'degraded',
      problem: { code: 'store.replaced', hint: expect.stringContaining('Restart') },
    });
    await server.stop();
    expect(contentOf(home)).toEqual(before);
    rmSync(home, { recursive: true });
    renameSync(`${home}-old`, home);
    await server.start({});
    expect((await server.call('GET', '/conversations')).body.conversations).toMatchObject([{ id: 'old' }]);
  });

  it.skipIf(isFast)('B7 is noticed within seconds, without anybody asking', async () => {
    const errors: string[] = [];
    const logger = { ...quiet, error: (_: object, message: string) => void errors.push(message) };
    await using server = await createTestServer('embedded', { model: fine(), logger });
    renameSync(join(server.folder, 'db'), join(server.folder, 'db-away'));
    await until(() => Promise.resolve(errors.some((message) => message.includes('moved or replaced'))), 5);
  });
});

const contentOf = (path: string) =>
  Object.fromEntries(
    globSync('**/*', { cwd: path, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((name) => [name, createHash('md5').update(readFileSync(name)).digest('hex')]),
  );

describe.skipIf(!canMount)(`a full disk${canMount ? '' : ' (skipped: this user cannot mount a small one)'}`, () => {
  let disk: SmallDisk;
  let before: string | undefined;
  beforeAll(async () => {
    await preparePgliteTemplate(schemaTemplate);
    disk = createSmallDisk(200);
    before = process.env.TMPDIR;
    process.env.TMPDIR = disk.path; // where the servers of this suite live
  });
  afterAll(() => {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    disk[Symbol.dispose]();
  });
  const fillUp = (leave: number) => disk.fillUp(leave);
  const makeSpace = () => disk.makeSpace();

  it('B6 is noticed before it is full: messages are refused, reading goes on, and all is well with space again', async () => {
    await using server = await createTestServer('embedded', { model: fine(), logger: quiet });
    expect((await talk(server, 'before')).status).toBe(200);
    fillUp(20_000_000);
    await until(async () => (await health(server)).status === ('degraded' as never));
    expect(await health(server)).toMatchObject({
      problem: { code: 'store.disk_full', hint: expect.stringContaining('space') },
    });
    expect(await talk(server, 'after')).toMatchObject({ status: 503, body: { error: { code: 'store.read_only' } } });
    expect((await server.call('GET', '/conversations/before/messages')).body.messages).toHaveLength(2);
    makeSpace();
    await until(async () => (await health(server)).status === ('ok' as never));
    expect((await talk(server, 'after')).status).toBe(200);
  });

  it.skipIf(isFast)(
    'B6 in mid-run: the run is told to have stopped, nothing that was taken is lost, and it goes on with space',
    async () => {
      const gate = Promise.withResolvers<void>();
      let calls = 0;
      const large: Model = {
        name: 'large',
        async call(_request, _signal, on) {
          const isFirst = calls++ === 0;
          if (isFirst) await gate.promise;
          const text = isFirst ? randomBytes(15_000_000).toString('base64') : 'a whole answer';
          on({ type: 'text', text });
          return { reason: 'stop', usage: { inputTokens: 1, outputTokens: 1, reasoningTokens: 0, cachedTokens: 0 } };
        },
      };
      const errors: string[] = [];
      const logger = { ...quiet, error: (_: object, message: string) => void errors.push(message) };
      await using server = await createTestServer('embedded', {
        model: large,
        logger,
        config: { backlogBytes: 100_000_000 },
      });
      const frames = server.stream('/chat/stream', { body: { conversationId: 'large', query: 'hello' } });
      await until(async () => calls === 1 && (await server.call('GET', '/conversations/large')).status === 200);
      fillUp(0);
      gate.resolve();
      await until(async () => (await health(server)).problem !== undefined);
      await until(
        () => Promise.resolve(errors.some((message) => /A run stopped here.*(?:space|full)/i.test(message))),
        30,
      );
      expect(await talk(server, 'other')).toMatchObject({
        status: 503,
        body: { error: { code: expect.stringMatching(/^store\.(?:read_only|disk_full)$/) } },
      });
      makeSpace();
      await until(async () => {
        const { status, body } = await server.call('GET', '/conversations/large');
        return status === 200 && body.activeRun === null;
      }, 60);
      const messages = (await server.call('GET', '/conversations/large/messages')).body.messages as unknown as {
        kind: string;
      }[];
      expect(messages.map(({ kind }) => kind)).toEqual(['user', 'assistant']);
      expect((await talk(server, 'later')).status).toBe(200);
      const warnings = (await frames).filter(({ event }) => event === 'warning').map(({ data }) => data.code);
      expect(warnings).toContain('store.disk_full');
    },
    120_000,
  );
});

describe.skipIf(!backends.includes('postgres'))('PostgreSQL behind a lock', () => {
  it('B5 held for 10 s while 20 chats start: none is lost, none is doubled', async () => {
    const model = fine();
    await using server = await createTestServer('postgres', { model, logger: quiet });
    const client = new Client({ connectionString: server.databaseUrl! });
    await client.connect();
    await client.query('begin; lock table conversation, run, journal in access exclusive mode');
    const began = Date.now();
    const chats = Promise.all(Array.from({ length: 20 }, (_, i) => talk(server, `chat-${i}`, `message ${i}`)));
    await sleep(10_000);
    expect(model.requests).toHaveLength(0);
    await client.query('commit');
    await client.end();
    const replies = await chats;
    expect(Date.now() - began).toBeGreaterThan(9_900);
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    expect(model.requests).toHaveLength(20);
    for (let i = 0; i < 20; i++) {
      const { body } = await server.call('GET', `/conversations/chat-${i}/messages`);
      expect((body.messages as unknown as { parts: { text: string }[] }[]).map(({ parts }) => parts[0]!.text)).toEqual([
        `message ${i}`,
        'a whole answer',
      ]);
    }
  }, 60_000);

  it('B5 a turn whose message cannot be stored fails before the model is called', async () => {
    const model = fine();
    await using server = await createTestServer('postgres', { model, logger: quiet });
    const client = new Client({ connectionString: server.databaseUrl! });
    await client.connect();
    await client.query('alter table journal rename to elsewhere');
    expect((await talk(server, 'lost')).status).toBeGreaterThanOrEqual(500);
    const frames = await server
      .stream('/chat/stream', { body: { conversationId: 'lost', query: 'hello' } })
      .then(namesOf, (error: Error) => error.message);
    expect(String(frames)).toMatch(/^5\d\d /);
    expect(model.requests).toHaveLength(0);
    await client.query('alter table elsewhere rename to journal');
    await client.end();
    expect((await talk(server, 'lost')).status).toBe(200);
    expect(model.requests).toHaveLength(1);
  });
});

describe.each(backends)('branches on %s', (backend) => {
  it('B9 forks, retries, 50 more turns and a restart: no count ever goes down', async () => {
    await using server = await createTestServer(backend, { model: fine(), logger: quiet });
    const count = async (id: string) => Number((await server.call('GET', `/conversations/${id}`)).body.version);
    let last = { main: 0, retry: 0, again: 0 };
    const look = async () => {
      const now = { main: await count('main'), retry: await count('retry'), again: await count('again') };
      for (const name of Object.keys(now) as (keyof typeof now)[]) {
        if (!Number.isNaN(now[name])) expect(now[name]).toBeGreaterThanOrEqual(last[name]);
      }
      last = { main: now.main || 0, retry: now.retry || 0, again: now.again || 0 };
    };
    for (let i = 0; i < 3; i++) await talk(server, 'main', `main ${i}`);
    await look();
    // A retry of the second message, and of that the first one again.
    expect((await server.call('POST', '/conversations/main/fork', { body: { id: 'retry', after: 2 } })).status).toBe(
      201,
    );
    await talk(server, 'retry', 'main 1, better');
    expect((await server.call('POST', '/conversations/retry/fork', { body: { id: 'again', after: 4 } })).status).toBe(
      201,
    );
    await look();
    for (let i = 0; i < 50; i++) {
      await talk(server, (['main', 'retry', 'again'] as const)[i % 3]!, `more ${i}`);
      if (i % 10 === 0) await look();
    }
    await look();
    const texts = async (id: string) =>
      JSON.stringify((await server.call('GET', `/conversations/${id}/messages?limit=1000`)).body.messages);
    const before = await Promise.all(['main', 'retry', 'again'].map(texts));
    await server.restart();
    await look();
    expect(await Promise.all(['main', 'retry', 'again'].map(texts))).toEqual(before);
    expect(last).toEqual({ main: 6 + 34, retry: 4 + 34, again: 4 + 32 });
  });
});
