// homard doctor: looks at everything that a server needs, and says of each what is wrong and what to do.
import type { Log, Model } from '../kernel/index.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import type { SandboxConfig } from '../sandbox/config.ts';
import { parseArguments } from './backup.ts';
import { inspectBackups, inspectDatabase, inspectDirectoryOf } from './doctor-data.ts';
import { inspectModel, inspectPort, inspectRuntime } from './doctor-host.ts';
import { inspectSandbox } from './doctor-sandbox.ts';

export interface Finding {
  name: string;
  state: 'ok' | 'warning' | 'problem';
  message: string;
  /** What to do; absent when all is well. */
  hint?: string;
}

/** What of the configuration is looked at. */
export interface DoctorConfig {
  directory: string;
  databaseUrl: string | undefined;
  host: string;
  port: number;
  sandbox: SandboxConfig;
  /** The file that was read. */
  file: string | undefined;
}

export interface RunningServer {
  pid: number;
  address: string;
  token: string | undefined;
}

export interface DoctorPlan {
  /** What follows `doctor` on the command line. */
  arguments: string[];
  version: string;
  /** Reads the configuration; throws what is wrong with it. */
  load: () => DoctorConfig;
  /** The server that says to run on this data directory. */
  findServer: () => Promise<RunningServer | undefined>;
  /** What answers where a request names no model. */
  findModel: () => Promise<Model>;
  log: Log;
}

/** A look that fails in a way it did not expect is a problem, too. */
export type Collect = (name: string, look: () => Promise<Omit<Finding, 'name'>>) => Promise<void>;

/** Resolves to the exit code: 1 where there is a problem. */
export async function doctor(plan: DoctorPlan): Promise<number> {
  const { values } = parseArguments(plan.arguments, {
    json: { type: 'boolean' },
    deep: { type: 'boolean' },
    'no-call': { type: 'boolean' },
  });
  const findings: Finding[] = [];
  const collect: Collect = async (name, look) => {
    const found = await look().catch(toProblem);
    findings.push({ name, ...found });
    if (!values.json) print(findings.at(-1)!);
  };
  await collect('Node.js', inspectRuntime);
  let config: DoctorConfig | undefined;
  await collect('configuration', async () => {
    config = plan.load();
    return { state: 'ok', message: config.file ?? 'defaults and the environment' };
  });
  if (config) {
    const server = await plan.findServer();
    await inspectDirectoryOf(config, collect);
    await inspectDatabase({ config, server, version: plan.version, isDeep: values.deep === true, collect });
    await inspectBackups(config, { collect, isDeep: values.deep === true });
    await inspectSandbox(config.sandbox, { collect, hidden: [config.directory, process.cwd()], log: plan.log });
    await collect('port', () => inspectPort(config!, server));
    if (!values['no-call']) await collect('model', () => inspectModel(plan.findModel));
  }
  if (values.json) console.log(JSON.stringify({ version: plan.version, findings }, null, 2));
  return findings.some(({ state }) => state === 'problem') ? 1 : 0;
}

export function toProblem(error: unknown): Omit<Finding, 'name'> {
  const hint = error instanceof AgentError ? `${error.hint} (${error.code})` : undefined;
  return { state: 'problem', message: messageOf(error), ...(hint !== undefined && { hint }) };
}

function print({ name, state, message, hint }: Finding): void {
  console.log(`${state.padEnd(8)} ${name.padEnd(14)} ${message}`);
  if (hint !== undefined) console.log(`${''.padEnd(23)} ${hint}`);
}
