// The composition root: every part is built by hand, in order, and disposed in reverse.
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hostname, totalmem } from 'node:os';
import type { Hono } from 'hono';
import type { Caller, Identity } from './access/identity.ts';
import { createMask } from './access/mask.ts';
import { createSeal } from './access/seal.ts';
import { createSignIn } from './access/sign-in.ts';
import { createAssembler } from './agents/assemble.ts';
import { withFiles } from './agents/conversation-files.ts';
import { equip } from './agents/equip.ts';
import type { ConfigInput } from './config.ts';
import { toConfig } from './config.ts';
import type { Log, Middleware, Model, Policy, Tool } from './kernel/index.ts';
import { askForWrites, createRunner } from './kernel/index.ts';
import { openTranscripts, withTranscripts } from './memory/index.ts';
import { createPriceTable } from './models/prices.ts';
import type { ModelsList } from './models/catalog.ts';
import { DEMO } from './models/config.ts';
import { createSetup } from './models/setup.ts';
import { chooseBackend, describeBackend } from './sandbox/backends.ts';
import { createSandboxes } from './sandbox/sandboxes.ts';
import type { ServerEnvironment } from './server/context.ts';
import { createFeed } from './server/feed.ts';
import { createHttpApp } from './server/http.ts';
import { createPage, pageDirectory } from './server/static.ts';
import { packArchive } from './store/backup-file.ts';
import { createCaretaker } from './store/caretaker.ts';
import { createConversations } from './store/conversations.ts';
import { createFiles } from './store/files.ts';
import type { Health } from './store/health.ts';
import { createHealth, guardJournal, guardTranscripts } from './store/health.ts';
import { createSqlJournal } from './store/journal.ts';
import { migrate } from './store/migrations/index.ts';
import type { Database } from './store/database.ts';
import { makeDirectory, openDatabase } from './store/open.ts';
import { createTranscriptStore } from './store/transcripts.ts';
import { createUsageReport } from './store/usage.ts';
import { currentTime } from './tools/clock.ts';
import { rollDice } from './tools/dice.ts';
import { createSandboxTools } from './tools/hands.ts';
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
  /** The web page: false where the host has its own, a directory for another build of it. Default true. */
  page?: boolean | string;
  /** Where there is an `identity`: who may choose the model and its key for everybody. Nobody when absent. */
  maySetUp?: (caller: Caller) => boolean;
  /** Shaped like pino; sentences on the console when absent. */
  logger?: Log;
  /** Keys of models; `process.env` when absent. */
  environment?: Record<string, string | undefined>;
}

export interface Homard extends AsyncDisposable {
  /** Answers any request below the root; mounts in every host that speaks fetch. */
  fetch: Hono<ServerEnvironment>['fetch'];
  /** No model was configured at the start: the scripted demo answers. */
  isDemo: boolean;
  /** What answers where a request names no model, as it was found at the start. */
  model: string;
  /** Where commands run, for people. */
  sandbox: string;
  /** Stops runs so that another process, or the next start, goes on with them; then closes the store. */
  close(): Promise<void>;
}

const consoleLog: Log = {
  warn: (_, message) => console.warn(message),
  error: (_, message) => console.error(message),
};

const SYSTEM = `You are Homard, a helpful assistant. Answer in the language of the user. Use the tools you are given when \
they help, and say plainly when something failed or is unknown.`;

/**
 * Builds a whole server without listening. `opened` is the database of this input, where its opening has begun already;
 * it is closed with the server. Throws `config.*`, `store.*`.
 */
