#!/usr/bin/env node
// homard start | migrate | link
import type { Server } from 'node:http';
import { relative } from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { pino } from 'pino';
import { createSignInCode, tokenFileIn } from './access/sign-in.ts';
import { createHomard } from './app.ts';
import type { Config } from './config.ts';
import { loadConfig } from './config.ts';
import { AgentError, defineErrors, messageOf } from './kernel/index.ts';
import { migrate } from './store/migrations/index.ts';
import { openDatabase } from './store/open.ts';
import { version } from './version.ts';

const cliError = defineErrors('cli', {
  unknown_command: { status: 400, hint: 'Commands: start, migrate, link. See "homard --help".' },
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
  homard migrate   bring the database to this version, and end
  homard link      print a one-time sign-in link for the running server

Configuration: homard.config.yaml, or the environment: HOMARD_PORT, HOMARD_HOST, HOMARD_DATA, HOMARD_DATABASE_URL,
HOMARD_TOKEN; keys of models: OPENAI_API_KEY, OPENAI_BASE_URL, DEEPSEEK_API_KEY, DASHSCOPE_API_KEY.
--debug prints the stack of an error.`;

const log = pino(
  { level: process.env.HOMARD_LOG ?? 'warn', name: 'homard' },
  pino.destination({ dest: 2, sync: true }),
);

async function main(arguments_: string[]): Promise<void> {
  const command = arguments_.find((argument) => !argument.startsWith('-')) ?? 'start';
  if (arguments_.includes('--help') || command === 'help') return console.log(HELP);
  if (arguments_.includes('--version')) return console.log(version);
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
  const homard = await createHomard({
    config: rest,
    logger: log,
    ...(databaseUrl !== undefined && { database: databaseUrl }),
    ...(token !== undefined && { token }),
  });
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
  if (homard.isDemo) console.log(DEMO);
  if (!isLoopback(config.host)) {
    console.warn(
      `Warning: ${config.host} is reachable by others. Put TLS in front of it, or set HOMARD_HOST=127.0.0.1.`,
    );
  }

  let isStopping = false;
  const stop = async () => {
    if (isStopping) process.exit(1);
    isStopping = true;
    server.close();
    await homard.close();
    server.closeAllConnections();
    process.exit(0);
  };
  const onSignal = () => void stop().catch(die);
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
}

async function runMigrations(config: Config): Promise<void> {
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
DEEPSEEK_API_KEY or DASHSCOPE_API_KEY, or OPENAI_BASE_URL for a local server, and start again.`;

const linkTo = (address: string, code: string) => `${address}/sign-in?code=${code}`;

function die(error: unknown): never {
  if (error instanceof AgentError) console.error(`${error.message}\n${error.hint} (${error.code})`);
  else console.error(messageOf(error));
  if (process.argv.includes('--debug')) console.error(error);
  process.exit(1);
}

await main(process.argv.slice(2)).catch(die);
