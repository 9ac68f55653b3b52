import { randomUUID } from 'node:crypto';

export interface TemporaryPostgres extends AsyncDisposable {
  url: string;
}

/**
 * A database of its own on the server that HOMARD_TEST_POSTGRES names by a url (else 127.0.0.1:5432, user postgres, trust);
 * dropped on disposal, with whoever is still connected.
 */
export async function createTemporaryPostgres(): Promise<TemporaryPostgres> {
  const { default: pg } = await import('pg');
  const named = process.env.HOMARD_TEST_POSTGRES ?? '';
  const server = named.includes('://') ? named : 'postgres://postgres@127.0.0.1:5432/postgres';
  const name = `homard_test_${randomUUID().replaceAll('-', '')}`;
  const run = async (statement: string) => {
    const client = new pg.Client({ connectionString: server });
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  await run(`create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, [Symbol.asyncDispose]: () => run(`drop database if exists ${name} with (force)`) };
}
