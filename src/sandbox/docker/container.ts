// The container of a sandbox: with what rights and limits it is made, and how many of its processes the kernel killed for
// memory.
import type Docker from 'dockerode';
import { join } from 'node:path';
import { messageOf } from '../../kernel/index.ts';
import { ASK_MS, statusOf, within } from './daemon.ts';
import { createLabels } from './owner.ts';
import { readOrEmpty } from './processes.ts';
import { type Containers, endContainer } from './removal.ts';
import { sandboxError } from '../errors.ts';
import type { BackendConfig, Slot } from '../sandbox.ts';
import { commandUser } from '../server-process.ts';

// Together with the removal at most 30 s.
const CREATE_MS = 10_000;
const START_MS = 10_000;

const MAX_OPEN_FILES = 1024;
const MAX_CPUS = 2;
/** The first process and the one that waits. */
const OWN_PROCESSES = 2;

/** What all containers of a back end have in common. */
export interface Engine extends Containers {
  /** By its id: what is behind a name may change. */
  image: { id: string; volumes: readonly string[] };
  cpus: number;
  config: BackendConfig;
}

export interface RunningContainer {
  container: Docker.Container;
  name: string;
  /** Of its first process, as the host of the daemon counts. */
  pid: number;
  /** How many processes the kernel killed for memory; undefined where this server does not see it. */
  countMemoryKills(): number | undefined;
  /** A file with the numbers of all its processes; undefined where this server does not see it. */
  processList: string | undefined;
}

/** Rejects with `sandbox.failed`, within 30 s; then nothing is left of it, or it is in `stuck`. */
export async function startContainer(engine: Engine, slot: Slot, signal: AbortSignal): Promise<RunningContainer> {
  if (signal.aborted) throw sandboxError('failed', 'The start of the sandbox was cancelled.', { cause: signal.reason });
  const name = `homard-${crypto.randomUUID()}`;
  const container = engine.docker.getContainer(name);
  let isMade = false;
  engine.live.add(name);
  try {
    const options = { name, ...toContainer(engine, slot) };
    // Without the signal: what is given up cannot be removed before it is there.
    await within(CREATE_MS, (abortSignal) => engine.docker.createContainer({ ...options, abortSignal }));
    isMade = true;
    await within(START_MS, (abortSignal) => container.start({ abortSignal }), signal);
    const { Id: id, State } = await within(ASK_MS, (abortSignal) => container.inspect({ abortSignal }), signal);
    const cgroup = cgroupOf(State.Pid, id);
    return {
      container,
      name,
      pid: State.Pid,
      processList: cgroup && join(cgroup, 'cgroup.procs'),
      countMemoryKills: () => (cgroup === undefined ? undefined : countMemoryKills(cgroup)),
    };
  } catch (cause) {
    // What was asked for and not answered may still be done.
    const mayComeLate = !isMade && statusOf(cause) === undefined;
    await endContainer(engine, name, { mayComeLate });
    throw sandboxError('failed', `The container did not start: ${messageOf(cause).trim()}`, { cause });
  }
}

/** Missing in the types of dockerode. */
const ownCgroups = { CgroupnsMode: 'private' };

function toContainer({ owner, image, cpus, config }: Engine, slot: Slot): Docker.ContainerCreateOptions {
  const { limits, network, docker } = config;
  const { uid, gid } = userOf(slot);
  const ulimit = (Name: string, value: number) => ({ Name, Soft: value, Hard: value });
  return {
    Image: image.id,
    Entrypoint: [],
    Cmd: ['sleep', 'infinity'],
    User: `${uid}:${gid}`,
    Env: ['HOME=/workspace', 'TMPDIR=/tmp', 'LANG=C.UTF-8', 'USER=sandbox'],
    WorkingDir: '/workspace',
    Hostname: 'sandbox',
    Labels: createLabels(owner),
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      Runtime: docker.runtime,
      NetworkMode: network,
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      // Also what makes files with setuid of the folders below harmless: Docker has no "nosuid" for folders of the host.
      SecurityOpt: ['no-new-privileges'],
      IpcMode: 'private',
      ...ownCgroups,
      OomScoreAdj: 1000,
      Memory: limits.memoryBytes,
      MemorySwap: limits.memoryBytes,
      PidsLimit: limits.processes + OWN_PROCESSES,
      NanoCpus: Math.min(cpus, MAX_CPUS) * 1e9,
      Ulimits: [
        ulimit('core', 0),
        ulimit('cpu', limits.cpuSeconds),
        ulimit('fsize', limits.fileBytes),
        ulimit('nofile', MAX_OPEN_FILES),
      ],
      // Unlike Binds, these are refused where the folder is not there.
      Mounts: [
        { Type: 'bind', Source: join(slot.directory, 'ws'), Target: '/workspace' },
        { Type: 'bind', Source: join(slot.directory, 'tmp'), Target: '/tmp' },
      ],
      // A volume that an image declares would be a place without a limit; this one counts as memory.
      Tmpfs: Object.fromEntries(image.volumes.map((path) => [path, 'rw,nosuid,nodev,size=16m,nr_inodes=16k'])),
      LogConfig: { Type: 'none', Config: {} },
      Init: true,
      AutoRemove: true,
    },
  };
}

/** Never root, whatever the slot says. */
function userOf({ user }: Slot): { uid: number; gid: number } {
  const [uid, gid] = user ? [user.uid, user.gid] : [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return uid === 0 ? commandUser : { uid, gid: gid || commandUser.gid };
}

/** The folder of the kernel's figures of a container, of either version of cgroups; undefined where it is not seen from here. */
function cgroupOf(pid: number, id: string): string | undefined {
  const cgroups = readOrEmpty(`/proc/${pid}/cgroup`);
  // Where this server is in a container, the number may be that of another process.
  if (!cgroups.includes(id)) return undefined;
  const first = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(cgroups)?.[1];
  if (first !== undefined) return join('/sys/fs/cgroup/memory', first);
  const second = /^0::(.*)$/m.exec(cgroups)?.[1];
  return second === undefined ? undefined : join('/sys/fs/cgroup', second);
}

function countMemoryKills(cgroup: string): number | undefined {
  const text = readOrEmpty(join(cgroup, 'memory.events')) || readOrEmpty(join(cgroup, 'memory.oom_control'));
  const count = /^oom_kill (\d+)$/m.exec(text)?.[1];
  return count === undefined ? undefined : Number(count);
}
