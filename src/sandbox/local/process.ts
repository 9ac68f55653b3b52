// A command as a process of the host, in a group of its own, with real pipes where there can be some.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createPipes } from '../namespaces/pipes.ts';
import type { SandboxLimits, Slot } from '../sandbox.ts';

export interface LocalCommand {
  argv: readonly string[];
  /** As the command sees it, see `folderSeen`. */
  cwd: string;
  env: Record<string, string>;
}

/** A command with all that stays in its group. */
export interface Group {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves to the exit code when the first process has ended and its output was read. Rejects when it did not start. */
  readonly ended: Promise<number>;
  /** Somebody is left: in the group, or with a stream. */
  isAlive(): boolean;
  kill(): void;
  /** After the end: nobody listens any more. */
  close(): void;
}

/** Who holds the output of a command that has ended is not waited for longer. */
const GRACE_MS = 500;
/** Is on every Linux, and next to nothing is ever in it. */
const MOUNT_POINT = '/media';
const pipes = process.platform === 'linux' ? createPipes() : undefined;

/** Where commands find the folder of a slot. Its user may not be able to enter a folder on the way to it, such as /root. */
export const folderSeen = (slot: Slot): string => (slot.user ? MOUNT_POINT : slot.directory);

/** Mounts "$1", enters "$2", becomes the user "$3" of the group "$4", and goes on as the program that follows. */
const ENTER = `
mount --bind "$1" ${MOUNT_POINT} && cd -- "$2" || exit 125
user=$3 group=$4
shift 4
exec setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs -- "$@"
`;
const enter = (...args: string[]) => [
  '--mount',
  '--propagation',
  'private',
  '--',
  '/bin/sh',
  '-c',
  ENTER,
  'sh',
  ...args,
];

/** Whether commands can become another user here. */
export async function canSwitchUser(): Promise<boolean> {
  if (process.getuid?.() !== 0) return false;
  return promisify(execFile)('unshare', enter('/', '/', '65534', '65534', 'true')).then(
    () => true,
    () => false,
  );
}

/** Rejects where no process can be started at all. */
export async function startCommand(
  { argv, cwd, env }: LocalCommand,
  { slot, limits }: { slot: Slot; limits: SandboxLimits },
): Promise<Group> {
  // A file is counted in units of 512 bytes. Processes are not limited: all others of the same user would count.
  const set = `ulimit -c 0; ulimit -t ${limits.cpuSeconds}; ulimit -f ${Math.ceil(limits.fileBytes / 512)}; exec "$@"`;
  const limited = ['/bin/sh', '-c', set, 'sh', ...argv];
  const { user, directory } = slot;
  const line = user ? ['unshare', ...enter(directory, cwd, String(user.uid), String(user.gid), ...limited)] : limited;
  return toGroup(await spawnGroup(line, { cwd: user ? '/' : cwd, env }));
}

type Started = Pick<Group, 'stdin' | 'stdout' | 'stderr'> & { child: ChildProcess };

async function spawnGroup(
  [program = '', ...args]: readonly string[],
  options: { cwd: string; env: Record<string, string> },
): Promise<Started> {
  if (!pipes) {
    const child = spawn(program, args, { ...options, detached: true });
    return { child, stdin: child.stdin, stdout: child.stdout, stderr: child.stderr };
  }
  const [stdin, stdout, stderr] = await Promise.all([
    pipes.take('to_child'),
    pipes.take('from_child'),
    pipes.take('from_child'),
  ]);
  const ends = [stdin.read, stdout.write, stderr.write];
  try {
    return {
      child: spawn(program, args, { ...options, stdio: ends, detached: true }),
      stdin: new Socket({ fd: stdin.write, readable: false, writable: true }),
      stdout: new Socket({ fd: stdout.read, readable: true, writable: false }),
      stderr: new Socket({ fd: stderr.read, readable: true, writable: false }),
    };
  } finally {
    for (const end of ends) closeSync(end);
  }
}

function toGroup({ child, stdin, stdout, stderr }: Started): Group {
  const outputs = [stdout, stderr];
  const signal = (name: 0 | 'SIGKILL'): boolean => {
    try {
      return child.pid !== undefined && process.kill(-child.pid, name);
    } catch {
      return false; // Nobody is left.
    }
  };
  return {
    pid: child.pid ?? 0,
    stdin,
    stdout,
    stderr,
    ended: waitForEnd(child, outputs),
    isAlive: () => signal(0) || outputs.some((output) => !output.closed),
    kill: () => void signal('SIGKILL'),
    close() {
      for (const stream of [stdin, ...outputs]) stream.destroy();
    },
  };
}

async function waitForEnd(child: ChildProcess, outputs: readonly Readable[]): Promise<number> {
  const isRead = Promise.all(outputs.map((output) => once(output, 'close')));
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once('error', reject);
  child.once('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  const exitCode = await promise;
  const grace = new AbortController();
  await Promise.race([isRead, sleep(GRACE_MS, undefined, { signal: grace.signal }).catch(() => undefined)]);
  grace.abort();
  return exitCode;
}
