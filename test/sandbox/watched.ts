// Programs over a folder whose limits are watched.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, test } from 'vitest';
import { measureFolder } from '../../src/sandbox/watch/disk-use.ts';
import { createSlice } from '../../src/sandbox/watch/slice.ts';
import { canWatch, watchLimits } from '../../src/sandbox/watch/watchdog.ts';

export const MB = 1_000_000;
/** Of the running test. */
export let directory: string;
export const children: ChildProcess[] = [];
export const onLinux = canWatch ? test : test.skip;

/** For each file of tests: a folder for each test, and the end of its programs. */
export function useFolder(): void {
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'homard-watch-'));
    mkdirSync(join(directory, 'ws'));
  });
  afterEach(() => {
    // Each is the leader of its group.
    for (const child of children.splice(0))
      if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  });
}

/** A program of Node that has done its first step when this resolves; it ends with the test. */
export async function run(source: string): Promise<ChildProcess & { pid: number }> {
  return start(process.execPath, ['-e', `${source}\n;console.log('ready');setTimeout(() => {}, 20_000)`]);
}

/** The same in Python, which has what Node lacks: mappings, descriptors through sockets. */
export function python(source: string): Promise<ChildProcess & { pid: number }> {
  const header = 'import mmap, os, socket, sys, threading, time\n';
  return start('/usr/bin/python3', ['-uc', `${header}${source}\nprint("ready")\ntime.sleep(20)`]);
}

async function start(program: string, parameters: string[]): Promise<ChildProcess & { pid: number }> {
  const child = spawn(program, parameters, {
    cwd: join(directory, 'ws'),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
    env: {},
  });
  children.push(child);
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve);
    child.once('exit', () => reject(new Error('It ended early.')));
  });
  return Object.assign(child, { pid: child.pid! });
}

/** Takes about half a second to count. */
const MANY = 60_000;
export function makeMany(): void {
  const folder = join(directory, 'ws', 'many');
  mkdirSync(folder);
  for (let i = 0; i < MANY; i++) closeSync(openSync(join(folder, `${i}`), 'w'));
}

export interface Told {
  reasons: string[];
  ms: number;
}

/** What is told of a process, and when, within some time. */
export async function watch(
  pid: number,
  limits: { memoryBytes?: number; diskBytes?: number; forMs: number; processes?: () => number[] },
): Promise<Told> {
  const began = performance.now();
  const told: Told = { reasons: [], ms: 0 };
  const { memoryBytes = 1000 * MB, diskBytes = 1000 * MB, forMs, ...more } = limits;
  const stop = watchLimits({ pid, directory, memoryBytes, diskBytes, ...more }, (reason) => {
    told.reasons.push(reason);
    told.ms ||= performance.now() - began;
  });
  while (performance.now() - began < forMs && !told.reasons.length) await sleep(10);
  stop();
  return told;
}

export const fill = (megabytes: number) => `globalThis.kept = Buffer.alloc(${megabytes}e6, 1)`;
export const countDisk = (path: string) => measureFolder(path, { device: statSync(path).dev, slice: createSlice() });
