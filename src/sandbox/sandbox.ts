// What every back end offers: commands over one folder, and nothing else of the host. A `Backend` makes the places where
// commands run; a `Sandbox` is one of them as tools see it, with the files of its workspace.

import type { Log } from '../kernel/index.ts';

export const sandboxKinds = ['bwrap', 'unshare', 'docker', 'e2b', 'virtual', 'local'] as const;
export type SandboxKind = (typeof sandboxKinds)[number];

/** From none to most. `language`: an interpreter that knows only the workspace. */
export const isolations = ['none', 'language', 'namespace', 'container', 'vm'] as const;
export type Isolation = (typeof isolations)[number];

/** Where back ends differ. Nothing of the interface is ever "not supported". */
export interface SandboxCapabilities {
  isolation: Isolation;
  /** Programs run; false where a shell with a fixed set of commands is imitated. */
  hasPrograms: boolean;
  /** Commands may reach the network. */
  hasNetwork: boolean;
  /** What a command leaves in the background lives until the sandbox is closed; else it ends with its command. */
  keepsBackground: boolean;
  /** A second after a time limit or an abort nothing of the command is alive, whatever it did. */
  killsAll: boolean;
  /** Of what the memory limit holds: nothing, each process, all of a sandbox. Likewise for disk: each file, all files. */
  memoryLimit: 'none' | 'process' | 'total';
  diskLimit: 'none' | 'file' | 'total';
  hasProcessLimit: boolean;
}

export interface SandboxLimits {
  /** Of all processes of a sandbox. */
  memoryBytes: number;
  /** Of the workspace and the temporary folder. */
  diskBytes: number;
  fileBytes: number;
  processes: number;
  /** CPU time of one process, in seconds. */
  cpuSeconds: number;
  /** Of both streams of a command: beyond, it is killed. */
  outputBytes: number;
}

/** The folder that a sandbox is made over: `<directory>/ws` is its `/workspace`, `<directory>/tmp` its `/tmp`. */
export interface Slot {
  id: string;
  /** Absolute. While the slot is warm, `ws` is not there yet. Everything below belongs to `user` where there is one. */
  directory: string;
  /** A server that is root runs commands as this user, with this group; else as itself. */
  user?: { uid: number; gid: number };
}

export interface ExecSpec {
  /** The program and its arguments, each taken as it is. */
  argv: readonly [string, ...string[]];
  /** A folder of the workspace; `/workspace` when absent. */
  cwd?: string;
  /** All that the command has in its environment beside PATH, HOME, LANG, TMPDIR and the like. */
  env?: Readonly<Record<string, string>>;
  /** Empty when absent. */
  stdin?: string | Uint8Array;
  /** Default 120,000. */
  timeoutMs?: number;
  /** Of each stream, half from its head and half from its tail; what lies between is counted. Default 64,000. */
  keepBytes?: number;
  signal?: AbortSignal;
  /** Each piece as it comes, in order, until the limit of output. What it throws is ignored. */
  onOutput?: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void;
}

/** `lost`: the place where it ran went away; `closed`: the sandbox was closed meanwhile. */
export type ExecEnd =
  | 'exit'
  | 'timeout'
  | 'aborted'
  | 'memory_limit'
  | 'disk_limit'
  | 'output_limit'
  | 'lost'
  | 'closed';

/** What was kept of a stream: all of it in `head` where `omittedBytes` is 0. */
export interface Output {
  head: Uint8Array;
  tail: Uint8Array;
  omittedBytes: number;
}

export interface ExecResult {
  reason: ExecEnd;
  /** Null unless the command ended by itself. A shell's way of telling a signal: 128 + its number. */
  exitCode: number | null;
  stdout: Output;
  stderr: Output;
  ms: number;
}

