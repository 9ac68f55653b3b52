// The server's end of the process that imitates a shell: its start, with as few rights as node can give, its answers, its end.
import { type ChildProcess, spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { SandboxLimits } from '../sandbox.ts';
import type { WorkerAnswer, WorkerConfig, WorkerRequest } from './worker.ts';

/** How a command ended; `ended` when its process did. */
export type Outcome = Exclude<WorkerAnswer, { kind: 'ready' | 'output' }> | { kind: 'ended'; isOutOfMemory: boolean };

export interface Shell {
  readonly pid: number;
  /** False when it ended instead; never rejects. */
  readonly isReady: Promise<boolean>;
  /** Never rejects. */
  readonly ended: Promise<void>;
  readonly isAlive: boolean;
  readonly wasKilled: boolean;
  /** One at a time. Never rejects. */
  run(command: WorkerRequest, push: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void): Promise<Outcome>;
  kill(): void;
  /** What it wrote to its standard error, for people. */
  complaint(): string;
}

const WORKER = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url));
/** What it takes for itself at most; 31 MB when nothing runs. */
export const SHELL_BYTES = 64 << 20;

/** Starts a process over a slot that may be without `ws` yet. Whether that worked is told by `isReady`. */
export function startShell(directory: string, options: { limits: SandboxLimits; hasNetwork: boolean }): Shell {
  const { promise: isReady, resolve: setReady } = Promise.withResolvers<boolean>();
  const { promise: ended, resolve: setEnded } = Promise.withResolvers<void>();
  let push: Parameters<Shell['run']>[1] | undefined;
  let settle: ((outcome: Outcome) => void) | undefined;
  let complaint = '';
  let isAlive = true;
  let wasKilled = false;

  const child = spawnWorker(directory, options);
  const onEnd = (isOutOfMemory: boolean) => {
    isAlive = false;
    setReady(false);
    setEnded();
    settle?.({ kind: 'ended', isOutOfMemory });
  };
  // V8 aborts where there is no more memory; Windows has no signals, but this code.
  child.once('exit', (code, signal) => onEnd(signal === 'SIGABRT' || signal === 'SIGTRAP' || code === 134));
  child.on('error', (error) => {
    complaint ||= error.message;
    if (child.pid === undefined) onEnd(false);
  });
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(0, 2000)));
  child.on('message', (message: WorkerAnswer) => {
    if (message.kind === 'ready') setReady(true);
    else if (message.kind === 'output') push?.(message.stream, message.bytes);
    else settle?.(message);
  });

  return {
    pid: child.pid ?? 0,
    isReady,
    ended,
    get isAlive() {
      return isAlive;
    },
    get wasKilled() {
      return wasKilled;
    },
    run(command, onOutput) {
      push = onOutput;
      return new Promise((resolve) => {
        settle = resolve;
        // Whether it arrives is seen by the answer, or by the end of the process.
        if (isAlive && child.connected) child.send(command, () => {});
        else if (!isAlive) resolve({ kind: 'ended', isOutOfMemory: false });
      });
    },
    kill() {
      wasKilled = true;
      child.kill('SIGKILL');
    },
    complaint: () => complaint.trim(),
  };
}

/**
 * node itself lets it read this package, the library and the slot, write to the slot, and start no program: should a command
 * get out of the library, it is still there. Nothing of the server is in its environment.
 */
function spawnWorker(directory: string, options: { limits: SandboxLimits; hasNetwork: boolean }): ChildProcess {
  const { limits, hasNetwork } = options;
  const { fileBytes, outputBytes } = limits;
  const config: WorkerConfig = { directory, fileBytes, outputBytes, hasNetwork };
  // Not the folder above: the data of a server that runs in a checkout is there.
  const own = ['../..', '../../../package.json'].map((path) => fileURLToPath(new URL(path, import.meta.url)));
  const readable = [...own, ...packageFolders(), directory];
  // Newer versions of node also forbid the network.
  const mayAllowNetwork = hasNetwork && process.allowedNodeEnvironmentFlags.has('--allow-net');
  const flags = [
    '--permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    `--allow-fs-write=${directory}`,
    '--allow-worker',
    ...(mayAllowNetwork ? ['--allow-net'] : []),
    '--no-warnings',
    `--max-old-space-size=${Math.ceil((limits.memoryBytes + SHELL_BYTES) / (1 << 20))}`,
  ];
  return spawn(process.execPath, [...flags, WORKER, JSON.stringify(config)], {
    env: {},
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    serialization: 'advanced',
    // SIGINT of a terminal does not reach it.
    detached: true,
    windowsHide: true,
  });
}

/** The folders of packages that the library is in, with what it needs: as it is named, and where links lead to. */
function packageFolders(): string[] {
  const path = findPackageJSON('just-bash', import.meta.url);
  if (!path) return [];
  const name = 'node_modules';
  return [path, realpathSync(path)].map((each) => each.slice(0, each.indexOf(name) + name.length));
}
