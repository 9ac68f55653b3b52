// No sandbox at all: commands are child processes of the server, for who insists. They reach all that their user reaches, and
// what leaves its process group lives on.
import { stat } from 'node:fs/promises';
import { posix } from 'node:path';
import { messageOf } from '../kernel/index.ts';
import { checkCommand, noFolder, SYSTEM_PATH } from './command.ts';
import { sandboxError } from './errors.ts';
import { canSwitchUser, folderSeen, type Group, type LocalCommand, startCommand } from './local/process.ts';
import { type CommandRun, createCommandRun } from './run.ts';
import type { Backend, BackendConfig, Execution, ExecSpec, SandboxLimits, Slot } from './sandbox.ts';
import { watchLimits } from './watch/watchdog.ts';

/** As root, commands become the user of the slot where that is possible; else they run as the user of the server. */
export async function createLocalBackend({ limits, log }: BackendConfig): Promise<Backend> {
  if (process.platform === 'win32') {
    throw sandboxError('unavailable', 'The sandbox "local" needs a system with /bin/sh, which Windows is not.');
  }
  const canSwitch = await canSwitchUser();
  if (!canSwitch && process.getuid?.() === 0) {
    log.warn(
      {},
      'Commands run as root: without the rights and programs unshare, mount and setpriv there is no other way.',
    );
  }
  const executions = new Set<Execution>();
  return {
    kind: 'local',
    capabilities: {
      isolation: 'none',
      hasPrograms: true,
      hasNetwork: true,
      keepsBackground: true,
      killsAll: false,
      // It is watched while a command runs, but what the command leaves in the background is not.
      memoryLimit: 'none',
      diskLimit: 'file',
      hasProcessLimit: false,
    },
    description: `no sandbox: commands run on this machine as ${canSwitch ? 'one user for all conversations' : 'the user of the server'}`,
    advice:
      'Commands run on the host itself, with its programs and its network. The workspace is the current folder and $HOME, temporary files go to $TMPDIR: use relative paths, there is no /workspace.',
    opensEmpty: true,
    open(slot, signal) {
      if (signal.aborted) {
        const failure = sandboxError('failed', 'The start of the sandbox was cancelled.', { cause: signal.reason });
        return Promise.reject(failure);
      }
      const { id, directory, user } = slot;
      const execution = createExecution({ id, directory, ...(canSwitch && user && { user }) }, limits);
      executions.add(execution);
      const close = () => {
        executions.delete(execution);
        return execution.close();
      };
      return Promise.resolve({ ...execution, close });
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...executions].map((execution) => execution.close()));
    },
  };
}

function createExecution(slot: Slot, limits: SandboxLimits): Execution {
  const runs = new Set<CommandRun>();
  const groups = new Set<Group>();
  let isClosed = false;
  const checkOpen = () => {
    if (isClosed) throw sandboxError('closed', 'The sandbox was closed.');
  };
  return {
    async exec(spec) {
      checkOpen();
      // Their numbers may be given to others.
      for (const group of groups) if (!group.isAlive()) groups.delete(group);
      const command = await toCommand(spec, slot);
      const group = await startCommand(command, { slot, limits }).catch((cause: unknown) => {
        throw sandboxError('failed', `The command could not be started: ${messageOf(cause)}`, { cause });
      });
      groups.add(group);
      const run = createCommandRun(spec, { outputBytes: limits.outputBytes, kill: group.kill });
      runs.add(run);
      if (isClosed) run.stop('closed');
      void follow(group, run, { spec, slot, limits });
      return run.result.finally(() => runs.delete(run));
    },
    async close() {
      isClosed = true;
      for (const run of runs) run.stop('closed');
      const left = [...groups].filter((group) => group.isAlive());
      for (const group of left) group.kill();
      await Promise.allSettled(left.map((group) => group.ended));
      for (const group of left) group.close();
    },
  };
}

/** Stays with a command to its end. */
async function follow(
  group: Group,
  run: CommandRun,
  { spec, slot, limits }: { spec: ExecSpec; slot: Slot; limits: SandboxLimits },
): Promise<void> {
  // Read on after the end, too: what is left in the background may write.
  group.stdout.on('data', (chunk: Buffer) => run.push('stdout', chunk));
  group.stderr.on('data', (chunk: Buffer) => run.push('stderr', chunk));
  group.stdin.on('error', () => {
    // A command need not read what it is given.
  });
  group.stdin.end(spec.stdin ?? '');
  const { memoryBytes, diskBytes } = limits;
  const unwatch = watchLimits({ pid: group.pid, directory: slot.directory, memoryBytes, diskBytes }, run.stop);
  try {
    run.end(await group.ended);
  } catch (cause) {
    group.close();
    run.fail(sandboxError('failed', `The command could not be started: ${messageOf(cause)}`, { cause }));
  } finally {
    unwatch();
  }
}

/** Rejects with `sandbox.invalid_command`. */
async function toCommand(spec: ExecSpec, slot: Slot): Promise<LocalCommand> {
  const root = folderSeen(slot);
  const { argv, cwd, env } = checkCommand(spec, {
    // Another user may not be able to enter folders of that of the server.
    PATH: slot.user ? SYSTEM_PATH : (process.env.PATH ?? SYSTEM_PATH),
    HOME: posix.join(root, 'ws'),
    TMPDIR: posix.join(root, 'tmp'),
    LANG: 'C.UTF-8',
  });
  const path = cwd.replace(/^\/workspace/, 'ws');
  const isFolder = await stat(posix.join(slot.directory, path)).then(
    (info) => info.isDirectory(),
    () => false,
  );
  if (!isFolder) throw noFolder(cwd);
  return { argv, cwd: posix.join(root, path), env };
}
