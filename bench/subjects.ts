// The servers under test. All answer `POST /chat/stream {conversationId, query, modelName}` and `GET /health`.
import fs from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort, pin, start, stop, type Started } from './process.ts';

export const subjectNames = ['raw', 'aisdk', 'homard-postgres', 'homard-embedded'] as const;
export type SubjectName = (typeof subjectNames)[number];

export interface Subject {
  name: SubjectName;
  /** Remembers earlier messages and offers a tool. */
  isAgent: boolean;
  /** Keeps what it was told. */
  isDurable: boolean;
  token: string;
  /** What the end of an unbroken stream holds. */
  end: string;
  database?: string;
  server: Started;
  stop: () => Promise<void>;
  /** Starts it again on the data that is there, on its core alone; resolves to the milliseconds of the start. */
  start: () => Promise<number>;
  /** The same in an empty data directory (the database on PostgreSQL stays). */
  startAnew: () => Promise<number>;
}

export interface Surroundings {
  /** Of the server under test. */
  core: string;
  /** For what is not measured. */
  allCores: string;
  modelUrl: string;
  /** For data and logs; whoever made it removes it. */
  directory: string;
  databaseUrl: string;
  /** Takes what must be done once the servers have been stopped. */
  onCleanUp: (cleanup: () => Promise<unknown>) => void;
  /** Where CPU profiles of the first start go. */
  profileDirectory?: string;
}

interface Recipe {
  isAgent: boolean;
  end: string;
  args: string[];
  env: Record<string, string>;
  database?: string;
}

const here = import.meta.dirname;

export async function createSubject(name: SubjectName, surroundings: Surroundings): Promise<Subject> {
  const token = randomBytes(24).toString('base64url');
  const recipe = await writeRecipe(name, token, surroundings);
  const { core, allCores, directory, modelUrl, profileDirectory } = surroundings;

  const launch = async (cores: string, nodeArgs: string[], given: Record<string, string> = {}) => {
    const port = await freePort();
    const env = { ...cleanEnvironment(), OPENAI_API_KEY: 'x', OPENAI_BASE_URL: modelUrl, PORT: String(port) };
    return start({
      args: [...nodeArgs, ...recipe.args],
      cores,
      port,
      env: { ...env, ...recipe.env, ...given, HOMARD_PORT: String(port) },
      logFile: join(directory, `${name}.log`),
    });
  };

  const profiling = profileDirectory
    ? ['--cpu-prof', '--cpu-prof-interval=500', `--cpu-prof-dir=${join(profileDirectory, name)}`]
    : [];
  let server = await launch(allCores, profiling);
  pin(server.pid, core);
  const { isAgent, end, database } = recipe;
  return {
    name,
    isAgent,
    isDurable: recipe.env['HOMARD_DATA'] !== undefined,
    token,
    end,
    ...(database && { database }),
    get server() {
      return server;
    },
    stop: async () => {
      if (!(await stop(server.pid))) throw new Error(`${name} did not stop within 10 s of SIGTERM`);
    },
    start: async () => {
      server = await launch(core, []);
      return server.startMs;
    },
    startAnew: async () => {
      server = await launch(core, [], { HOMARD_DATA: await fs.mkdtemp(join(directory, `${name}-anew-`)) });
      return server.startMs;
    },
  };
}

async function writeRecipe(name: SubjectName, token: string, surroundings: Surroundings): Promise<Recipe> {
  if (name === 'raw') return { isAgent: false, end: '[DONE]', args: [join(here, 'raw-proxy.ts')], env: {} };
  if (name === 'aisdk') return { isAgent: true, end: '[DONE]', args: [join(here, 'aisdk-server.ts')], env: {} };

  const data = join(surroundings.directory, name);
  await fs.mkdir(data);
  const homard: Recipe = {
    isAgent: true,
    end: 'event: run_end',
    args: [join(here, '../src/cli.ts'), 'start'],
    env: { HOMARD_HOST: '127.0.0.1', HOMARD_DATA: data, HOMARD_TOKEN: token },
  };
  if (name === 'homard-embedded') return homard;

  const { databaseUrl, onCleanUp } = surroundings;
  const database = `homard_bench_${process.pid}_${Date.now()}`;
  const url = new URL(databaseUrl);
  url.pathname = database;
  const created = query(databaseUrl, `create database ${database}`);
  onCleanUp(() =>
    created.then(
      () => query(databaseUrl, `drop database ${database} with (force)`),
      () => undefined,
    ),
  );
  await created;
  return { ...homard, database, env: { ...homard.env, HOMARD_DATABASE_URL: url.href } };
}

async function query(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 3000 });
  try {
    await client.connect();
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** What the person at the keyboard has set for their own server must not reach the one that is measured. */
function cleanEnvironment(): Record<string, string | undefined> {
  const foreign = /^(HOMARD_|OPENAI_|PG|NODE_OPTIONS$|DATABASE_URL$)/;
  return Object.fromEntries(Object.entries(process.env).filter(([key]) => !foreign.test(key)));
}
