import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Journal } from '../../src/kernel/index.ts';
import { noUsage } from '../../src/kernel/index.ts';
import { fromColumn, toColumn } from '../../src/store/column.ts';
import { createConversations } from '../../src/store/conversations.ts';
import type { Database } from '../../src/store/database.ts';
import { createSqlJournal } from '../../src/store/journal.ts';
import { migrate, migrations } from '../../src/store/migrations/index.ts';
import { openDatabase } from '../../src/store/open.ts';
import { journalSuite } from '../../src/testing/journal.ts';
import type { TemporaryPostgres } from '../../src/testing/postgres.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import { copyTemplate } from '../../src/testing/store.ts';

const backends = process.env.HOMARD_TEST_POSTGRES ? (['embedded', 'postgres'] as const) : (['embedded'] as const);
const leaseMs = 600;

describe.each(backends)('the journal on %s', (backend) => {
  let database: Database;
  let postgres: TemporaryPostgres | undefined;
  let journal: Journal;
  const directory = join(tmpdir(), `homard-journal-${crypto.randomUUID()}`);

  beforeAll(async () => {
    if (backend === 'postgres') postgres = await createTemporaryPostgres();
    else await copyTemplate(join(directory, 'db'));
    database = await openDatabase({ url: postgres?.url, directory });
    await migrate(database.kysely);
    journal = createSqlJournal(database, { leaseSeconds: leaseMs / 1000 });
  });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  for (const { name, run } of journalSuite) {
    it(name, { timeout: 60_000 }, () =>
      run(() => Promise.resolve({ journal, leaseMs, wait: (ms) => sleep(ms), close: () => Promise.resolve() })),
    );
  }

  const key = (conversation: string) => ({ tenant: 't', owner: 'o', conversation });
  const message = (text: string) => ({ parts: [{ type: 'text' as const, text }] });

  async function begin(conversation: string) {
    const run = crypto.randomUUID();
    const request = { agent: 'a', model: 'm' };
    const submitted = await journal.submit({ ...key(conversation), run, message: message('hi'), request, worker: 'w' });
    if (submitted.outcome !== 'claimed') throw new Error(submitted.outcome);
    return submitted.claim;
  }

  it('GOV-78 a run whose own row cannot be read ends with that error, and holds up nobody', async () => {
    const broken = await begin('broken row');
    const queued = {
      ...key('broken row'),
      run: crypto.randomUUID(),
      message: message('next'),
      request: { agent: 'a', model: 'm' },
    };
    await journal.submit({ ...queued, worker: 'w' });
    const whole = await begin('whole row');
    await sql`update run set request = left(request, 5) where id = ${broken.run}`.execute(database.kysely);
    await sleep(leaseMs + 100);
    const claims = await journal.claim('w2', { limit: 100, held: [] });
    expect(claims.some(({ run }) => run === whole.run)).toBe(true);
    expect(claims.some(({ run }) => run === queued.run)).toBe(true);
    expect(claims.some(({ run }) => run === broken.run)).toBe(false);
    const status = await sql<{ status: string }>`select status from run where id = ${broken.run}`.execute(
      database.kysely,
    );
    expect(status.rows).toEqual([{ status: 'failed' }]);
  });

  it('one bad commit in a batch fails alone', async () => {
    const claims = await Promise.all(['x1', 'x2', 'x3', 'x4'].map((name) => begin(`batch ${name}`)));
    const results = await Promise.allSettled(
      claims.map((claim, i) =>
        journal.commit({
          ...claim,
          worker: 'w',
          status: 'running',
          steps: i === 2 ? [{ n: 0, kind: 'tool', call: 'nul \0', state: 'done' }] : [],
          entries: [{ kind: 'assistant', body: { parts: [], model: 'm', usage: noUsage } }],
        }),
      ),
    );
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
  });

  it('GOV-78 what cannot be read is refused as such, and stays as it is', async () => {
    for (const [name, change] of Object.entries({
      truncated: sql`update journal set body = left(body, 9) where conversation = 'truncated'`,
      future: sql`update journal set kind = 'hologram' where conversation = 'future'`,
      shape: sql`update journal set body = '{"parts":[{"type":"smell"}]}' where conversation = 'shape'`,
    })) {
      await begin(name);
      await change.execute(database.kysely);
      const rows = () => sql`select kind, body from journal where conversation = ${name}`.execute(database.kysely);
      const before = (await rows()).rows;
      await expect(journal.history(key(name), { seq: 0, bytes: 0 })).rejects.toMatchObject({
        code: 'journal.state_unreadable',
      });
      await expect(createConversations(database).entries(key(name), { after: 0, limit: 10 })).rejects.toMatchObject({
        code: 'journal.state_unreadable',
      });
      expect((await rows()).rows).toEqual(before);
    }
  });

  it('GOV-78 GOV-81 a database of a newer release is refused and not touched', async () => {
    await sql`insert into kysely_migration(name, timestamp) values ('9999_future', '2030')`.execute(database.kysely);
    try {
      await expect(migrate(database.kysely)).rejects.toMatchObject({ code: 'store.newer_schema' });
    } finally {
      await sql`delete from kysely_migration where name = '9999_future'`.execute(database.kysely);
    }
    expect(await migrate(database.kysely)).toEqual([]);
  });

  it(
    'GOV-75 10,000 unconditional writes in any interleaving each get their own version',
    { timeout: 120_000 },
    async () => {
      const claims = await Promise.all(Array.from({ length: 20 }, (_, i) => begin(`interleaved ${i}`)));
      const versions = await Promise.all(
        claims.map(async (claim) => {
          const own: number[] = [];
          for (let commits = 0; commits < 500; commits++) {
            const entries = [{ kind: 'notice' as const, body: { code: 'c', message: 'm' } }];
            const done = await journal.commit({
              ...claim,
              commits,
              worker: 'w',
              status: 'running',
              entries,
              steps: [],
            });
            if (done.outcome === 'done') own.push(done.version);
          }
          return own;
        }),
      );
      for (const own of versions) expect(own).toEqual(Array.from({ length: 500 }, (_, i) => i + 2));
    },
  );

  if (backend === 'postgres') {
    it(
      'MEM-05 an append costs the same at 10 and at 10,000 entries: less than 64 KiB of log',
      { timeout: 120_000 },
      async () => {
        const claim = await begin('long');
        const entry = {
          kind: 'assistant' as const,
          body: { parts: [{ type: 'text' as const, text: 'x'.repeat(1000) }], model: 'm', usage: noUsage },
        };
        const position = async () =>
          (await sql<{ at: string }>`select (pg_current_wal_lsn() - '0/0')::text as at`.execute(database.kysely))
            .rows[0]!.at;
        let commits = 0;
        const write = async (count: number) => {
          const entries = Array.from({ length: count }, () => entry);
          await journal.commit({ ...claim, commits: commits++, worker: 'w', status: 'running', entries, steps: [] });
        };
        await write(10);
        for (let i = 0; i < 10; i++) await write(1000);
        // The log is the whole server's: what other suites write meanwhile can only add to an append's own.
        let bytes = Infinity;
        let appends = 0;
        for (; appends < 20 && bytes >= 65_536; appends++) {
          await sql`checkpoint`.execute(database.kysely);
          const before = Number(await position());
          await write(1);
          bytes = Math.min(bytes, Number(await position()) - before);
        }
        expect(bytes).toBeLessThan(65_536);
        const started = performance.now();
        const all = await journal.history(claim, { seq: 0, bytes: 0 });
        console.log(
          `append to 10,000: ${bytes} bytes of log; 10 MB conversation read whole in ${Math.round(performance.now() - started)} ms`,
        );
        expect(all).toHaveLength(10_011 + appends);
        expect(all.at(-1)!.bytesTo).toBeGreaterThan(10_000_000);
      },
    );

    it('a commit reads as many rows after 1,500 runs of one owner as after 100', { timeout: 120_000 }, async () => {
      let made = 0;
      const turns = async (count: number) => {
        for (let i = 0; i < count; i++) {
          const claim = await begin(`many ${made++ % 7}`);
          await journal.commit({ ...claim, worker: 'w', status: 'done', entries: [], steps: [] });
        }
      };
      const read = async () => {
        await sleep(1200); // a connection flushes its statistics at the end of a statement, once a second at most
        await Promise.all([0, 1, 2, 3].map(() => turns(1)));
        const { rows } = await sql<{
          n: number;
        }>`select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::int
          as n from pg_stat_user_tables where relname in ('run', 'conversation', 'step', 'journal')`.execute(
          database.kysely,
        );
        return rows[0]!.n;
      };
      await turns(100);
      const start = await read();
      await turns(100);
      const early = (await read()) - start;
      await turns(1300);
      const middle = await read();
      await turns(100);
      const late = (await read()) - middle;
      console.log(`rows read by 100 turns: ${early} early, ${late} late`);
      // Where all of an owner are read, each of the 100 turns reads more than 1,500.
      expect(late).toBeLessThan(100 * 100);
      expect(early).toBeGreaterThan(0);
    });

    it('several processes that migrate one fresh database at once all succeed', async () => {
      await using fresh = await createTemporaryPostgres();
      const opened = await Promise.all([1, 2, 3].map(() => openDatabase({ url: fresh.url, directory })));
      try {
        const applied = await Promise.all(opened.map((one) => migrate(one.kysely)));
        expect(applied.flat()).toEqual(Object.keys(migrations));
      } finally {
        for (const one of opened) await one[Symbol.asyncDispose]();
      }
    });
  }
});

describe('columns', () => {
  it('GOV-79 any string goes into a column and back, and two strings never become one', () => {
    const unit = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 2 }),
      fc.constantFrom('%', '\0', '\ud800', '\udfff', '%0000', '00', 'd800'),
    );
    const text = fc.array(unit, { maxLength: 8 }).map((units) => units.join(''));
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(fromColumn(toColumn(a))).toBe(a);
        expect(toColumn(a)).not.toMatch(/\0/);
        expect(toColumn(a).isWellFormed()).toBe(true);
        if (a !== b) expect(toColumn(a)).not.toBe(toColumn(b));
      }),
      { numRuns: 5000 },
    );
  });
});
