// The process that imitates a shell over one slot, one command at a time. A process, because one heavy allocation of a worker
// thread beyond its limit ends all of its process, and because the library blocks its thread for as long as it likes.
import { Worker } from 'node:worker_threads';
import {
  Bash,
  type CpOptions,
  defineCommand,
  type FileContent,
  MountableFs,
  ReadWriteFs,
  type RmOptions,
} from 'just-bash';
import { messageOf } from '../../kernel/index.ts';
import { sandboxError } from '../errors.ts';
import { toBytes } from './bytes.ts';

/** What a process is started with, as JSON in its first argument. */
export interface WorkerConfig {
  directory: string;
  fileBytes: number;
  outputBytes: number;
  hasNetwork: boolean;
}

export interface WorkerRequest {
  argv: readonly string[];
  cwd: string;
  env: Record<string, string>;
  stdin: Uint8Array;
}

/** Each command is answered by one of the last three. */
export type WorkerAnswer =
  | { kind: 'ready' }
  | { kind: 'output'; stream: 'stdout' | 'stderr'; bytes: Uint8Array }
  | { kind: 'done'; exitCode: number }
  | { kind: 'no_folder' }
  | { kind: 'failed'; message: string };

const PIECE_BYTES = 262_144;

/** Time and memory are limited from outside; counts would only end what is long and harmless. */
const counts =
  'CommandCount LoopIterations AwkIterations SedIterations JqIterations QueryElements WorkUnits ArrayElements ' +
  'TraversalEntries TraversalWork GlobOperations ExecutionTimeMs PythonTimeoutMs JsTimeoutMs SqliteTimeoutMs';
const uncounted = Object.fromEntries(counts.split(' ').map((name) => [`max${name}`, Number.MAX_SAFE_INTEGER]));

const config: WorkerConfig = JSON.parse(process.argv[2] ?? '');

/** The library has no limit for what is written. */
class LimitedFs extends ReadWriteFs {
  constructor(root: string) {
    // 0 is no limit: beyond one, a file would be "not there".
    super({ root, maxFileReadSize: 0 });
  }

  override async writeFile(path: string, content: FileContent, ...rest: Rest<ReadWriteFs['writeFile']>): Promise<void> {
    checkSize(path, sizeOf(content, ...rest));
    await super.writeFile(path, content, ...rest);
  }

  override async appendFile(
    path: string,
    content: FileContent,
    ...rest: Rest<ReadWriteFs['appendFile']>
  ): Promise<void> {
    const before = await this.stat(path).then(
      ({ size }) => size,
      () => 0,
    );
    checkSize(path, before + sizeOf(content, ...rest));
    await super.appendFile(path, content, ...rest);
  }

  /** That of the library uses what node forbids to a process with few rights. */
  override async cp(source: string, target: string, options?: CpOptions): Promise<void> {
    const { isDirectory, mode } = await this.stat(source);
    if (!isDirectory || !options?.recursive) {
      await this.writeFile(target, await this.readFileBuffer(source));
      return this.chmod(target, mode);
    }
    const names = await this.readdir(source);
    await this.mkdir(target, { recursive: true });
    for (const name of names) await this.cp(`${source}/${name}`, `${target}/${name}`, options);
  }

  /** A file with several names could not be changed any more: the library copies it then, in that same way. */
  override async link(path: string): Promise<void> {
    throw sandboxError('path_refused', `EPERM: operation not permitted, link '${path}'`);
  }

  /** That of the library does not remove an empty folder (rmdir), which node's `rm` does not either. */
  override async rm(path: string, options?: RmOptions): Promise<void> {
    const isEmpty = !options?.recursive && (await this.readdir(path).catch(() => ['none'])).length === 0;
    await super.rm(path, isEmpty ? { ...options, recursive: true } : options);
  }
}

