// The composition root: every part is built by hand, in order, and disposed in reverse.
import { mkdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { hostname } from 'node:os';
import type { Hono } from 'hono';
import type { Identity } from './access/identity.ts';
import { createSignIn } from './access/sign-in.ts';
import { createAssembler } from './agents/assemble.ts';
import type { ConfigInput } from './config.ts';
import { toConfig } from './config.ts';
import type { Log, Middleware, Model, Policy, Tool } from './kernel/index.ts';
import { askForWrites, createRunner, messageOf } from './kernel/index.ts';
import { createPriceTable } from './models/prices.ts';
import { createRouter } from './models/router.ts';
import type { ServerEnvironment } from './server/context.ts';
import { createFeed } from './server/feed.ts';
import { createHttpApp } from './server/http.ts';
import { createConversations } from './store/conversations.ts';
import { createSqlJournal } from './store/journal.ts';
import { migrate } from './store/migrations/index.ts';
import type { Database } from './store/database.ts';
import { storeError } from './store/errors.ts';
import { openDatabase } from './store/open.ts';
import { createUsageReport } from './store/usage.ts';
import { currentTime } from './tools/clock.ts';
import { rollDice } from './tools/dice.ts';
import { version } from './version.ts';

export interface HomardInput {
  /** What homard.config.yaml may hold. */
  config?: ConfigInput;
  /** `postgres://...`; absent: the embedded store below `config.data`. */
  database?: string;
  /** The host's own users; absent: one owner, by token or sign-in link. */
  identity?: Identity;
  /** The owner's bearer token, where there is no `identity`; made once and kept in `config.data` when absent. */
  token?: string;
  /** Beside the ones that ship. */
  tools?: readonly Tool[];
  policy?: Policy;
  middleware?: readonly Middleware[];
  /** For every request, instead of the configured ones. */
  model?: Model;
  /** Shaped like pino; sentences on the console when absent. */
  logger?: Log;
  /** Keys of models; `process.env` when absent. */
  environment?: Record<string, string | undefined>;
}

export interface Homard extends AsyncDisposable {
  /** Answers any request below the root; mounts in every host that speaks fetch. */
  fetch: Hono<ServerEnvironment>['fetch'];
  /** No model is configured: the scripted demo answers. */
  isDemo: boolean;
  /** Stops runs so that another process, or the next start, goes on with them; then closes the store. */
  close(): Promise<void>;
}

const consoleLog: Log = {
  warn: (_, message) => console.warn(message),
  error: (_, message) => console.error(message),
};

const SYSTEM = `You are Homard, a helpful assistant. Answer in the language of the user. Use the tools you are given when \
they help, and say plainly when something failed or is unknown.`;

/** Builds a whole server without listening. Throws `config.*`, `store.*`. */
export async function createHomard(input: HomardInput = {}): Promise<Homard> {
  const config = toConfig(input.config ?? {}, 'The configuration');
  const { logger: log = consoleLog, environment = process.env, policy = askForWrites, middleware = [] } = input;
  const { limits, window } = config;
  await using stack = new AsyncDisposableStack();
  await makeDirectory(config.data);
  const database = stack.use(await openDatabase({ url: input.database, directory: config.data, log }));
  await migrate(database.kysely);
  if (database.kind === 'pglite') {
    // The directory lock proves that nobody else lives: whatever was running is free at once.
    await database.kysely
      .updateTable('run')
      .set({ lease_until: new Date(0) })
      .where('status', '=', 'running')
      .execute();
  }
  const journal = createSqlJournal(database);
  const conversations = createConversations(database);
  const feed = createFeed(conversations);
  const priceOf = createPriceTable(config.prices);
  const router = createRouter(config.models, environment);
  const isDemo = !input.model && router.describe().default === 'demo';
  const tools = [currentTime, ...(isDemo ? [rollDice] : []), ...(input.tools ?? [])];
  const assistant = { name: 'assistant', system: config.system ?? SYSTEM, tools, policy, middleware, limits, window };
  const assembler = createAssembler([assistant], (name) => input.model ?? router.resolve(name));
  const runner = stack.use(
    createRunner({
      journal,
      worker: `${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`,
      assemble: assembler.assemble,
      log,
      onChange: ({ claim, event }) => {
        if (event.type === 'run_start' || event.type === 'run_end' || event.type === 'error') feed.hint(claim);
      },
    }),
  );
  const owner = { tenant: 'default', owner: 'owner' };
  const signIn = input.identity
    ? undefined
    : await createSignIn({ directory: config.data, owner, ...(input.token !== undefined && { token: input.token }) });
  const app = createHttpApp({
    runner,
    usage: createUsageReport(database),
    priceOf,
    journal,
    conversations,
    feed,
    log,
    identity: input.identity ?? signIn!.identity,
    ...(signIn && { signIn }),
    resolve: assembler.resolve,
    isReachable: () => isReachable(database),
    describe: () => ({ version, store: database.kind, models: router.describe(), activeRuns: runner.activeCount() }),
    config: {
      bodyLimitBytes: config.bodyLimitBytes,
      heartbeatMs: config.heartbeatSeconds * 1000,
      backlogBytes: config.backlogBytes,
      hosts: signIn ? ['localhost', '127.0.0.1', '[::1]', config.host, ...config.hosts] : null,
    },
  });
  await runner.sweep();
  const owned = stack.move();
  const close = () => owned.disposeAsync();
  return { fetch: app.fetch, isDemo, close, [Symbol.asyncDispose]: close };
}

async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw storeError('unreadable', `The data directory ${path} cannot be made: ${messageOf(error)}`, { cause: error });
  }
}

async function isReachable(database: Database): Promise<boolean> {
  const answer = database.exec('homard_health', 'select 1', []).then(
    () => true,
    () => false,
  );
  return await Promise.race([answer, sleep(2000, false, { ref: false })]);
}
