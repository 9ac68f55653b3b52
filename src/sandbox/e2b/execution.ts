// Commands over one slot, in a machine that may go away: then its command is lost, and the next one has a new machine with
// the files that came back.
import { messageOf } from '../../kernel/index.ts';
import type { CommandEnd } from './command.ts';
import { checkCommand, noFolder } from '../command.ts';
import { killCommand, runCommand, WORKSPACE } from './command.ts';
import { isAlive } from './machine.ts';
import type { Guest, Service } from './service.ts';
import { sandboxError } from '../errors.ts';
import type { CommandRun } from '../run.ts';
import { createCommandRun } from '../run.ts';
import type { BackendConfig, ExecResult, ExecSpec, Execution, SandboxLimits, Slot } from '../sandbox.ts';

const FETCH_MS = 60_000;
/** What is still done for a machine or a command that ends. */
const LAST_MS = 10_000;
const START_MS = 800;
const STREAM_MS = 500;

export interface ExecutionConfig {
  config: BackendConfig;
  service: Service;
  signal: AbortSignal;
}

export async function openExecution(slot: Slot, { config, service, signal }: ExecutionConfig): Promise<Execution> {
  const { limits, log } = config;
  const closing = new AbortController();
  let current: Promise<Guest> | undefined = Promise.resolve(await service.start(slot, signal));
  const running = new Map<CommandRun, Promise<void>>();
  let closed: Promise<void> | undefined;

  /** The machine; a new one where the last one went away. */
  function guest(): Promise<Guest> {
    const found = (current ??= service.start(slot, closing.signal));
    found.catch(() => {
      if (current === found) current = undefined;
    });
    return found;
  }

  async function lose(gone: Guest): Promise<void> {
    if (current && (await current) === gone) current = undefined;
    await gone.discard();
  }

  async function bringBack({ mirror, machine }: Guest, ms: number): Promise<void> {
    try {
      await mirror.fetch(AbortSignal.timeout(ms));
    } catch (error) {
      const data = { error: messageOf(error), slot: slot.id, machine: machine.sandboxId };
      log.warn(data, 'What a command changed could not be brought back');
    }
  }

  async function run(spec: ExecSpec, running: CommandRun, stopping: AbortSignal): Promise<void> {
    const command = { spec, limits, run: running, stopping };
    for (let tries = 1; ; tries++) {
      const host = await raceWith(stopping, guest());
      if (!host || stopping.aborted) return running.end(null);
      using _ = host.hold();
      const end = await runOn(host, command);
      if (end === 'failed') {
        // It is not known what of it is alive, so its machine is not kept.
        if (await isAlive(host.machine)) await bringBack(host, LAST_MS);
        await lose(host);
        running.stop('lost');
        return running.end(null);
      }
      if (end === 'noFolder') throw noFolder(spec.cwd ?? WORKSPACE);
      if (end !== 'notStarted') {
        await bringBack(host, FETCH_MS);
        return running.end(end.exitCode);
      }
      if (tries === 2 || (await isAlive(host.machine)))
        throw sandboxError('failed', 'The machine does not start commands.');
      await lose(host);
    }
  }

  async function shut(): Promise<void> {
    closing.abort();
    for (const each of running.keys()) each.stop('closed');
    await Promise.race([Promise.all(running.values()), after(LAST_MS)]);
    const host = await current?.catch(() => undefined);
    if (!host) return;
    // Background processes may have written since the last command.
    if (await isAlive(host.machine)) await bringBack(host, LAST_MS);
    await host.discard();
  }

  return {
    async exec(spec): Promise<ExecResult> {
      if (closed) throw sandboxError('closed', 'This sandbox is closed.');
      const whole = { ...spec, ...checkCommand(spec, {}) };
      const stopping = new AbortController();
      const command = createCommandRun(spec, { outputBytes: limits.outputBytes, kill: () => stopping.abort() });
      const work = run(whole, command, stopping.signal).catch((error: unknown) => {
        command.fail(error instanceof Error ? error : sandboxError('failed', messageOf(error)));
      });
      running.set(command, work);
      void work.finally(() => running.delete(command));
      return await command.result;
    },
    async push(path) {
      const host = closed ? undefined : await current?.catch(() => undefined);
      if (!host) return;
      try {
        await host.mirror.send(path, AbortSignal.timeout(FETCH_MS));
      } catch (cause) {
        // A new machine gets it with all the rest.
        if (!(await isAlive(host.machine))) return await lose(host);
        throw sandboxError('failed', `${path} could not be sent to the machine: ${messageOf(cause)}`, { cause });
      }
    },
    close: () => (closed ??= shut()),
  };
}

interface RunningCommand {
  spec: ExecSpec;
  limits: SandboxLimits;
  run: CommandRun;
  stopping: AbortSignal;
}

/** `notStarted`: nothing of it was run; `failed`: nobody knows what became of it. Rejects never. */
async function runOn(
  { machine, early }: Guest,
  command: RunningCommand,
): Promise<CommandEnd | 'notStarted' | 'failed'> {
  const { spec, limits, run, stopping } = command;
  const id = crypto.randomUUID();
  const watching = new AbortController();
  const started = Promise.withResolvers<true>();
  let hasStarted = false;
  const ended = runCommand(machine, id, {
    spec,
    limits,
    signal: watching.signal,
    onStart() {
      hasStarted = true;
      started.resolve(true);
    },
    onOutput: (stream, chunk) => run.push(stream, chunk),
  });
  // After a stop nobody may wait for it.
  ended.catch(() => undefined);
  try {
    const end = await raceWith(stopping, ended);
    if (!end) {
      // A command that has not begun cannot be found yet.
      if (!(await Promise.race([started.promise, ended, after(START_MS)]))) return 'failed';
      await killCommand(machine, id, early);
      await Promise.race([ended, after(STREAM_MS)]);
      return { exitCode: null };
    }
    // Without an exit code, the shell around it was killed: by a command, or with the machine.
    const isLost = end !== 'noFolder' && end.exitCode === null && !(await isAlive(machine));
    return isLost ? 'failed' : end;
  } catch {
    return hasStarted || stopping.aborted ? 'failed' : 'notStarted';
  } finally {
    watching.abort();
  }
}

/** Does not keep the process alive. */
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref());

/** Undefined where the signal comes first. */
function raceWith<T>(signal: AbortSignal, work: Promise<T>): Promise<T | undefined> {
  if (signal.aborted) return Promise.resolve(undefined);
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const stop = () => resolve(undefined);
  signal.addEventListener('abort', stop, { once: true });
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', stop));
}
