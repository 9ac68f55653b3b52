// Measures Homard on both back ends beside a raw proxy and a bare AI SDK server, in one run on one machine (Linux).
//   npm run bench -- [--quick] [--json] [--only homard-embedded,aisdk] [--rows plain50,start] [--profile]
//   npm run bench -- --sandbox     sandboxes instead (sandbox.ts), for docker: scripts/dockerd.sh npm run bench -- --sandbox
// The server under test has core 0; model, client and this process share core 1. Exit code 1 when the gate fails.
// --json prints one object, subject -> metric -> value. HOMARD_BENCH_DATABASE_URL names another PostgreSQL.
import { fork, type ChildProcess } from 'node:child_process';
import fs from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freePort, pin, start, stopAll } from './process.ts';
import { createSamples, formatTable, judge, type Results } from './report.ts';
import { measureAll, rowNames, type Pace } from './rounds.ts';
import { measureSandboxes } from './sandbox.ts';
import { createSubject, subjectNames, type Subject } from './subjects.ts';

const SERVER_CORE = '0';
const CLIENT_CORE = '1';

const full: Pace = {
  rounds: 3,
  growthRounds: 2,
  seconds: 2.5,
  warmSeconds: 3,
  warmClients: 50,
  starts: 3,
  newRoundMs: 200_000,
  isWhole: true,
};
const quick: Pace = {
  rounds: 2,
  growthRounds: 1,
  seconds: 0.4,
  warmSeconds: 0.3,
  warmClients: 10,
  starts: 1,
  newRoundMs: 25_000,
  isWhole: false,
};

const options = readOptions();
const missing: string[] = [];
const givenUp = new AbortController();
const cleanups: (() => Promise<unknown>)[] = [];
let cleaned: Promise<void> | undefined;
let client: ChildProcess | undefined;

function readOptions() {
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    options: {
      quick: flag,
      json: flag,
      profile: flag,
      sandbox: flag,
      only: { type: 'string' },
      rows: { type: 'string' },
    },
  });
  return {
    ...values,
    only: pick(values.only, subjectNames, '--only'),
    rows: pick(values.rows, rowNames, '--rows'),
  };
}

function pick<T extends string>(list: string | undefined, known: readonly T[], option: string): T[] {
  const wanted = list?.split(',') ?? known;
  const strange = wanted.filter((name) => !known.some((it) => it === name));
  if (strange.length > 0) throw new Error(`${option} ${strange.join()}: known are ${known.join()}`);
  return known.filter((name) => wanted.includes(name));
}

function say(text: string): void {
  console.error(text);
}

async function main(): Promise<string[]> {
  if (options.sandbox) {
    await measureSandboxes(say);
    return [];
  }
  if (os.availableParallelism() < 2) throw new Error('two cores are needed: one for the server, one for its clients');
  pin(process.pid, CLIENT_CORE);
  const directory = await fs.mkdtemp(join(os.tmpdir(), 'homard-bench-'));
  cleanups.push(() => fs.rm(directory, { recursive: true, force: true }));
  const profileDirectory = options.profile ? await fs.mkdtemp(join(os.tmpdir(), 'homard-profile-')) : undefined;

  const port = await freePort();
  const mock = await start({
    args: [join(import.meta.dirname, 'mock-model.ts')],
    cores: CLIENT_CORE,
    port,
    env: { ...process.env, PORT: String(port) },
    logFile: join(directory, 'mock.log'),
  });
  client = fork(join(import.meta.dirname, 'load.ts')); // on the core of this process
  const subjects = await startSubjects(directory, port, profileDirectory);
  const samples = createSamples();
  const rig = { subjects, mock, client, samples, signal: givenUp.signal, say };
  await measureAll(rig, options.quick ? quick : full, options.rows);
  await cleanUp();

  const results = samples.summary();
  console.log(options.json ? JSON.stringify(results) : `\n${formatTable(results)}\n`);
  return profileDirectory ? tellProfiles(profileDirectory) : verdict(results);
}

async function startSubjects(directory: string, modelPort: number, profileDirectory?: string): Promise<Subject[]> {
  const surroundings = {
    core: SERVER_CORE,
    allCores: `${SERVER_CORE},${CLIENT_CORE}`,
    modelUrl: `http://127.0.0.1:${modelPort}/v1`,
    directory,
    databaseUrl: process.env['HOMARD_BENCH_DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
    onCleanUp: (cleanup: () => Promise<unknown>) => cleanups.push(cleanup),
    profileDirectory,
  };
  const begun = performance.now();
  const attempts = await Promise.allSettled(options.only.map((name) => createSubject(name, surroundings)));
  say(`started in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  for (const [i, attempt] of attempts.entries()) {
    if (attempt.status === 'fulfilled') continue;
    say(`${options.only[i]}: ${String(attempt.reason)}`);
    missing.push(`${options.only[i]}: could not be started, see above`);
  }
  return attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []));
}

function verdict(results: Results): string[] {
  const { held, failures } = judge(results);
  say(`gate: ${held} rows hold, ${failures.length} fail`);
  return [...missing, ...failures];
}

async function tellProfiles(directory: string): Promise<string[]> {
  for (const entry of await fs.readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) say(`profile: ${join(entry.parentPath, entry.name)}`);
  }
  say('no gate: a server that is being profiled is no fair match');
  return missing;
}

/** Whatever happens, no process, database or directory of ours stays behind. */
function cleanUp(): Promise<void> {
  cleaned ??= (async () => {
    client?.kill();
    for (const cleanup of [stopAll, ...cleanups.toReversed()]) {
      await cleanup().catch((cause: unknown) => say(`clean-up: ${String(cause)}`));
    }
  })();
  return cleaned;
}

function giveUp(why: string): void {
  givenUp.abort(why);
  void cleanUp().finally(() => process.exit(1));
}

process.once('SIGINT', () => giveUp('interrupted'));
process.once('SIGTERM', () => giveUp('terminated'));
process.once('uncaughtException', (cause) => giveUp(cause.stack ?? String(cause)));
const limitMs = options.quick ? 120_000 : 600_000;
setTimeout(() => giveUp(`took longer than ${limitMs / 1000} s`), limitMs).unref();

try {
  const failures = await main();
  for (const failure of failures) say(`FAILED ${failure}`);
  process.exitCode = failures.length > 0 ? 1 : 0;
} catch (cause) {
  say(String(givenUp.signal.reason ?? cause));
  process.exitCode = 1;
} finally {
  await cleanUp();
}