/** One place where commands run, over one slot. */
export interface Execution {
  /**
   * Resolves when the command has ended and its output is complete; several may run at once. Rejects with
   * `sandbox.closed`, `sandbox.invalid_command` (an empty program name, a NUL, a folder that is not there) and
   * `sandbox.failed`.
   */
  exec(spec: ExecSpec): Promise<ExecResult>;
  /** Where the files of the workspace are elsewhere: brings what the host wrote or removed there. Absent: they are the same files. */
  push?(path: string): Promise<void>;
  /** Ends what runs, with the reason `closed`, and removes all but the slot. Idempotent; never rejects. */
  close(): Promise<void>;
}

/** Makes executions. `app.ts` creates one, by the configured kind; disposal closes all that it made. */
export interface Backend extends AsyncDisposable {
  readonly kind: SandboxKind;
  readonly capabilities: SandboxCapabilities;
  /** For people: what it is and where it comes from, as `bubblewrap 0.8.0`. */
  readonly description: string;
  /** What a model should know before it writes a command: what is there and what is not. One or two sentences. */
  readonly advice: string;
  /** `open` may be called before `ws` is there, so that slots can be kept ready. */
  readonly opensEmpty: boolean;
  /** Rejects with `sandbox.failed`, within 30 s; then nothing of it is left. */
  open(slot: Slot, signal: AbortSignal): Promise<Execution>;
  /**
   * Removes what servers that are no more left outside of their slots, such as containers. Resolves to how many; rejects
   * where some of it may still be there.
   */
  reap?(): Promise<number>;
}

/** What a back end is made of; see config.ts. */
export interface BackendConfig {
  limits: SandboxLimits;
  /** `host`: commands use the network of this machine. */
  network: 'none' | 'host';
  /** Absolute paths of folders of this server that commands must not see, as far as they are there when a place for one is made. */
  hidden: readonly string[];
  docker: { image?: string; socket?: string; runtime?: string };
  e2b: { template?: string; apiUrl?: string; sandboxUrl?: string; apiKey?: string };
  log: Log;
}

/** Rejects with `sandbox.unavailable` where it does not work here, and says why and what to do. */
export type CreateBackend = (config: BackendConfig) => Promise<Backend>;

export interface FileInfo {
  /** Below the workspace, with `/` between names; '' is the workspace. */
  path: string;
  kind: 'file' | 'folder' | 'link' | 'other';
  bytes: number;
  /** Milliseconds since 1970. */
  modifiedAt: number;
  isExecutable: boolean;
}

/**
 * The files of a workspace. A path is relative, or begins with `/workspace`. Links are never followed, and a file with
 * several names (hard links) is not opened: both reject with `sandbox.path_refused`, as do `..`, other absolute paths,
 * devices and pipes. What is not there rejects with `sandbox.file_not_found`, but for `stat`.
 */
export interface SandboxFiles {
  stat(path: string): Promise<FileInfo | null>;
  /** Bytes from `offset` (0) on, at most `limit` (all). */
  read(path: string, range?: { offset?: number; limit?: number }): Promise<Uint8Array>;
  /** Whole or not at all; makes the folders that are missing, keeps the mode of a file that is there. */
  write(path: string, data: string | Uint8Array, options?: { isExecutable?: boolean }): Promise<FileInfo>;
  /** Sorted by path, folders before what is in them; links are listed and not followed. `isComplete` is false beyond `limit` (10,000). */
  list(
    path: string,
    options?: { isRecursive?: boolean; limit?: number },
  ): Promise<{ files: FileInfo[]; isComplete: boolean }>;
  /** A folder with all that is in it. What is not there is removed. */
  remove(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
}

/** As tools see it: one run's hands, over the files of its conversation. */
export interface Sandbox {
  readonly id: string;
  readonly kind: SandboxKind;
  readonly capabilities: SandboxCapabilities;
  readonly files: SandboxFiles;
  /** Path -> SHA-256 in hex of the content that tools of this conversation last read or wrote; kept with its files. */
  readonly seen: Map<string, string>;
  /** As `Execution.exec`, with the environment and the secrets of the run. */
  exec(spec: ExecSpec): Promise<ExecResult>;
}