export async function createHomard(input: HomardInput = {}, opened?: Promise<Database>): Promise<Homard> {
  const config = toConfig(input.config ?? {}, 'The configuration');
  const { logger: log = consoleLog, environment = process.env, policy = askForWrites, middleware = [] } = input;
  const { page = true } = input;
  const { limits, window } = config;
  const setup = await createSetup({
    directory: config.data,
    config: config.models,
    environment,
    warn: (message) => log.warn({}, message),
  });
  const { router } = setup;
  const looked = input.model ? undefined : router.findLocal();
  // It must be there to be hidden.
  makeDirectory(config.data);
  const workspace = config.workspace ?? join(config.data, 'workspace');
  const hidden = [config.data, workspace, '.'].map((path) => resolve(path));
  const choosing = chooseBackend({ config: config.sandbox, environment, hidden, log });
  choosing.catch(() => undefined); // awaited below
  await using stack = new AsyncDisposableStack();
  // Should something fail before it is used.
  stack.defer(async () => await (await choosing.catch(() => undefined))?.[Symbol.asyncDispose]());
  const database = stack.use(
    await (opened ?? openDatabase({ url: input.database, directory: config.data, log, isServer: true })),
  );
  await migrate(database.kysely);
  const isEmbedded = database.kind === 'pglite';
  const health = stack.use(createHealth({ database, directory: isEmbedded ? config.data : undefined, log }));
  await health.check();
  if (isEmbedded && !health.problem()?.isReadOnly) {
    // The directory lock proves that nobody else lives: whatever was running is free at once.
    await database.kysely
      .updateTable('run')
      .set({ lease_until: new Date(0) })
      .where('status', '=', 'running')
      .execute();
  }
  const journal = guardJournal(createSqlJournal(database), health);
  const owner = { tenant: 'default', owner: 'owner' };
  const transcripts = config.transcripts
    ? stack.use(
        await openTranscripts({
          store: guardTranscripts(createTranscriptStore(database), health),
          workspace,
          single: input.identity ? undefined : owner,
          log,
        }),
      )
    : undefined;
  const secrets = pick(environment, config.sandbox.secrets, log);
  const backend = await choosing;
  const { env, perUser, total, waitSeconds, warm = totalmem() > 1e9 ? 2 : 0 } = config.sandbox;
  const sandboxes =
    backend &&
    stack.use(
      await createSandboxes({
        backend,
        directory: join(config.data, 'sandbox'),
        isAlone: isEmbedded,
        perUser,
        total,
        waitMs: waitSeconds * 1000,
        warm,
        fileBytes: config.sandbox.limits.fileBytes,
        diskBytes: config.sandbox.limits.diskBytes,
        equipment: { env, secrets },
        log,
      }),
    );
  const seal = await createSeal(config.data);
  const mask = createMask(config.mask.names);
  const stored = createConversations(database);
  const conversations = withFiles(transcripts ? withTranscripts(stored, transcripts) : stored, sandboxes, log);
  const { everyHours = isEmbedded ? 24 : 0, keep } = config.backup;
  const files = createFiles(database, join(config.data, 'files'));
  stack.use(
    createCaretaker({
      database,
      health,
      directory: config.data,
      version,
      log,
      backup: { everyHours, keep },
      conversationDays: config.retention.conversationDays,
      onRemoved: async (key) => {
        await transcripts?.remove(key);
        await sandboxes?.remove(key);
      },
      async sweepFiles(before, signal) {
        await sandboxes?.sweep(before, async (key) => (await stored.get(key)) !== undefined);
        return await files.sweep(before, signal);
      },
    }),
  );
  const feed = createFeed(conversations);
  const priceOf = createPriceTable(config.prices);
  await looked;
  const isDemo = () => !input.model && router.defaultRoute().host === DEMO;
  const assemblerWith = (own: readonly Tool[]) => {
    const tools = [...own, ...(input.tools ?? [])];
    const assistant = { name: 'assistant', system: config.system ?? SYSTEM, tools, policy, middleware, limits, window };
    return createAssembler(
      [assistant],
      (name) => input.model ?? router.resolve(name),
      (owner, { id }, signal) => files.read(owner, id, signal),
    );
  };
  // The model may be chosen while the server runs: the demo's own tool is there as long as the demo is.
  const hands = sandboxes ? createSandboxTools(sandboxes) : [];
  const assemblers = {
    demo: assemblerWith([currentTime, rollDice, ...hands]),
    real: assemblerWith([currentTime, ...hands]),
  };
  const assembler = () => (isDemo() ? assemblers.demo : assemblers.real);
  const runner = stack.use(
    createRunner({
      journal,
      worker: `${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`,
      assemble: (claim) => ({
        ...assembler().assemble(claim),
        ...(sandboxes && equip(claim, { sandboxes, secrets, seal })),
      }),
      mask,
      log,
      onChange: ({ claim, event }) => {
        if (event.type === 'run_start' || event.type === 'run_end' || event.type === 'error') feed.hint(claim);
        transcripts?.follow(claim, event);
      },
    }),
  );
  const signIn = input.identity
    ? undefined
    : await createSignIn({ directory: config.data, owner, ...(input.token !== undefined && { token: input.token }) });
  const isFor = signIn ? () => true : input.maySetUp;
  const app = createHttpApp({
    runner,
    usage: createUsageReport(database),
    priceOf,
    journal,
    conversations,
    files,
    ...(sandboxes && { sandboxes }),
    seal,
    mask,
    feed,
    log,
    identity: input.identity ?? signIn!.identity,
    ...(signIn && { signIn }),
    resolve: (wanted) => assembler().resolve(wanted),
    listModels: () => (input.model ? Promise.resolve(listOf(input.model)) : router.list()),
    ...(isFor && !input.model && { setup: { models: setup, isFor } }),
    ...(page !== false && { page: createPage(page === true ? pageDirectory() : page) }),
    care: {
      health,
      ...(signIn && {
        pack: ({ hasSecrets }) => packArchive(database, { directory: config.data, version, hasSecrets }),
      }),
    },
    isReachable: () => isReachable(database, health),
    describe: () => ({
      version,
      store: database.kind,
      models: router.describe(),
      activeRuns: runner.activeCount(),
      sandbox: sandboxes ? { ...describeBackend(sandboxes.backend), ...sandboxes.stats() } : { kind: 'off' },
    }),
    config: {
      bodyLimitBytes: config.bodyLimitBytes,
      fileLimitBytes: config.fileLimitBytes,
      heartbeatMs: config.heartbeatSeconds * 1000,
      backlogBytes: config.backlogBytes,
      origins: config.hosts,
      hosts: signIn ? ['localhost', '127.0.0.1', '[::1]', config.host, ...config.hosts] : null,
    },
  });
  await runner.sweep();
  const owned = stack.move();
  const close = () => owned.disposeAsync();
  const model = input.model?.name ?? router.describe().default;
  const sandbox = backend ? `${backend.description} (isolation: ${backend.capabilities.isolation})` : 'off';
  return { fetch: app.fetch, isDemo: isDemo(), model, sandbox, close, [Symbol.asyncDispose]: close };
}

/** The named variables that are there. */
function pick(
  environment: Record<string, string | undefined>,
  names: readonly string[],
  log: Log,
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const value = environment[name];
    if (value) found[name] = value;
    else log.warn({}, `sandbox.secrets names ${name}, which is not in the environment: commands do not get it.`);
  }
  return found;
}

/** Where the host gives the model, it is the only one. */
function listOf({ name }: Model): ModelsList {
  return { default: name, isDemo: false, models: [{ name, host: 'embedded' }], hosts: [] };
}

async function isReachable(database: Database, health: Health): Promise<boolean> {
  const answer = database.exec('homard_health', 'select 1', []).then(
    () => true,
    (error: unknown) => {
      health.observe(error);
      return false;
    },
  );
  return await Promise.race([answer, sleep(2000, false, { ref: false })]);
}
