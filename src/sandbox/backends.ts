// Which back end a server has: the configured one, or the first that works here.
import type { Log } from '../kernel/index.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import type { SandboxConfig } from './config.ts';
import { sandboxError } from './errors.ts';
import type { Backend, BackendConfig, CreateBackend, SandboxKind } from './sandbox.ts';
import { isolations } from './sandbox.ts';

const load: Record<SandboxKind, () => Promise<CreateBackend>> = {
  bwrap: async () => (await import('./bwrap.ts')).createBwrapBackend,
  unshare: async () => (await import('./unshare.ts')).createUnshareBackend,
  docker: async () => (await import('./docker.ts')).createDockerBackend,
  e2b: async () => (await import('./e2b.ts')).createE2bBackend,
  virtual: async () => (await import('./virtual.ts')).createVirtualBackend,
  local: async () => (await import('./local.ts')).createLocalBackend,
};

/** What `auto` tries, in order. Docker is not among them: its socket is root on the host, which nobody asked for. */
export const automatic = ['bwrap', 'unshare', 'virtual'] as const satisfies readonly SandboxKind[];

interface Environment {
  config: SandboxConfig;
  environment: Record<string, string | undefined>;
  /** As in `BackendConfig`. */
  hidden?: readonly string[];
  log: Log;
}

/** Makes one back end, which tries itself. Rejects with `sandbox.unavailable` or `sandbox.refused`. */
export async function createBackend(kind: SandboxKind, given: Environment): Promise<Backend> {
  const { config, environment, hidden = [], log } = given;
  if (kind === 'local') refuseLocal(config, environment);
  const { limits, network, docker, e2b } = config;
  const { apiKeyEnv, template, apiUrl, sandboxUrl } = e2b;
  const apiKey = environment[apiKeyEnv];
  const made: BackendConfig = {
    limits,
    network,
    hidden,
    docker: defined(docker),
    e2b: defined({ template, apiUrl, sandboxUrl, apiKey }),
    log,
  };
  const create = await load[kind]();
  const backend = await create(made);
  if (kind === 'local') {
    log.warn(
      {},
      'The sandbox is "local": commands run as the user of this server, with all its rights and files. Set sandbox.kind to auto for an isolated one.',
    );
  }
  return backend;
}

export function describeBackend({
  kind,
  description,
  capabilities,
}: Pick<Backend, 'kind' | 'description' | 'capabilities'>) {
  return { kind, description, ...capabilities };
}

/**
 * The back end of the configuration; undefined where it is off. Rejects with `sandbox.unavailable` and
 * `sandbox.refused`: nothing weaker takes its place.
 */
export async function chooseBackend(given: Environment): Promise<Backend | undefined> {
  const { kind, requireIsolation } = given.config;
  if (kind === 'off') return undefined;
  const backend = kind === 'auto' ? await firstThatWorks(given) : await createBackend(kind, given);
  const { isolation } = backend.capabilities;
  if (isolations.indexOf(isolation) >= isolations.indexOf(requireIsolation)) return backend;
  await backend[Symbol.asyncDispose]();
  throw sandboxError(
    'refused',
    `sandbox.requireIsolation is "${requireIsolation}", and ${backend.description} isolates only by "${isolation}".`,
  );
}

async function firstThatWorks(given: Environment): Promise<Backend> {
  const refusals: string[] = [];
  for (const kind of automatic) {
    try {
      return await createBackend(kind, given);
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== 'sandbox.unavailable') throw error;
      refusals.push(`${kind}: ${messageOf(error)}`);
    }
  }
  throw sandboxError('unavailable', `No sandbox works here. ${refusals.join(' ')}`);
}

function refuseLocal({ local }: SandboxConfig, environment: Environment['environment']): void {
  if (!local.iKnowThisIsNoSandbox) {
    throw sandboxError(
      'refused',
      'sandbox.kind "local" isolates nothing: commands of the model run with all rights of this server. Say so with sandbox.local.iKnowThisIsNoSandbox: true.',
    );
  }
  if (environment.NODE_ENV === 'production' && !local.inProduction) {
    throw sandboxError(
      'refused',
      'sandbox.kind "local" is not for production (NODE_ENV). If it must be, set sandbox.local.inProduction: true.',
    );
  }
}

/** Without the keys that are undefined. */
function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, given]) => given !== undefined)) as never;
}
