// What the cases of the sandbox suite share: places to run commands in, short words for running them, and what the host
// sees of their processes.
import { commandUser } from '../sandbox/server-process.ts';
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { chown, mkdir, mkdtemp, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeTree } from '../files/remove-tree.ts';
import { createWorkspaceFiles } from '../sandbox/files.ts';
import type {
  Backend,
  BackendConfig,
  CreateBackend,
  ExecResult,
  ExecSpec,
  Execution,
  SandboxCapabilities,
  SandboxFiles,
  SandboxLimits,
  Slot,
} from '../sandbox/sandbox.ts';

/** A sandbox over a fresh slot. */
export interface OpenSandbox {
  slot: Slot;
  execution: Execution;
  files: SandboxFiles;
  /** Closes the execution and removes the slot. */
  close(): Promise<void>;
}

export interface SandboxUnderTest extends AsyncDisposable {
  backend: Backend;
  limits: SandboxLimits;
  open(): Promise<OpenSandbox>;
}

/** What a case needs, in words, and whether it is there. */
export type Needs = (capabilities: SandboxCapabilities) => Record<string, boolean>;

export interface Case {
  name: string;
  /** Takes more than about a second. */
  isSlow?: boolean;
  needs?: Needs;
  body(bench: Bench): Promise<void>;
}

export interface Bench extends OpenSandbox {
  backend: Backend;
  limits: SandboxLimits;
  exec(spec: ExecSpec | ExecSpec['argv']): Promise<ExecResult>;
  bash(script: string, more?: Partial<ExecSpec>): Promise<ExecResult>;
  /** What a script wrote to its standard output; it must end with 0. */
  tell(script: string, more?: Partial<ExecSpec>): Promise<string>;
  /** One more sandbox of the back end; closed at the end of the case. */
  another(): Promise<OpenSandbox>;
  /** Of the host: the folder, and in it a file that everybody may read, with a text that is nowhere else. */
  outside: { directory: string; file: string; text: string };
}

export const hasPrograms: Needs = ({ hasPrograms }) => ({ programs: hasPrograms });
export const isIsolated: Needs = ({ isolation }) => ({ isolation: isolation !== 'none' });
export const killsAll: Needs = ({ hasPrograms, killsAll }) => ({ programs: hasPrograms, 'kills all': killsAll });

/** Small, so that the cases of limits end soon. */
const testLimits: SandboxLimits = {
  memoryBytes: 256 << 20,
  diskBytes: 64 << 20,
  fileBytes: 24 << 20,
  processes: 48,
  cpuSeconds: 2,
  outputBytes: 16 << 20,
};

/**
 * A back end with small limits, and slots below a temporary folder that only the server may enter, as in real life: where it
 * is root, `ws` and `tmp` belong to another user, and where a back end opens empty slots, `ws` comes later.
 */
export async function createSandboxUnderTest(
  createBackend: CreateBackend,
  config: Partial<BackendConfig> = {},
): Promise<SandboxUnderTest> {
  const limits = { ...testLimits, ...config.limits };
  const log = { warn: () => undefined, error: () => undefined };
  const backend = await createBackend({ network: 'none', hidden: [], docker: {}, e2b: {}, log, ...config, limits });
  const root = await mkdtemp(join(tmpdir(), 'homard-sandbox-'));
  const user = process.getuid?.() === 0 ? commandUser : undefined;
  const makeFolder = async (path: string, mode: number) => {
    await mkdir(path, { mode });
    if (user) await chown(path, user.uid, user.gid);
  };
  return {
    backend,
    limits,
    async open() {
      const id = crypto.randomUUID().slice(0, 13);
      const directory = join(root, id, 'box');
      await mkdir(directory, { recursive: true, mode: 0o755 });
      await makeFolder(join(directory, 'tmp'), 0o755);
      await makeFolder(join(root, id, 'files'), 0o700);
      const slot: Slot = { id, directory, ...(user && { user }) };
      const bringFiles = () => rename(join(root, id, 'files'), join(directory, 'ws'));
      if (!backend.opensEmpty) await bringFiles();
      const execution = await backend.open(slot, AbortSignal.timeout(60_000));
      if (backend.opensEmpty) await bringFiles();
      const push = execution.push && ((path: string) => execution.push!(path));
      const files = createWorkspaceFiles(join(directory, 'ws'), {
        ...(user && { user }),
        fileBytes: limits.fileBytes,
        ...(push && { push }),
      });
      const close = async () => {
        await execution.close();
        await removeTree(join(root, id));
      };
      return { slot, execution, files, close };
    },
    async [Symbol.asyncDispose]() {
      await backend[Symbol.asyncDispose]();
      await removeTree(root);
    },
  };
}

