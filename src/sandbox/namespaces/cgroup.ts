// The memory of a sandbox, held by the kernel: a memory cgroup for each slot, below that of this server. A watchdog alone
// comes too late for programs that take all they can at once.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { messageOf } from '../../kernel/index.ts';
import { sandboxError } from '../errors.ts';
import { isAlive, type ServerProcess, thisServer } from '../server-process.ts';

/** That of one slot: its limit is one of all processes in it together. */
export interface Cgroup {
  /** A process, of one thread, that writes 0 to this file is in it from then on, with all that it starts. */
  readonly entrance: string;
  /** How many processes in it the kernel has ended for their memory. */
  kills(): number;
  /** For when its processes have ended. Idempotent; never rejects: what could not be removed, a later server reaps. */
  remove(): Promise<void>;
}

export interface Cgroups {
  /** Throws `sandbox.failed`. */
  create(memoryBytes: number): Cgroup;
}

/** What the two versions of the kernel's interface call things. */
interface Version {
  /** Below /sys/fs/cgroup. */
  mount: string;
  /** How the line of /proc/self/cgroup begins that has the path of this process. */
  line: RegExp;
  entrance: string;
  /** Files and what is written to them; the first must be there. */
  limits: (memoryBytes: number) => [file: string, value: number][];
  /** The file with the line `oom_kill <count>`. */
  counter: string;
  /** What makes the kernel forget the files that it read for it: else a removed one lives on with them. */
  reclaim: { file: string; text: string };
}

const versions: Version[] = [
  {
    mount: 'memory',
    line: /^\d+:(?:[^:]+,)?memory(?:,[^:]+)?:/,
    // Unlike cgroup.procs, it need not stop all programs of the machine for it, which may take 30 ms.
    entrance: 'tasks',
    limits: (bytes) => [
      ['memory.limit_in_bytes', bytes],
      ['memory.memsw.limit_in_bytes', bytes],
      // Where swap is not counted: none.
      ['memory.swappiness', 0],
    ],
    counter: 'memory.oom_control',
    reclaim: { file: 'memory.force_empty', text: '0' },
  },
  {
    mount: '',
    line: /^0::/,
    entrance: 'cgroup.procs',
    limits: (bytes) => [
      ['memory.max', bytes],
      ['memory.swap.max', 0],
    ],
    counter: 'memory.events',
    reclaim: { file: 'memory.reclaim', text: '1G' },
  },
];

const TRY_MS = 5000;
const MAX_REMOVE_WAIT_MS = 2000;

/**
 * Undefined where this server may make none that hold: it is not root, the cgroups of its container are only to be read, or,
 * in version 2, they were not given to it (systemd: `Delegate=memory` with `DelegateSubgroup=`). Tries one before it
 * resolves, and removes those of servers that are no more.
 */
export async function findCgroups(): Promise<Cgroups | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  for (const version of versions) {
    const parent = findParent(version);
    if (!parent) continue;
    const cgroups = createCgroups(parent, version);
    if (!(await isUsable(cgroups))) continue;
    await removeLeft(parent);
    return cgroups;
  }
  return undefined;
}

/** Where this server may make cgroups with a limit, as far as can be told without making one. */
function findParent({ mount, line }: Version): string | undefined {
  const own = read('/proc/self/cgroup')
    .split('\n')
    .find((text) => line.test(text))
    ?.replace(line, '');
  if (own === undefined) return undefined;
  // In a container, its own may be shown as the root, under the path that it has outside.
  const directory = [own, ''].map((path) => join('/sys/fs/cgroup', mount, path)).find(hasThisProcess);
  if (!directory || mount) return directory;
  // In version 2 one that has processes cannot have others with limits below it, but a unit of systemd may have two levels.
  const parent = /\.(service|scope)$/.test(dirname(directory)) ? dirname(directory) : directory;
  if (!read(join(parent, 'cgroup.controllers')).split(/\s/).includes('memory')) return undefined;
  try {
    writeFileSync(join(parent, 'cgroup.subtree_control'), '+memory');
    return parent;
  } catch {
    return undefined; // It has processes, or is not ours.
  }
}

const hasThisProcess = (directory: string): boolean =>
  read(join(directory, 'cgroup.procs')).split('\n').includes(String(process.pid));

async function isUsable(cgroups: Cgroups): Promise<boolean> {
  let cgroup: Cgroup | undefined;
  try {
    cgroup = cgroups.create(100_000_000);
    const enter = ['-c', 'echo 0 >"$1" && exec cat /proc/self/cgroup', 'sh', cgroup.entrance];
    const { stdout } = await promisify(execFile)('/bin/sh', enter, { timeout: TRY_MS, env: { PATH: '/usr/bin:/bin' } });
    return stdout.includes(basename(dirname(cgroup.entrance))) && Number.isInteger(cgroup.kills());
  } catch {
    return false; // Whatever it is, the watchdog is there.
  } finally {
    await cgroup?.remove();
  }
}

/** Tells a server's from those of others, which may see the same folder and have processes of the same numbers. */
const prefixOf = ({ host }: ServerProcess): string =>
  `homard-${createHash('sha256').update(host).digest('hex').slice(0, 8)}-`;

function createCgroups(parent: string, version: Version): Cgroups {
  const server = thisServer();
  return {
    create(memoryBytes) {
      const id = `${server.pid}-${server.started}-${crypto.randomUUID().slice(0, 8)}`;
      const directory = join(parent, `${prefixOf(server)}${id}`);
      try {
        mkdirSync(directory);
        for (const [index, [file, value]] of version.limits(memoryBytes).entries()) {
          if (!index || existsSync(join(directory, file))) writeFileSync(join(directory, file), String(value));
        }
      } catch (cause) {
        void remove(directory);
        throw sandboxError('failed', `The memory of a sandbox cannot be limited: ${messageOf(cause)}`, { cause });
      }
      return {
        entrance: join(directory, version.entrance),
        kills: () => Number(/^oom_kill (\d+)$/m.exec(read(join(directory, version.counter)))?.[1]),
        async remove() {
          await giveBack(join(directory, version.reclaim.file), version.reclaim.text);
          await remove(directory);
        },
      };
    },
  };
}

async function removeLeft(parent: string): Promise<void> {
  const server = thisServer();
  const prefix = prefixOf(server);
  const left = (await readdir(parent)).filter((name) => {
    if (!name.startsWith(prefix)) return false;
    const [pid, started = ''] = name.slice(prefix.length).split('-');
    return isAlive({ host: server.host, pid: Number(pid), started }) === false;
  });
  await Promise.all(left.map((name) => remove(join(parent, name))));
}

async function giveBack(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch {
    // Not all could be had, or this kernel does not have it: then it takes longer.
  }
}

/** Processes that were killed are in it until the kernel is done with them. */
async function remove(directory: string): Promise<void> {
  for (let waitMs = 1; waitMs <= MAX_REMOVE_WAIT_MS; waitMs *= 2) {
    try {
      await rmdir(directory);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    }
    await sleep(waitMs);
  }
}

/** '' when it cannot be read. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
