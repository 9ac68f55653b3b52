import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { openDatabase } from '../../src/store/open.ts';
import { openPostgres } from '../../src/store/postgres.ts';
import { databaseCases, tableOf } from './database-cases.ts';

const given = process.env.HOMARD_TEST_POSTGRES;
const server = new URL(given?.startsWith('postgres') ? given : 'postgres://postgres@127.0.0.1:5432/postgres');
const skipped = given ? '' : ' (skipped: HOMARD_TEST_POSTGRES is not set)';

async function runOnServer(text: string): Promise<void> {
  const client = new Client({ connectionString: server.href });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

describe.skipIf(!given)(`the PostgreSQL database${skipped}`, () => {
  const name = `homard_test_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(`/${name}`, server).href;
  const warnings: string[] = [];
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined };
  let database: Database;

  beforeAll(async () => {
    await runOnServer(`create database ${name}`);
    database = await openDatabase({ url, directory: '/nowhere', log });
  });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await runOnServer(`drop database ${name} with (force)`);
  });

  it('replaces connections that the server closed, and logs it', async () => {
    await database.exec('warm', 'select 1', []);
    await runOnServer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
    await expect.poll(() => warnings).toContainEqual(expect.stringContaining('connection was lost'));
    expect(await database.exec('warm', 'select 1', [])).toEqual([['1']]);
  });

  it('calls itself homard and bounds statements on the server', async () => {
    const text = "select current_setting('application_name'), current_setting('statement_timeout')";
    expect(await database.exec('settings', text, [])).toEqual([['homard', '30s']]);
  });

  it('says which database cannot be used, and never the password', async () => {
    const absent = new URL(`/absent_${name}`, server);
    absent.password = 'sekret';
    await expect(openPostgres(absent.href)).rejects.toMatchObject({
      code: 'store.unreachable',
      message: expect.stringMatching(new RegExp(`^(?!.*sekret).*${server.hostname}.*absent_${name}`)),
    });
  });

  it.each(databaseCases)('$name', (each) => expect(each.run(database, tableOf(each))).resolves.toBeUndefined());
});

describe('opening PostgreSQL', () => {
  it.each([
    'postgres://user:sekret@127.0.0.1:1/app',
    'postgres://user:sekret@[::1/app',
    'mysql://user:sekret@host/app',
    'sekret',
  ])('refuses %s without its password', async (url) => {
    const failure = await openPostgres(url).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'store.unreachable' });
    expect(String(failure)).not.toContain('sekret');
  });

  it('names the package to install when the client is absent', async () => {
    const hooks = `import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (name === 'pg') throw Object.assign(new Error('absent'), { code: 'ERR_MODULE_NOT_FOUND' });
        return next(name, context);
      } });`;
    const source = join(import.meta.dirname, '../../src/store/postgres.ts');
    const program = `const { openPostgres } = await import(${JSON.stringify(source)});
      await openPostgres('postgres://x@127.0.0.1/x').catch((error) => console.log(error.code, error.hint));`;
    const flags = [
      '--import',
      `data:text/javascript,${encodeURIComponent(hooks)}`,
      '--input-type=module',
      '-e',
      program,
    ];
    const { stdout } = await promisify(execFile)(process.execPath, flags);
    expect(stdout).toMatch(/^store\.pg_missing .*npm install pg/);
  });
});
