// Child processes on a fixed core, and what the Linux kernel knows of them: CPU time, memory, load of the machine.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const TICK_MS = 10; // USER_HZ, 100 on every Linux

export interface Started {
  pid: number;
  port: number;
  /** From the start of the process to the first answer 200 of /health. */
  startMs: number;
}

export interface Launch {
  args: string[];
  /** A list as taskset takes it: `0` or `0,1`. */
  cores: string;
  port: number;
  env: Record<string, string | undefined>;
  logFile: string;
}

const running = new Map<number, { child: ChildProcess; exited: Promise<void> }>();
let closed = false;

/** Starts `node ...args` on some cores and waits, at most 60 s, for `GET /health` to answer 200. */
export async function start({ args, cores, port, env, logFile }: Launch): Promise<Started> {
  if (closed) throw new Error('the bench is ending');
  const log = fs.openSync(logFile, 'a');
  const begun = performance.now();
  const child = spawn('taskset', ['-c', cores, process.execPath, ...args], {
    env,
    stdio: ['ignore', log, log],
  });
  fs.closeSync(log);
  const exited = new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('exit', () => resolve());
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('taskset (package util-linux) is needed to pin processes to a core');
  running.set(pid, { child, exited });
  void exited.then(() => running.delete(pid));

  while (!(await isHealthy(port))) {
    const late = performance.now() - begun > 60_000;
    if (!late && running.has(pid)) {
      await sleep(3);
      continue;
    }
    await stop(pid);
    const lines = fs.readFileSync(logFile, 'utf8').trim().split('\n');
    const said = lines
      .filter((line) => !/^\s+at /.test(line))
      .slice(-12)
      .join('\n');
    throw new Error(`${args.join(' ')} ${late ? 'did not become healthy in 60 s' : 'ended at its start'}:\n${said}`);
  }
  return { pid, port, startMs: performance.now() - begun };
}

/** Moves a process with all its threads; those to come follow. */
export function pin(pid: number, cores: string): void {
  execFileSync('taskset', ['-acp', cores, String(pid)], { stdio: 'ignore' });
}

/** Resolves to false when the process had to be killed after 10 s. */
export async function stop(pid: number): Promise<boolean> {
  const entry = running.get(pid);
  if (!entry) return true;
  const descendants = processTree(pid).slice(1);
  entry.child.kill('SIGTERM');
  const clean = await Promise.race([entry.exited.then(() => true), sleep(10_000, false, { ref: false })]);
  if (!clean) entry.child.kill('SIGKILL');
  await entry.exited;
  for (const child of descendants) if (readProc(`${child}/stat`) !== '') kill(child);
  return clean;
}

/** Nothing can be started afterwards. */
export async function stopAll(): Promise<void> {
  closed = true;
  await Promise.all([...running.keys()].map(stop));
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ESRCH') throw cause;
  }
}

/** Waits, at most 10 s, until the process does next to nothing: compilers and first timers run on after a start. */
export async function settle(pid: number): Promise<void> {
  const pids = processTree(pid);
  for (let i = 0, before = cpuMs(pids); i < 20; i++) {
    await sleep(500);
    const now = cpuMs(pids);
    if (now - before < 20) return;
    before = now;
  }
}

export async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function isHealthy(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get({ host: '127.0.0.1', port, path: '/health', agent: false, timeout: 2000 }, (response) => {
      response.on('error', () => resolve(false));
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}

/** Processes and threads come and go while they are listed; what has gone reads as nothing. */
function readProc(path: string): string {
  try {
    return fs.readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return '';
  }
}

function listProc(path: string): number[] {
  try {
    return fs.readdirSync(`/proc/${path}`).map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

function parentOf(pid: number): number {
  const stat = readProc(`${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0]);
}

/** The process and all that descend from it, parents first. */
export function processTree(pid: number): number[] {
  const parents = listProc('').map((child) => [child, parentOf(child)] as const);
  const tree = [pid];
  for (const parent of tree) for (const [child, of] of parents) if (of === parent) tree.push(child);
  return tree;
}

/** The server processes of PostgreSQL that serve one database; none when it runs elsewhere. */
export function databaseProcesses(database: string | undefined): number[] {
  if (database === undefined) return [];
  return listProc('').filter((pid) => {
    const title = readProc(`${pid}/cmdline`);
    return title.startsWith('postgres:') && title.includes(` ${database} `);
  });
}

/** CPU time in ms by thread name, user and system. Taken from schedstat: nanoseconds, where stat has 10 ms ticks. */
export function cpuByThread(pids: number[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const pid of pids) {
    for (const thread of listProc(`${pid}/task`)) {
      const name = readProc(`${pid}/task/${thread}/comm`).trim();
      const ns = Number(readProc(`${pid}/task/${thread}/schedstat`).split(' ')[0]);
      times.set(name, (times.get(name) ?? 0) + ns / 1e6);
    }
  }
  return times;
}

export function cpuMs(pids: number[]): number {
  return sum(cpuByThread(pids).values());
}

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export function rssMb(pids: number[]): number {
  const kilobytes = pids.map((pid) => Number(/VmRSS:\s+(\d+)/.exec(readProc(`${pid}/status`))?.[1] ?? 0));
  return sum(kilobytes) / 1024;
}

/** What all cores together have worked since the machine started, in ms. */
export function machineBusyMs(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = readProc('stat')
    .split('\n', 1)[0]!
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) * TICK_MS;
}
