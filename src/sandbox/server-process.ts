// Which server left something behind, and whether that server still lives.
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

export interface ServerProcess {
  /** The machine, or the container on it: numbers of processes mean something only there. */
  host: string;
  pid: number;
  /** When it began, as the kernel counts; '' where the system does not tell. Tells a process from a later one of the same number. */
  started: string;
}

/** Nobody's on Debian and its like. Commands of a server that is root run as this user, never as root. */
export const commandUser = { uid: 64_000, gid: 64_000 };

export function thisServer(): ServerProcess {
  return { host: hostId(), pid: process.pid, started: startOf(process.pid) };
}

/** Undefined: it is a process of another host, of which nothing is known. */
export function isAlive({ host, pid, started }: ServerProcess): boolean | undefined {
  if (host !== hostId()) return undefined;
  return pid > 0 && isProcess(pid) && startOf(pid) === started;
}

function hostId(): string {
  let processes = '';
  try {
    processes = readlinkSync('/proc/self/ns/pid');
  } catch {
    // No Linux: there is only one.
  }
  return `${hostname()} ${processes}`.trim();
}

function isProcess(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function startOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name of the program comes before, in brackets, and may hold anything.
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}
