// What every back end of the store does alike. Each case gets an open database and a table name of its own.
import { assert, asyncProperty, string } from 'fast-check';
import { sql } from 'kysely';
import { expect } from 'vitest';
import type { Database } from '../../src/store/database.ts';

export interface DatabaseCase {
  name: string;
  run(database: Database, table: string): Promise<void>;
}

const anyText = string({ unit: 'binary', maxLength: 200 }).map((text) => text.replaceAll('\0', ''));

async function createTable({ kysely }: Database, table: string): Promise<void> {
  await sql`create table ${sql.table(table)} (id int primary key, body text)`.execute(kysely);
}

async function countRows({ kysely }: Database, table: string): Promise<unknown> {
  const { rows } = await sql<{ n: unknown }>`select count(*) as n from ${sql.table(table)}`.execute(kysely);
  return rows[0]?.n;
}

function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );
}

export const databaseCases: DatabaseCase[] = [
  {
    name: 'gives every text back as it was, through exec and through Kysely',
    async run(database) {
      const property = asyncProperty(anyText, anyText, async (a, b) => {
        const [row] = await database.exec('echo_2', 'select $1::text, $2::text', [a, b]);
        const { rows } = await sql<{ a: string; b: string }>`select ${a}::text as a, ${b}::text as b`.execute(
          database.kysely,
        );
        expect(row).toEqual([a, b]);
        expect(rows[0]).toEqual({ a, b });
      });
      await assert(property, { numRuns: 200 });
    },
  },
  {
    name: 'answers exec with the text form of each value',
    async run(database) {
      const text = `select $1::int8, null::text, true, false, '2026-01-02T03:04:05.5+02'::timestamptz, 1.5::float8, ''`;
      const rows = await database.exec('forms', text, [9_007_199_254_740_991]);
      expect(rows).toEqual([['9007199254740991', null, 't', 'f', '2026-01-02 01:04:05.5+00', '1.5', '']]);
      expect(await database.exec('nothing', 'select 1 where $1::int = 0', [1])).toEqual([]);
      const large = 'π'.repeat(1_500_000);
      expect((await database.exec('large', 'select $1::text', [large]))[0]?.[0]).toBe(large);
    },
  },
  {
    name: 'gives Kysely int8 and counts as numbers, times as Date, booleans as booleans',
    async run({ kysely }) {
      const at = new Date('2026-11-30T10:00:00.123Z');
      const { rows } =
        await sql`select 5::int8 as big, count(*) as n, ${at}::timestamptz as at, true as yes, null as none
        from (values (1), (2)) v`.execute(kysely);
      expect(rows).toEqual([{ big: 5, n: 2, at, yes: true, none: null }]);
    },
  },
  {
    name: 'passes code, detail and constraint of a refused statement on, and works on',
    async run(database, table) {
      await createTable(database, table);
      const insert = () => database.exec(`insert_${table}`, `insert into ${table} values ($1, $2)`, [1, 'one']);
      await insert();
      const refused = { code: '23505', constraint: `${table}_pkey`, detail: 'Key (id)=(1) already exists.' };
      expect(await failureOf(insert())).toMatchObject(refused);
      const again = sql`insert into ${sql.table(table)} values (1, 'again')`.execute(database.kysely);
      expect(await failureOf(again)).toMatchObject(refused);
      expect(await failureOf(database.exec('wrong', 'selec 1', []))).toMatchObject({ code: '42601' });
      expect(await failureOf(database.exec('nul', 'select $1::text', ['a\0b']))).toMatchObject({ code: '22021' });
      expect(await countRows(database, table)).toBe(1);
    },
  },
  {
    name: 'keeps a transaction apart from statements outside it, and undoes it when it throws',
    async run(database, table) {
      await createTable(database, table);
      const inside = Promise.withResolvers<void>();
      const transaction = database.kysely.transaction().execute(async (trx) => {
        await sql`insert into ${sql.table(table)} values (1, 'a')`.execute(trx);
        inside.resolve();
        await new Promise((resolve) => setTimeout(resolve, 100));
        await sql`insert into ${sql.table(table)} values (2, 'b')`.execute(trx);
      });
      await inside.promise;
      const [seen] = await database.exec(`count_${table}`, `select count(*) from ${table}`, []);
      // The embedded database lets the statement wait; a server lets it see the state before.
      expect(seen).toEqual([database.kind === 'pglite' ? '2' : '0']);
      await transaction;
      const thrown = database.kysely.transaction().execute(async (trx) => {
        await sql`delete from ${sql.table(table)}`.execute(trx);
        throw new RangeError('changed my mind');
      });
      expect(await failureOf(thrown)).toBeInstanceOf(RangeError);
      expect(await countRows(database, table)).toBe(2);
    },
  },
  {
    name: 'reports a commit of a failed transaction as aborted',
    async run({ kysely }) {
      const ignored = kysely.transaction().execute(async (trx) => {
        await failureOf(sql`select 1 / 0`.execute(trx));
      });
      expect(await failureOf(ignored)).toMatchObject({ name: 'AbortedTransactionError' });
    },
  },
  {
    name: 'keeps the order of concurrent writers and the timers of the process',
    async run(database, table) {
      await createTable(database, table);
      let last = performance.now();
      let gapMs = 0;
      const timer = setInterval(() => {
        gapMs = Math.max(gapMs, performance.now() - last);
        last = performance.now();
      }, 2);
      const write = async (writer: number) => {
        for (let i = 0; i < 50; i++) {
          await database.exec(`write_${table}`, `insert into ${table} values ($1, $2)`, [
            writer * 1000 + i,
            'x'.repeat(200),
          ]);
        }
      };
      await Promise.all(Array.from({ length: 20 }, (_, writer) => write(writer)));
      clearInterval(timer);
      expect(gapMs).toBeLessThan(200);
      expect(await countRows(database, table)).toBe(1000);
    },
  },
  {
    name: 'refuses work once it is closed, and closes twice in peace',
    async run(database) {
      await database[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
      expect(await failureOf(database.exec('late', 'select 1', []))).toBeInstanceOf(Error);
      expect(await failureOf(sql`select 1`.execute(database.kysely))).toBeInstanceOf(Error);
    },
  },
];

/** A table name that no other case uses. */
export function tableOf(databaseCase: DatabaseCase): string {
  return `case_${databaseCases.indexOf(databaseCase)}`;
}