/** Runs the body over a fresh sandbox, and removes what it made. */
export async function runOnBench(subject: SandboxUnderTest, body: (bench: Bench) => Promise<void>): Promise<void> {
  const { backend, limits } = subject;
  const directory = await mkdtemp(join(tmpdir(), 'homard-outside-'));
  const outside = { directory, file: join(directory, 'outside.txt'), text: `outside-${crypto.randomUUID()}` };
  await writeFile(outside.file, outside.text, { mode: 0o644 });
  const opened = [await subject.open()];
  const exec: Bench['exec'] = (spec) => opened[0]!.execution.exec('argv' in spec ? spec : { argv: spec });
  const bash: Bench['bash'] = (script, more) => exec({ argv: ['bash', '-c', script], ...more });
  const bench: Bench = {
    ...opened[0]!,
    backend,
    limits,
    outside,
    exec,
    bash,
    async tell(script, more) {
      const result = await bash(script, more);
      assert.deepEqual([result.reason, result.exitCode], ['exit', 0], `${script}\n${stderrOf(result)}`);
      return stdoutOf(result);
    },
    async another() {
      const place = await subject.open();
      opened.push(place);
      return place;
    },
  };
  try {
    await body(bench);
  } finally {
    for (const place of opened) await place.close();
    await removeTree(directory);
  }
}

export const bytesOf = ({ head, tail }: ExecResult['stdout']): Buffer => Buffer.concat([head, tail]);
export const stdoutOf = (result: ExecResult): string => bytesOf(result.stdout).toString();
export const stderrOf = (result: ExecResult): string => bytesOf(result.stderr).toString();

export function hasCode(code: string): (error: unknown) => boolean {
  return (error) => {
    assert.equal((error as { code?: unknown }).code, code, String(error));
    return true;
  };
}

/** How long something takes, in milliseconds. */
export async function time(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

export interface HostProcess {
  pid: number;
  commandLine: string;
  /** In memory, and not shared with other processes. */
  ownBytes: number;
}

/** The processes of this machine that have this text in their environment. None where the system does not show them. */
export function processesWith(text: string): HostProcess[] {
  const found: HostProcess[] = [];
  for (const pid of numbersIn('/proc')) {
    if (!readProc(pid, 'environ').includes(text)) continue;
    const [, resident = 0, shared = 0] = readProc(pid, 'statm').split(' ').map(Number);
    found.push({ pid, commandLine: readProc(pid, 'cmdline'), ownBytes: (resident - shared) * 4096 });
  }
  return found;
}

/** The processes below this one, with their command lines. */
export function descendants(): HostProcess[] {
  const parents = new Map(numbersIn('/proc').map((pid) => [pid, parentOf(pid)]));
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid);
    return parent !== undefined && (parent === process.pid || isBelow(parent));
  };
  const pids = [...parents.keys()].filter(isBelow);
  return pids.map((pid) => ({ pid, commandLine: readProc(pid, 'cmdline'), ownBytes: 0 }));
}

export function commandLines(): string[] {
  return numbersIn('/proc').map((pid) => readProc(pid, 'cmdline'));
}

function parentOf(pid: number): number {
  const stat = readProc(pid, 'stat');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
}

function numbersIn(folder: string): number[] {
  try {
    return readdirSync(folder).map(Number).filter(Number.isInteger);
  } catch {
    // No Linux.
    return [];
  }
}

function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    // It ended meanwhile, or belongs to somebody else.
    return '';
  }
}
