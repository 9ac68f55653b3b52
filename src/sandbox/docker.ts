// Containers of Docker, one for each sandbox, of an image that is there already.
import { commandUser } from './server-process.ts';
import type Docker from 'dockerode';
import { chown, mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeTree } from '../files/remove-tree.ts';
import { messageOf } from '../kernel/index.ts';
import type { Engine } from './docker/container.ts';
import { ASK_MS, connect, statusOf, within } from './docker/daemon.ts';
import { openExecution } from './docker/execution.ts';
import { reap, retry } from './docker/removal.ts';
import { sandboxError } from './errors.ts';
import type { Backend, BackendConfig, CreateBackend, ExecResult, Execution, Slot } from './sandbox.ts';

/** Of which a model is told whether the image has them. */
const programs = ['python3', 'node', 'git', 'jq', 'curl'];
const PROBE_MS = 10_000;
const RETRY_MS = 15_000;

export const createDockerBackend: CreateBackend = async (config) => {
  const { image: name, socket } = config.docker;
  if (!name) {
    throw sandboxError('unavailable', 'No image is configured for the sandbox "docker".', {
      hint: 'Set sandbox.docker.image to an image that has bash and is there already, best by its digest.',
    });
  }
  const docker = await connect(socket);
  const { version, cpus } = await askDaemon(docker, socket);
  const image = await findImage(docker, name);
  if (!isPinned(name, image.id)) {
    config.log.warn(
      { image: name, id: image.id },
      `The image ${name} of the sandbox is not pinned: another one may have this name tomorrow. Set sandbox.docker.image to its digest, or to ${image.id}.`,
    );
  }
  const owner = crypto.randomUUID();
  const engine: Engine = { docker, owner, image, cpus, config, live: new Set(), stuck: new Set() };
  const found = await probe(engine, name);
  return createBackend(engine, { description: `Docker ${version}, image ${name}`, advice: toAdvice(found, config) });
};

function createBackend(engine: Engine, words: Pick<Backend, 'description' | 'advice'>): Backend {
  const executions = new Set<Promise<Execution>>();
  const disposed = new AbortController();
  const retrying = setInterval(() => void retry(engine), RETRY_MS).unref();
  return {
    kind: 'docker',
    ...words,
    capabilities: {
      isolation: 'container',
      hasPrograms: true,
      hasNetwork: engine.config.network === 'host',
      keepsBackground: true,
      killsAll: true,
      memoryLimit: 'total',
      diskLimit: 'total',
      hasProcessLimit: true,
    },
    opensEmpty: false,
    async open(slot, signal) {
      const opening = openExecution(engine, slot, AbortSignal.any([signal, disposed.signal]));
      executions.add(opening);
      try {
        const execution = await opening;
        const close = () => execution.close().finally(() => executions.delete(opening));
        return { exec: execution.exec, close };
      } catch (error) {
        executions.delete(opening);
        throw error;
      }
    },
    reap: () => reap(engine),
    async [Symbol.asyncDispose]() {
      disposed.abort();
      clearInterval(retrying);
      // What does not open leaves nothing.
      await Promise.allSettled([...executions].map(async (opening) => (await opening).close()));
    },
  };
}

async function askDaemon(docker: Docker, socket: string | undefined): Promise<{ version: string; cpus: number }> {
  try {
    const info: unknown = await within(ASK_MS, () => docker.info());
    const { ServerVersion: version, NCPU: cpus } = Object(info) as Record<string, unknown>;
    return { version: String(version), cpus: typeof cpus === 'number' ? cpus : 1 };
  } catch (cause) {
    const where = socket ?? process.env.DOCKER_HOST ?? 'its usual socket';
    throw sandboxError('unavailable', `The Docker daemon at ${where} does not answer: ${messageOf(cause).trim()}`, {
      cause,
      hint: 'Start it, let this user open its socket, and set sandbox.docker.socket where it is elsewhere.',
    });
  }
}

async function findImage(docker: Docker, name: string): Promise<Engine['image']> {
  try {
    const { Id: id, Config } = await within(ASK_MS, () => docker.getImage(name).inspect());
    const volumes = Object.keys(Config?.Volumes ?? {}).filter((path) => !/^\/(workspace|tmp)\/?$/.test(path));
    return { id, volumes };
  } catch (cause) {
    if (statusOf(cause) !== 404) {
      throw sandboxError('unavailable', `The image ${name} cannot be looked at: ${messageOf(cause).trim()}`, { cause });
    }
    throw sandboxError('unavailable', `The image ${name} is not on this machine, and nothing is fetched unasked.`, {
      cause,
      hint: `Get it: docker pull ${name}`,
    });
  }
}

function isPinned(name: string, id: string): boolean {
  if (/@sha256:[0-9a-f]{64}$/.test(name)) return true;
  return /^(sha256:)?[0-9a-f]{12,64}$/.test(name) && id.replace('sha256:', '').startsWith(name.replace('sha256:', ''));
}

/** Runs a first command: tells what the image has, and whether container and server have the same folders. */
async function probe(engine: Engine, name: string): Promise<Set<string>> {
  const directory = await mkdtemp(join(tmpdir(), 'homard-docker-'));
  const token = crypto.randomUUID();
  try {
    const slot: Slot = { id: 'probe', directory };
    for (const folder of ['ws', 'tmp']) {
      await mkdir(join(directory, folder));
      if (process.getuid?.() === 0) await chown(join(directory, folder), commandUser.uid, commandUser.gid);
    }
    const script = `printf ${token} > /workspace/token; command -v ${programs.join(' ')}; true`;
    const execution = await openExecution(engine, slot, AbortSignal.timeout(30_000));
    const { stdout, exitCode } = await runOnce(execution, script);
    const text = Buffer.from(stdout.head).toString();
    if (exitCode !== 0) throw sandboxError('failed', `It has no bash that runs. ${text.trim()}`);
    const written = await readFile(join(directory, 'ws', 'token'), 'utf8').catch(() => '');
    if (written !== token) throw sandboxError('failed', `Its containers cannot write to folders of ${tmpdir()}.`);
    return new Set(text.split('\n').map((path) => path.slice(path.lastIndexOf('/') + 1)));
  } catch (cause) {
    throw sandboxError('unavailable', `The image ${name} is of no use as a sandbox: ${messageOf(cause)}`, {
      cause,
      hint: 'Set sandbox.docker.image to one that has bash and sleep, for a daemon on this machine that runs as root.',
    });
  } finally {
    await removeTree(directory);
  }
}

async function runOnce(execution: Execution, script: string): Promise<ExecResult> {
  try {
    return await execution.exec({ argv: ['bash', '-c', script], timeoutMs: PROBE_MS });
  } finally {
    await execution.close();
  }
}

function toAdvice(found: Set<string>, { network, docker }: BackendConfig): string {
  const has = ['bash', ...programs.filter((program) => found.has(program))].join(', ');
  const lacks = programs.filter((program) => !found.has(program)).join(', ');
  const reach = network === 'host' ? 'It has the network of its host.' : 'It has no network.';
  return `Commands run in a Linux container of the image ${docker.image}, with ${has}${lacks && `, without ${lacks}`}. ${reach} Only /workspace and /tmp can be written to; what runs in the background goes on until the end of the run.`;
}
