// Commands over one slot in one container. What Docker starts in a container it cannot end: the processes of a command are
// killed from outside. Where that does not work, the container is killed, and the next command gets a new one.
import type Docker from 'dockerode';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../kernel/index.ts';
import { noFolder } from '../command.ts';
import { converse, toExecOptions } from './command.ts';
import { type Engine, type RunningContainer, startContainer } from './container.ts';
import { statusOf, within } from './daemon.ts';
import { killCommand, listProcesses, ticksNow } from './processes.ts';
import { endContainer } from './removal.ts';
import { sandboxError } from '../errors.ts';
import { type CommandRun, createCommandRun } from '../run.ts';
import type { ExecEnd, Execution, ExecSpec, Slot } from '../sandbox.ts';
import { watchLimits } from '../watch/watchdog.ts';

/** For one command: it may find that its container went away before it began. */
const MAX_TRIES = 3;
/** For a call to the daemon about a command. */
const CALL_MS = 10_000;
/** How long output may still come when the container is gone. */
const REST_OF_OUTPUT_MS = 500;
const [MIN_POLL_MS, MAX_POLL_MS] = [5, 250];
/** How long the processes of a command are killed, before their container is. */
const KILL_MS = 500;
const KILL_PAUSE_MS = 5;
const KILLED = 137;
const NO_FOLDER = 125;

/** A container with the commands in it. */
interface Place extends RunningContainer {
  commands: Set<Command>;
  /** How many commands began in it. */
  begun: number;
  /** Set when it is killed; resolves when it is gone, never rejects. */
  gone?: Promise<void>;
  unwatch(): void;
}

interface Command {
  spec: ExecSpec;
  run: CommandRun;
  isStopped: boolean;
  /** Where it runs, from the moment on when it may have begun until it has ended. */
  place?: Place;
  exec?: Docker.Exec;
  stream?: Duplex;
  /** Set when it is ended early; resolves when nothing of it is alive, never rejects. */
  ending?: Promise<void>;
  /** Before its first process began; see `ticksNow`. */
  since: number;
}

/** Rejects with `sandbox.failed`, within 30 s; then nothing is left. */
export async function openExecution(engine: Engine, slot: Slot, signal: AbortSignal): Promise<Execution> {
  const { outputBytes } = engine.config.limits;
  const places = createPlaces(engine, slot);
  const commands = new Set<Command>();
  let closing: Promise<void> | undefined;

  async function close(): Promise<void> {
    for (const { run, place } of commands) if (!place) run.stop('closed');
    await places.close();
    await Promise.allSettled([...commands].map(({ run }) => run.result));
  }

  await places.enter(signal);
  return {
    async exec(spec) {
      if (closing) throw sandboxError('closed', 'The sandbox was closed.');
      const options = toExecOptions(spec);
      const kill = () => {
        command.isStopped = true;
        if (command.place) command.ending = end(places, command.place, command);
        else command.run.end(null);
      };
      const run = createCommandRun(spec, { outputBytes, kill });
      const command: Command = { spec, run, isStopped: false, since: 0 };
      commands.add(command);
      void carryOut(places, command, options);
      return command.run.result.finally(() => commands.delete(command));
    },
    close: () => (closing ??= close()),
  };
}

interface Places {
  /** The container as it is, or a new one. Rejects with `sandbox.failed`. */
  enter(signal?: AbortSignal): Promise<Place>;
  /** Kills a container; what runs in it ends for `reason`, unless it has its own. Resolves when it is gone. */
  drop(place: Place, reason: Exclude<ExecEnd, 'exit'>): Promise<void>;
  close(): Promise<void>;
}

function createPlaces(engine: Engine, slot: Slot): Places {
  const { limits } = engine.config;
  const closed = new AbortController();
  const removals = new Set<Promise<void>>();
  let current: Promise<Place> | undefined;

  async function start(signal: AbortSignal): Promise<Place> {
    try {
      const running = await startContainer(engine, slot, signal);
      const place: Place = { ...running, commands: new Set(), begun: 0, unwatch: () => undefined };
      // The memory is held by the container itself.
      const memoryBytes = Number.POSITIVE_INFINITY;
      const { pid, processList } = running;
      const watched = { pid, directory: slot.directory, memoryBytes, diskBytes: limits.diskBytes };
      // What Docker starts in a container is not below its first process.
      const processes = processList === undefined ? undefined : () => listProcesses(processList);
      place.unwatch = watchLimits(
        { ...watched, ...(processes && { processes }) },
        (reason) => void drop(place, reason),
      );
      return place;
    } catch (error) {
      current = undefined;
      throw error;
    }
  }

  const drop: Places['drop'] = (place, reason) => {
    if (place.gone) return place.gone;
    current = undefined;
    place.unwatch();
    const removal = remove(place).finally(() => removals.delete(removal));
    place.gone = removal;
    removals.add(removal);
    for (const { run } of place.commands) run.stop(reason);
    return removal;
  };

  async function remove({ name, commands }: Place): Promise<void> {
    await endContainer(engine, name);
    setTimeout(() => {
      for (const { stream } of commands) stream?.destroy();
    }, REST_OF_OUTPUT_MS).unref();
  }

  return {
    enter: (signal) => (current ??= start(signal ? AbortSignal.any([signal, closed.signal]) : closed.signal)),
    drop,
    async close() {
      closed.abort();
      try {
        const place = await current;
        if (place) await drop(place, 'closed');
      } catch {
        // It did not start, and nothing is left of it.
      }
      await Promise.all(removals);
    },
  };
}

