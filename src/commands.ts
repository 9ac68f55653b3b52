// homard start | chat | migrate | link. What a start does not need before its database is loaded while that opens.
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
  unknown_command: { status: 400, hint: 'Commands: start, chat, migrate, link. See "homard --help".' },
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
  homard chat      talk at the terminal, with the running server or without one: homard chat [--conversation NAME | --new]
                   [--model NAME] [text]
  homard migrate   bring the database to this version, and end
  homard link      print a one-time sign-in link for the running server

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
  if (command === 'chat') return await startChat(arguments_.slice(arguments_.indexOf('chat') + 1), loadConfig());
  const unknown = arguments_.find((argument) => argument.startsWith('-') && !OPTIONS.has(argument));
  if (unknown !== undefined) throw cliError('unknown_option', `"${unknown}" is not an option of homard.`);
  const config = loadConfig();
  switch (command) {
    case 'start':
      return await start(config);
    case 'migrate':
      return await runMigrations(config);
    case 'link':
      return console.log(linkTo(addressOf(config, config.port), await createSignInCode(config.data)));
    default:
      throw cliError('unknown_command', `"${command}" is not a command of homard.`);
  }
}

async function start(config: Config): Promise<void> {
  const { databaseUrl, token, file: _, ...rest } = config;
  const store = await loadDatabase({ url: databaseUrl, directory: config.data, log });
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
  console.log(`Sign in (once, within 15 minutes): ${linkTo(address, await createSignInCode(config.data))}`);
  console.log(`Try it: ${curlOf(address, config)}`);
  console.log(homard.isDemo ? DEMO : `Model: ${homard.model}`);
  if (!isLoopback(config.host)) {
    console.warn(
      `Warning: ${config.host} is reachable by others. Put TLS in front of it, or set HOMARD_HOST=127.0.0.1.`,
    );
  }

  await saveServerFile(config.data, { pid: process.pid, address });
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
}

/** With the running server, else with one in this process, which its caller owns. */
async function startChat(given: string[], config: Config): Promise<void> {
  const { chat } = await import('./commands/chat.ts');
  const { databaseUrl, token, file: _, ...rest } = config;
  const running = await loadServerFile(config.data);
  const server = running && { address: running.address, token: token ?? (await loadToken(config.data)) };
  const open = async () => {
    const { createHomard } = await import('./app.ts');
    const identity = () => ({ tenant: 'default', owner: 'owner' });
    return await createHomard({ config: rest, database: databaseUrl, identity, logger: log });
  };
  process.exit(await chat({ arguments: given.filter((argument) => argument !== '--debug'), server, open }));
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

const DEMO = `No model is configured, so a scripted demo answers, with real tools. For a real one set OPENAI_API_KEY,
DEEPSEEK_API_KEY or DASHSCOPE_API_KEY, or OPENAI_BASE_URL for a local server, and start again; a running Ollama with a
model is found by itself.`;

const linkTo = (address: string, code: string) => `${address}/sign-in?code=${code}`;

function die(error: unknown): never {
  if (error instanceof AgentError) console.error(`${error.message}\n${error.hint} (${error.code})`);
  else console.error(messageOf(error));
  if (process.argv.includes('--debug')) console.error(error);
  process.exit(1);
}