class SlotFs extends MountableFs {
  /** Connections of bash are files to the library: a command would believe that it reached somebody. */
  override async writeFile(path: string, content: FileContent, ...rest: Rest<MountableFs['writeFile']>): Promise<void> {
    if (/^\/dev\/(tcp|udp)\//.test(this.resolvePath('/', path)))
      throw sandboxError('path_refused', `ENETUNREACH: network is unreachable, '${path}'`);
    await super.writeFile(path, content, ...rest);
  }

  /** That of the library leaves what is mounted in a folder that is removed. */
  override async rm(path: string, options?: RmOptions): Promise<void> {
    const folder = this.resolvePath('/', path);
    const mounts = this.getMounts().filter(({ mountPoint }) => folder === '/' || folder === mountPoint);
    for (const { mountPoint } of options?.recursive ? mounts : [])
      for (const name of await this.readdir(mountPoint)) await super.rm(`${mountPoint}/${name}`, options);
    await super.rm(path, options);
  }
}

type Rest<F> = F extends (path: string, content: FileContent, ...rest: infer R) => unknown ? R : never;

function sizeOf(content: FileContent, ...[options]: Rest<ReadWriteFs['writeFile']>): number {
  const encoding = typeof options === 'string' ? options : options?.encoding;
  return typeof content === 'string' ? Buffer.byteLength(content, encoding) : content.byteLength;
}

function checkSize(path: string, bytes: number): void {
  if (bytes > config.fileBytes) throw sandboxError('file_too_large', `EFBIG: file too large, '${path}'`);
}

/** The library has none. */
const mktemp = defineCommand('mktemp', async (args, { fs }) => {
  if (args.some((arg) => arg !== '-d')) return { stdout: '', stderr: 'mktemp: knows only -d here\n', exitCode: 1 };
  const path = `/tmp/tmp.${crypto.randomUUID().slice(0, 8)}`;
  await (args.length ? fs.mkdir(path) : fs.writeFile(path, ''));
  return { stdout: `${path}\n`, stderr: '', exitCode: 0 };
});

const languages = { python: true, javascript: true };

/** The usual folders, in memory and new for each command, with the two of the slot in them. */
async function createFileSystem(): Promise<SlotFs> {
  const base = new Bash(languages).fs;
  // It would be an empty file.
  await base.rm('/dev/zero', { force: true });
  const fs = new SlotFs({ base });
  fs.mount('/workspace', new LimitedFs(`${config.directory}/ws`));
  fs.mount('/tmp', new LimitedFs(`${config.directory}/tmp`));
  return fs;
}

async function run({ argv, cwd, env, stdin }: WorkerRequest): Promise<WorkerAnswer> {
  const fs = await createFileSystem();
  const isFolder = await fs.stat(cwd).then(
    ({ isDirectory }) => isDirectory,
    () => false,
  );
  if (!isFolder) return { kind: 'no_folder' };
  const bash = new Bash({
    ...languages,
    fs,
    cwd,
    env,
    customCommands: [mktemp],
    executionLimits: {
      ...uncounted,
      // The server counts what comes. Here bytes count twice that the library takes for text, and so do files.
      maxOutputSize: 2 * Math.max(config.outputBytes, config.fileBytes),
    },
    ...(config.hasNetwork && { network: { dangerouslyAllowFullInternetAccess: true } }),
  });
  const { script, args } = toScript(argv);
  const input = Buffer.from(stdin).toString('latin1');
  const options = { args, rawScript: true, stdin: input, stdinKind: 'bytes' } as const;
  // It rejects for some files that are not to be touched.
  const { stdout, stderr, exitCode } = await bash
    .exec(script, options)
    .catch((error: unknown) => ({ stdout: '', stderr: `bash: ${messageOf(error)}\n`, exitCode: 1 }));
  await send('stdout', toBytes(stdout));
  await send('stderr', toBytes(stderr));
  return { kind: 'done', exitCode };
}

/**
 * A script for the library, and arguments that it adds to its first command. A script that is given to bash is run at once:
 * the bash of the library knows no flags but -c, and passes on bytes less well.
 */
function toScript([program = '', ...args]: readonly string[]): { script: string; args: string[] } {
  const letters = /^(?:\/bin\/)?(?:ba)?sh$/.test(program) && /^-([a-z]*)c$/.exec(args[0] ?? '')?.[1];
  if (letters === false || letters === undefined) return { script: quote(program), args };
  // What is left of -l and -i means nothing here.
  const settings = letters.replaceAll(/[li]/g, '');
  const [, text = '', ...rest] = args;
  const script = settings ? `set -${settings}\n${text}` : text;
  return rest.length ? { script: 'bash', args: ['-c', script, ...rest] } : { script, args: [] };
}

const quote = (word: string): string => `'${word.replaceAll(`'`, `'\\''`)}'`;

function answer(message: WorkerAnswer): Promise<void> {
  // Waits for each, so that a fast writer does not fill the memory.
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

async function send(stream: 'stdout' | 'stderr', bytes: Buffer): Promise<void> {
  for (let start = 0; start < bytes.length; start += PIECE_BYTES)
    await answer({ kind: 'output', stream, bytes: bytes.subarray(start, start + PIECE_BYTES) });
}

async function onRequest(request: WorkerRequest): Promise<void> {
  await answer(await run(request).catch((error: unknown) => ({ kind: 'failed', message: messageOf(error) }) as const));
}

/** A command may block this thread for ever, so that it would not see its server die. */
function endWithServer(): void {
  const watch = `
    const { workerData } = require('node:worker_threads');
    setInterval(() => process.ppid === workerData || process.kill(process.pid, 'SIGKILL'), 1000);`;
  new Worker(watch, { eval: true, workerData: process.ppid }).unref();
}

process.on('message', (request: WorkerRequest) => void onRequest(request));
process.once('disconnect', () => process.exit());
endWithServer();
await answer({ kind: 'ready' });
