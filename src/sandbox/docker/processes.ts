// Ends one command of several in a container, by what the host sees of its processes (Linux). Docker itself cannot.
import { readFileSync } from 'node:fs';

export interface ContainerProcess {
  pid: number;
  parent: number;
  /** When it began, in hundredths of a second since the start of the machine. */
  started: number;
}

/** What the kernel counts the beginnings of processes in, as of now. */
export function ticksNow(): number {
  return Math.floor(Number(readOrEmpty('/proc/uptime').split(' ')[0]) * 100);
}

/**
 * Of all processes of a container, those of one command: `root` is its first one, undefined when that has ended, and
 * `since` is not after its beginning. What has left its parent belongs to the first process of the container, `init`, and
 * is taken for the command's unless it is older; so none of the command's is left out, whatever it did.
 */
export function processesOf(
  all: readonly ContainerProcess[],
  command: { init: number; root: number | undefined; since: number },
): number[] {
  const byPid = new Map(all.map((process) => [process.pid, process]));
  const belongs = ({ pid, parent, started }: ContainerProcess): boolean => {
    if (pid === command.init || started < command.since) return false;
    if (pid === command.root || parent === command.init) return true;
    // The first process of a command has its parent outside.
    const found = byPid.get(parent);
    return found !== undefined && belongs(found);
  };
  return all.filter(belongs).map(({ pid }) => pid);
}

/** `list` is the list of processes of a cgroup. */
export function listProcesses(list: string): number[] {
  return readOrEmpty(list).split('\n').filter(Boolean).map(Number);
}

/**
 * Kills the processes of a command that are there now; it may have made more meanwhile. Resolves to how many there were;
 * undefined where this server does not see them or may not kill them.
 */
export function killCommand(
  list: string,
  command: { init: number; root: number | undefined; since: number },
): number | undefined {
  const pids = listProcesses(list);
  // Without its first process it is not the list of a running container.
  if (!pids.includes(command.init)) return undefined;
  const own = processesOf(
    pids.map(readProcess).filter((process) => process !== undefined),
    command,
  );
  // At once after they were looked at: a number may become that of another process.
  return own.every(kill) ? own.length : undefined;
}

/** False where it may not be killed. */
function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}

/** Undefined where it has ended. */
function readProcess(pid: number): ContainerProcess | undefined {
  const text = readOrEmpty(`/proc/${pid}/stat`);
  // The name of the program comes before, in brackets, and may hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return text ? { pid, parent: Number(fields[1]), started: Number(fields[19]) } : undefined;
}

export function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // It is gone, or not seen from here.
    return '';
  }
}
