// homard start | init | chat | migrate | link. What a start does not need before its database is loaded while that opens.
import type { Server } from 'node:http';
import { relative } from 'node:path';
import { pino } from 'pino';
import { createSignInCode, loadToken, tokenFileIn } from './access/sign-in.ts';
import type { Config } from './config.ts';
import { loadConfig } from './config.ts';
import { returnMemoryWhenIdle } from './idle.ts';
import { AgentError, defineErrors, messageOf } from './kernel/index.ts';
import { loadServerFile, removeServerFile, saveServerFile } from './server-file.ts';
import { loadDatabase, openDatabase } from './store/open.ts';
import { version } from './version.ts';

export const cliError = defineErrors('cli', {
  unknown_command: {
    status: 400,
    hint: 'Commands: start, init, chat, migrate, link, backup, restore, grow, doctor. See "homard --help".',
  },
  unknown_option: {
    status: 400,
    hint: 'Settings come from homard.config.yaml or the environment. See "homard --help".',
  },
  port_in_use: { status: 500, hint: 'Stop the other program, or choose another port: HOMARD_PORT=4681 npm start.' },
  cannot_listen: { status: 500, hint: 'Choose an address of this machine in HOMARD_HOST.' },
});

const OPTIONS = new Set(['--help', '--version', '--debug']);

const HELP = `homard ${version}: a durable, governed agent server

  homard start     start the server (default)
  homard init      choose the model: provider, key and name, tried by a live call
  homard chat      talk at the terminal, with the running server or without one: homard chat [--conversation NAME | --new]
                   [--model NAME] [text]
  homard migrate   bring the database to this version, and end
  homard link      print a one-time sign-in link for the running server
  homard backup    everything in one file, also while the server runs: homard backup [file] [--with-secrets]
  homard restore   a backup to an empty place: homard restore <file> [--replace], which keeps aside what is there
  homard grow      move the embedded database to PostgreSQL: homard grow postgres://user:password@host:5432/database
  homard doctor    look at everything a server needs, and say what to do: [--deep] [--no-call] [--json]

Configuration: homard.config.yaml, or the environment: HOMARD_PORT, HOMARD_HOST, HOMARD_DATA, HOMARD_DATABASE_URL,
HOMARD_TOKEN; keys of models: OPENAI_API_KEY, OPENAI_BASE_URL, DEEPSEEK_API_KEY, DASHSCOPE_API_KEY.
Without one a running Ollama answers (OLLAMA_HOST), else a scripted demo.
--debug prints the stack of an error.`;

const log = pino(
  { level: process.env.HOMARD_LOG ?? 'warn', name: 'homard' },
  pino.destination({ dest: 2, sync: true }),
);

/** Runs a command; prints what went wrong, and ends the process with 1 then. */
export async function main(arguments_: string[]): Promise<void> {
  await run(arguments_).catch(die);
}

async function run(arguments_: string[]): Promise<void> {
  const command = arguments_.find((argument) => !argument.startsWith('-')) ?? 'start';
  if (arguments_.includes('--help') || command === 'help') return console.log(HELP);
  if (arguments_.includes('--version')) return console.log(version);
  const given = arguments_.slice(arguments_.indexOf(command) + 1).filter((argument) => argument !== '--debug');
  if (command === 'chat') return await startChat(given, loadConfig());
  if (command === 'init') return await startInit(given, loadConfig());
  const care = Object.hasOwn(caring, command) ? caring[command] : undefined;
  if (care) return await care(given);
  const unknown = arguments_.find((argument) => argument.startsWith('-') && !OPTIONS.has(argument));
  if (unknown !== undefined) throw cliError('unknown_option', `"${unknown}" is not an option of homard.`);
  const config = loadConfig();
  switch (command) {
    case 'start':
      return await start(config);
    case 'migrate':
      return await runMigrations(config);
    case 'link':
      return await printLink(config);
    default:
      throw cliError('unknown_command', `"${command}" is not a command of homard.`);
  }
}

/** Commands that care for the data; each reads its own arguments. */
const caring: Record<string, (given: string[]) => Promise<void>> = {
  async backup(given) {
    const { backup } = await import('./commands/backup.ts');
    const config = loadConfig();
    const { data, databaseUrl } = config;
    await backup({ arguments: given, directory: data, databaseUrl, version, findServer: () => namedServer(config) });
  },
  async restore(given) {
    const { restore } = await import('./commands/restore.ts');
    const { data, databaseUrl } = loadConfig();
    await restore({ arguments: given, directory: data, databaseUrl });
  },
  async grow(given) {
    const { grow } = await import('./commands/grow.ts');
    await grow({ arguments: given, directory: loadConfig().data });
  },
  async doctor(given) {
    const { doctor } = await import('./commands/doctor.ts');
    const { createSetup } = await import('./models/setup.ts');
    const load = () => {
      const { data, ...config } = loadConfig();
      return { ...config, directory: data };
    };
    const findModel = async () => {
      const { data, models } = loadConfig();
      const warn = (message: string) => log.warn(message);
      const { router } = await createSetup({ directory: data, config: models, environment: process.env, warn });
      await router.findLocal();
      return router.resolve();
    };
    const plan = { arguments: given, version, load, findModel, log, findServer: () => namedServer(loadConfig()) };
    process.exit(await doctor(plan));
  },
};

/** The server that says to run on this data directory, whether it answers or not, with the token of its owner. */
async function namedServer({ data, token }: Config) {
  const running = await loadServerFile(data);
  return running && { ...running, token: token ?? (await loadToken(data)) };
}

