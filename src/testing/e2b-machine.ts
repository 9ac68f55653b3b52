// One "virtual machine" of the stand-in for E2B: a folder, and commands that see parts of it as /workspace, /tmp and /home.
// With bubblewrap they have process ids and mounts of their own, and end with their machine whatever they did. Without it
// they are plain child processes, and the paths are replaced in their arguments.
import type { ChildProcessByStdio } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, readlinkSync } from 'node:fs';
import { chown, mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import type { Writable } from 'node:stream';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import * as z from 'zod';
import { removeTree } from '../files/remove-tree.ts';
import { messageOf } from '../kernel/index.ts';
import { sandboxError } from '../sandbox/errors.ts';

export type MachineProcess = ChildProcessByStdio<Writable, Readable, Readable>;

export interface MachineStart {
  cmd: string;
  args: readonly string[];
  envs: Readonly<Record<string, string>>;
  cwd: string;
}

export interface TestMachine {
  /** Whether commands have mounts and process ids of their own. */
  readonly isIsolated: boolean;
  /** Where a file of the machine lies on this host. */
  toHost(path: string): string;
  /** Gives to the machine's user what the host wrote. */
  give(path: string): Promise<void>;
  /** A process group of its own. */
  start(command: MachineStart): MachineProcess;
  /** Ends all that runs in it and removes its files. */
  end(): Promise<void>;
}

const PATH = '/usr/local/bin:/usr/bin:/bin';
// Node connects its children by sockets, and /dev/stdout of a command would lead nowhere.
const RELAY = 'exec "$@" > >(exec cat) 2> >(exec cat >&2)';
const SHARED = ['workspace', 'tmp', 'home'];
/** A test that is root must not give its rights to commands. */
const user = process.getuid?.() === 0 ? { uid: 64_000, gid: 64_000 } : undefined;
const information = z.looseObject({ 'child-pid': z.int() });

export async function createTestMachine(options: { hasNetwork: boolean }): Promise<TestMachine> {
  const folder = await mkdtemp(join(tmpdir(), 'homard-e2b-'));
  const give = async (path: string) => {
    if (user) await chown(path, user.uid, user.gid);
  };
  await give(folder);
  for (const name of SHARED) {
    await mkdir(join(folder, name));
    await give(join(folder, name));
  }
  const toHost = (path: string) => join(folder, posix.resolve('/', path));
  const space = await openSpace(folder, options);
  const processes = new Set<MachineProcess>();

  function start({ cmd, args, envs, cwd }: MachineStart): MachineProcess {
    const env = { PATH, HOME: '/home', USER: 'user', E2B_SANDBOX: 'true', ...envs };
    const toPath = (part: string) => (space ? part : toFolder(folder, part));
    const line = ['-c', RELAY, 'relay', ...(space?.enter(cwd) ?? []), cmd, ...args].map(toPath);
    const child = spawn('bash', line, { env, cwd: '/', detached: true, stdio: 'pipe', ...user });
    processes.add(child);
    child.on('close', () => processes.delete(child)).on('error', () => processes.delete(child));
    // Who ends without reading its input breaks the pipe.
    child.stdin.on('error', () => undefined);
    return child;
  }

  return {
    isIsolated: space !== undefined,
    toHost,
    give,
    start,
    async end() {
      space?.end();
      for (const child of processes) killGroup(child);
      await Promise.all([...processes].map((child) => once(child, 'close').catch(() => undefined)));
      await removeTree(folder);
    },
  };
}

export function killGroup({ pid }: MachineProcess): void {
  try {
    if (pid) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function toFolder(folder: string, part: string): string {
  return part.replace(/\/(?:workspace|tmp(?=\/))/g, (found) => folder + found);
}

interface Space {
  enter(cwd: string): string[];
  end(): void;
}

/** Undefined where bubblewrap is not there, or not allowed. */
async function openSpace(folder: string, { hasNetwork }: { hasNetwork: boolean }): Promise<Space | undefined> {
  const flags = ['--unshare-user', '--unshare-pid', '--die-with-parent', ...(hasNetwork ? [] : ['--unshare-net'])];
  const argv = [...flags, ...mounts(folder), '--info-fd', '3', 'sh', '-c', 'echo; exec sleep infinity'];
  const init = spawn('bwrap', argv, {
    env: { PATH },
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
    ...user,
  });
  try {
    const told = init.stdio[3] instanceof Readable ? text(init.stdio[3]) : '';
    const isReady = await Promise.race([
      once(init.stdio[1] ?? init, 'data').then(() => true),
      once(init, 'close').then(() => false),
    ]);
    if (!isReady) return undefined;
    const pid = information.parse(JSON.parse(await told))['child-pid'];
    return {
      enter: (cwd) => [
        'nsenter',
        '-t',
        `${pid}`,
        '-U',
        '--preserve-credentials',
        '-m',
        '-p',
        ...(hasNetwork ? [] : ['-n']),
        'env',
        '-C',
        cwd,
      ],
      // The first process of its space: all others go with it.
      end: () => init.exitCode === null && process.kill(pid, 'SIGKILL'),
    };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw sandboxError('failed', `A machine of the stand-in did not start: ${messageOf(error)}`, { cause: error });
  }
}

function mounts(folder: string): string[] {
  const system = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'etc'].map((name) => `/${name}`).filter(existsSync);
  const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((name) => `/dev/${name}`);
  return [
    ['--tmpfs', '/', '--proc', '/proc', '--tmpfs', '/dev', '--symlink', '/proc/self/fd', '/dev/fd'],
    ...['stdin', 'stdout', 'stderr'].map((name, n) => ['--symlink', `/proc/self/fd/${n}`, `/dev/${name}`]),
    ...devices.map((path) => ['--dev-bind-try', path, path]),
    ...system.map((path) => {
      const isLink = lstatSync(path).isSymbolicLink();
      return isLink ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path];
    }),
    ...SHARED.map((name) => ['--bind', join(folder, name), `/${name}`]),
  ].flat();
}