/** Never rejects; ends or fails the run. */
async function carryOut(places: Places, command: Command, options: Docker.ExecCreateOptions): Promise<void> {
  const { run } = command;
  try {
    for (let tries = 1; tries <= MAX_TRIES && !command.isStopped; tries++) {
      const place = await places.enter();
      const exec = await createExec(places, place, options);
      if (!exec || place.gone) continue;
      if (!command.isStopped) await follow(places, place, { command, exec });
      return;
    }
    run.stop('lost');
  } catch (cause) {
    run.fail(sandboxError('failed', `The command did not start: ${messageOf(cause).trim()}`, { cause }));
  }
}

/** Undefined where the container is no more. */
async function createExec(
  places: Places,
  place: Place,
  options: Docker.ExecCreateOptions,
): Promise<Docker.Exec | undefined> {
  try {
    return await within(CALL_MS, (abortSignal) => place.container.exec({ ...options, abortSignal }));
  } catch (error) {
    const status = statusOf(error);
    if (!place.gone && status !== 404 && status !== 409) throw error;
    await places.drop(place, 'lost');
    return undefined;
  }
}

async function follow(
  places: Places,
  place: Place,
  { command, exec }: { command: Command; exec: Docker.Exec },
): Promise<void> {
  const { run, spec } = command;
  const killedBefore = place.countMemoryKills() ?? Number.POSITIVE_INFINITY;
  const nth = ++place.begun;
  const wasAlone = place.commands.size === 0;
  command.since = ticksNow();
  command.exec = exec;
  command.place = place;
  place.commands.add(command);
  const { exitCode, hasNoFolder } = await runExec(command, place, exec);
  if (exitCode === null) await places.drop(place, 'lost');
  await command.ending;
  place.commands.delete(command);
  delete command.place;
  if (hasNoFolder && exitCode === NO_FOLDER) {
    run.fail(noFolder(spec.cwd ?? '/workspace'));
    return;
  }
  // The kernel kills one process, of whichever command.
  const isOwn = exitCode === KILLED || (wasAlone && place.begun === nth);
  if (isOwn && (place.countMemoryKills() ?? 0) > killedBefore) run.stop('memory_limit');
  run.end(exitCode);
}

/** The exit code is null where the command was ended with its container, or nobody knows. Never rejects. */
async function runExec(
  command: Command,
  place: Place,
  exec: Docker.Exec,
): Promise<{ exitCode: number | null; hasNoFolder: boolean }> {
  const { spec, run } = command;
  let hasNoFolder = false;
  try {
    const stdin = spec.stdin !== undefined;
    const start = (abortSignal: AbortSignal) => exec.start({ hijack: true, stdin, abortSignal });
    const stream = await within(CALL_MS, start);
    command.stream = stream;
    ({ hasNoFolder } = await converse(stream, { stdin: spec.stdin, push: run.push }));
    // A command may go on when it has closed its output.
    for (let pauseMs = MIN_POLL_MS; !place.gone; pauseMs = Math.min(pauseMs * 2, MAX_POLL_MS)) {
      const { Running, ExitCode } = await within(CALL_MS, (abortSignal) => exec.inspect({ abortSignal }));
      if (!Running && ExitCode !== null) return { exitCode: await checked(ExitCode, place), hasNoFolder };
      await sleep(pauseMs);
    }
  } catch {
    // The daemon or the container went away: what is known of the command is that it is lost.
  }
  return { exitCode: null, hasNoFolder };
}

/** Ends a command and nothing else, or all in its container. Never rejects. */
async function end(places: Places, place: Place, command: Command): Promise<void> {
  const isEnded = await killAll(place, command);
  if (!isEnded) await places.drop(place, 'lost');
  // Nobody is left who could write more.
  setTimeout(() => command.stream?.destroy(), REST_OF_OUTPUT_MS).unref();
}

/** Resolves to false where something of the command may be alive. */
async function killAll(place: Place, { exec, since }: Command): Promise<boolean> {
  const deadline = performance.now() + KILL_MS;
  try {
    while (exec && place.processList !== undefined && !place.gone && performance.now() < deadline) {
      const { Running, ExitCode, Pid } = await within(KILL_MS, (abortSignal) => exec.inspect({ abortSignal }));
      const root = Running ? Pid : undefined;
      const killed = killCommand(place.processList, { init: place.pid, root, since });
      if (killed === undefined) return false;
      // Before it began, it has no exit code either.
      if (killed === 0 && !Running && ExitCode !== null) return true;
      await sleep(KILL_PAUSE_MS);
    }
  } catch {
    // The daemon does not answer; the removal of the container will tell.
  }
  return false;
}

/** That a command was killed may mean that its container was, which Docker tells a moment later. */
async function checked(exitCode: number, { container, pid, processList }: Place): Promise<number | null> {
  if (exitCode !== KILLED) return exitCode;
  if (processList !== undefined) return listProcesses(processList).includes(pid) ? exitCode : null;
  const { State } = await within(CALL_MS, (abortSignal) => container.inspect({ abortSignal }));
  return State.Running ? exitCode : null;
}