async function start(config: Config): Promise<void> {
  const { databaseUrl, token, file: _, ...rest } = config;
  const store = await loadDatabase({ url: databaseUrl, directory: config.data, log, isServer: true });
  const opening = store.open();
  opening.catch(() => undefined); // createHomard() tells it
  const [{ createHomard }, { createAdaptorServer }] = await Promise.all([
    import('./app.ts'),
    import('@hono/node-server'),
  ]);
  const input = { config: rest, logger: log, ...(token !== undefined && { token }) };
  const homard = await createHomard(input, opening);
  const server = createAdaptorServer({ fetch: homard.fetch }) as Server;
  try {
    await listen(server, config);
  } catch (error) {
    await homard.close();
    throw error;
  }
  const bound = server.address();
  const address = addressOf(config, typeof bound === 'object' && bound ? bound.port : config.port);
  console.log(`Homard ${version} listens on ${address}`);
  const warn = (what: string) => (error: unknown) => console.warn(`Warning: ${what}: ${messageOf(error)}`);
  // On a full disk the server starts all the same, and says so.
  await createSignInCode(config.data)
    .then((code) => console.log(`Sign in (once, within 15 minutes): ${linkTo(address, code)}`))
    .catch(warn('there is no sign-in link'));
  console.log(`Try it: ${curlOf(address, config)}`);
  console.log(homard.isDemo ? DEMO : `Model: ${homard.model}`);
  console.log(`Sandbox: ${homard.sandbox}`);
  if (!isLoopback(config.host)) {
    console.warn(
      `Warning: ${config.host} is reachable by others. Put TLS in front of it, or set HOMARD_HOST=127.0.0.1.`,
    );
  }

  await saveServerFile(config.data, { pid: process.pid, address }).catch(
    warn('other commands of this machine will not find this server'),
  );
  returnMemoryWhenIdle();

  let isStopping = false;
  const stop = async () => {
    if (isStopping) process.exit(1);
    isStopping = true;
    server.close();
    await homard.close();
    server.closeAllConnections();
    await removeServerFile(config.data);
    process.exit(0);
  };
  const onSignal = () => void stop().catch(die);
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  // Else it opens a debugger for whoever may send it, such as a command in a sandbox that isolates little.
  process.on('SIGUSR1', () => undefined);
}

async function startChat(given: string[], config: Config): Promise<void> {
  const { chat } = await import('./commands/chat.ts');
  const { databaseUrl, token, file: _, ...rest } = config;
  const open = async () => {
    const { createHomard } = await import('./app.ts');
    const input = { config: rest, database: databaseUrl, logger: log, ...(token !== undefined && { token }) };
    const { fetch, close } = await createHomard(input);
    return { fetch, close, token: token ?? (await loadToken(config.data)) };
  };
  process.exit(await chat({ arguments: given, server: await findServer(config), open }));
}

async function startInit(given: string[], config: Config): Promise<void> {
  const { init } = await import('./commands/init.ts');
  const { data: directory, models } = config;
  const server = await findServer(config);
  process.exit(await init({ arguments: given, server, directory, config: models, environment: process.env }));
}

/** The server that runs on this data directory on this machine. */
async function findServer({
  data,
  token,
}: Config): Promise<{ address: string; token: string | undefined } | undefined> {
  const { isServer } = await import('./terminal/client.ts');
  const running = await loadServerFile(data);
  if (!running || !(await isServer(running.address))) return undefined;
  return { address: running.address, token: token ?? (await loadToken(data)) };
}

async function printLink(config: Config): Promise<void> {
  const running = await loadServerFile(config.data);
  console.log(linkTo(running?.address ?? addressOf(config, config.port), await createSignInCode(config.data)));
}

async function runMigrations(config: Config): Promise<void> {
  const { migrate } = await import('./store/migrations/index.ts');
  await using database = await openDatabase({ url: config.databaseUrl, directory: config.data, log });
  const applied = await migrate(database.kysely);
  console.log(applied.length ? `Applied: ${applied.join(', ')}` : 'The database is up to date.');
}

function listen(server: Server, { host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const kind = error.code === 'EADDRINUSE' ? 'port_in_use' : 'cannot_listen';
      const message =
        kind === 'port_in_use' ? `Port ${port} of ${host} is in use.` : `Cannot listen on ${host}:${port}.`;
      reject(cliError(kind, message, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}

const isLoopback = (host: string) => /^(?:localhost|127\..*|::1)$/.test(host);

function addressOf({ host }: Config, port: number): string {
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${port}`;
}

function curlOf(address: string, { token, data }: Config): string {
  const bearer = token === undefined ? `$(cat ${relative('', tokenFileIn(data))})` : '$HOMARD_TOKEN';
  const headers = `-H "Authorization: Bearer ${bearer}" -H "Content-Type: application/json"`;
  return `curl -N ${address}/chat/stream ${headers} -d '{"query":"Hello! What time is it?"}'`;
}

const DEMO = `No model is configured, so a scripted demo answers, with real tools. For a real one choose it in the page or with
"homard init", or set OPENAI_API_KEY, DEEPSEEK_API_KEY or DASHSCOPE_API_KEY, or OPENAI_BASE_URL for a local server, and
start again; a running Ollama with a model is found by itself.`;

const linkTo = (address: string, code: string) => `${address}/sign-in?code=${code}`;

function die(error: unknown): never {
  if (error instanceof AgentError) console.error(`${error.message}\n${error.hint} (${error.code})`);
  else console.error(messageOf(error));
  if (process.argv.includes('--debug')) console.error(error);
  process.exit(1);
}
