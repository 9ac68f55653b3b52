// An imitated shell for where nothing else works: just-bash, a bash with the usual text tools in JavaScript, in processes of
// its own. Its files belong to the user of the server: there is no other user to become.
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkCommand, noFolder } from './command.ts';
import { sandboxError } from './errors.ts';
import { type CommandRun, createCommandRun } from './run.ts';
import type { Backend, BackendConfig, Execution, ExecSpec, Slot } from './sandbox.ts';
import { type Shell, SHELL_BYTES, startShell } from './virtual/link.ts';
import type { WorkerRequest } from './virtual/worker.ts';
import { canWatch, watchLimits } from './watch/watchdog.ts';

const START_TIMEOUT_MS = 30_000;
/** Of one sandbox at once; further commands wait. */
const MAX_SHELLS = 4;

export async function createVirtualBackend(config: BackendConfig): Promise<Backend> {
  await tryOut(config);
  const executions = new Set<Execution>();
  const hasNetwork = config.network === 'host';
  return {
    kind: 'virtual',
    capabilities: {
      isolation: 'language',
      hasPrograms: false,
      hasNetwork,
      keepsBackground: false,
      killsAll: true,
      memoryLimit: canWatch ? 'total' : 'process',
      diskLimit: canWatch ? 'total' : 'file',
      hasProcessLimit: true,
    },
    description: 'just-bash 3.4, an imitated shell',
    advice:
      'The shell is an imitated bash with built-in commands only: the usual text and file tools, jq, yq, rg, sqlite3, tar, gzip, python3 and js-exec (JavaScript). ' +
      'There is no node, npm, pip, git, make or compiler, no background job, no trap and no link; python3 has the standard library and cannot import files of the workspace; ' +
      'output comes when a command has ended by itself, and is lost where it is ended.',
    opensEmpty: true,
    async open(slot, signal) {
      const execution = await createExecution(slot, { config, signal });
      executions.add(execution);
      return {
        ...execution,
        close() {
          executions.delete(execution);
          return execution.close();
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...executions].map((execution) => execution.close()));
    },
  };
}

async function tryOut(config: BackendConfig): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'homard-probe-'));
  try {
    await Promise.all(['ws', 'tmp'].map((name) => mkdir(join(directory, name))));
    const execution = await createExecution(
      { id: 'probe', directory },
      { config, signal: new AbortController().signal },
    );
    const result = await execution.exec({ argv: ['echo', 'works'], timeoutMs: START_TIMEOUT_MS });
    await execution.close();
    if (Buffer.from(result.stdout.head).toString() === 'works\n') return;
    throw sandboxError(
      'failed',
      `A command ended with ${result.reason}: ${Buffer.from(result.stderr.head).toString()}`,
    );
  } catch (cause) {
    throw sandboxError(
      'unavailable',
      `The imitated shell does not work here. ${cause instanceof Error ? cause.message : ''}`,
      { cause },
    );
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function createExecution(
  slot: Slot,
  { config, signal }: { config: BackendConfig; signal: AbortSignal },
): Promise<Execution> {
  const { limits } = config;
  // node compares paths as they are written.
  const directory = await realpath(slot.directory);
  const shells = new Set<Shell>();
  const runs = new Set<CommandRun>();
  const waiting: (() => void)[] = [];
  let idle: Shell | undefined;
  let places = MAX_SHELLS;
  let isClosed = false;

  const start = (): Shell => {
    const shell = startShell(directory, { limits, hasNetwork: config.network === 'host' });
    shells.add(shell);
    void shell.ended.then(() => shells.delete(shell));
    return shell;
  };
  const take = (): Shell => {
    const taken = idle?.isAlive ? idle : start();
    idle = undefined;
    return taken;
  };
  /** One is kept ready. */
  const giveBack = (shell: Shell, isClean: boolean) => {
    if (isClosed || !isClean || idle?.isAlive) shell.kill();
    else idle = shell;
    if (!isClosed && !idle?.isAlive) idle = start();
    const next = waiting.shift();
    if (next) next();
    else places++;
  };

  idle = start();
  await waitForStart(idle, signal);

  return {
    async exec(spec) {
      if (isClosed) throw sandboxError('closed', 'The sandbox was closed.');
      const command = toRequest(spec);
      let shell: Shell | undefined;
      let isStopped = false;
      const { promise: isNext, resolve: enter } = Promise.withResolvers<void>();
      const run = createCommandRun(spec, {
        outputBytes: limits.outputBytes,
        kill() {
          isStopped = true;
          const at = waiting.indexOf(enter);
          if (at < 0) return shell?.kill();
          waiting.splice(at, 1);
          run.end(null);
        },
      });
      runs.add(run);
      void isNext.then(async () => {
        shell = take();
        if (isStopped) shell.kill();
        await follow(shell, run, { command, slot, config });
        giveBack(shell, !isStopped);
      });
      if (places > 0) {
        places--;
        enter();
      } else waiting.push(enter);
      return run.result.finally(() => runs.delete(run));
    },
    async close() {
      isClosed = true;
      for (const run of runs) run.stop('closed');
      for (const shell of shells) shell.kill();
      await Promise.all([...shells].map((shell) => shell.ended));
    },
  };
}

async function waitForStart(shell: Shell, signal: AbortSignal): Promise<void> {
  const stop = AbortSignal.any([signal, AbortSignal.timeout(START_TIMEOUT_MS)]);
  stop.addEventListener('abort', shell.kill);
  if (stop.aborted) shell.kill();
  const isReady = await shell.isReady;
  stop.removeEventListener('abort', shell.kill);
  if (isReady && !stop.aborted) return;
  await shell.ended;
  if (signal.aborted) throw sandboxError('failed', 'The start of the sandbox was cancelled.', { cause: signal.reason });
  throw sandboxError('failed', stop.aborted ? 'The sandbox did not start in 30 s.' : startFailure(shell));
}

const startFailure = (shell: Shell) => `The sandbox did not start: ${shell.complaint() || 'it ended at once'}.`;

/** Hands a command to a shell and stays with it to its end. */
async function follow(
  shell: Shell,
  run: CommandRun,
  { command, slot, config }: { command: WorkerRequest; slot: Slot; config: BackendConfig },
): Promise<void> {
  const { memoryBytes, diskBytes } = config.limits;
  const unwatch = watchLimits(
    // What shells take for themselves is not the command's.
    { pid: shell.pid, directory: slot.directory, memoryBytes: memoryBytes + MAX_SHELLS * SHELL_BYTES, diskBytes },
    run.stop,
  );
  const outcome = await shell.run(command, run.push);
  unwatch();
  if (outcome.kind === 'no_folder') {
    run.fail(noFolder(command.cwd));
  } else if (outcome.kind === 'failed') {
    run.fail(sandboxError('failed', `The command could not be run: ${outcome.message}`));
  } else if (outcome.kind === 'ended') {
    if (!(await shell.isReady) && !shell.wasKilled) run.fail(sandboxError('failed', startFailure(shell)));
    run.stop(outcome.isOutOfMemory ? 'memory_limit' : 'lost');
    run.end(null);
  } else run.end(outcome.exitCode);
}

function toRequest(spec: ExecSpec): WorkerRequest {
  return { ...checkCommand(spec), stdin: Buffer.from(spec.stdin ?? '') };
}
