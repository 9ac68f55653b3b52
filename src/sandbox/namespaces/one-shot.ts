// Commands in places that are used once: while one command runs, the place of the next is made already, so that its start
// takes no time. In each place waits an entry, a shell that gets its command through a descriptor: nothing of a request is
// in the arguments or in the environment of a process of the host.
import { Readable, Writable } from 'node:stream';
import { messageOf } from '../../kernel/index.ts';
import { checkCommand, noFolder } from '../command.ts';
import type { Cgroup, Cgroups } from './cgroup.ts';
import { sandboxError } from '../errors.ts';
import type { Launched } from './launch.ts';
import { type CommandRun, createCommandRun } from '../run.ts';
import type { Execution, ExecSpec, SandboxLimits, Slot } from '../sandbox.ts';
import { watchLimits } from '../watch/watchdog.ts';

/**
 * Starts a sandbox over a slot with `entry`, a program and its arguments, in it. What a launcher has to see to:
 * - Descriptors 0 to 4 of the entry are those of the child: the standard streams, 3 that it reads, 4 that it writes to.
 * - Neither the sandbox nor the entry has anything in its environment.
 * - `/workspace` and `/tmp` inside are `ws` and `tmp` of the slot, `/workspace` a link where `ws` may not be there yet.
 * - The child exits with the code of the entry, and all that was started in the sandbox ends with it. SIGKILL of the
 *   child, or the death of this server, ends all of it, too.
 * - All of it is in the cgroup of `entrance`, where there is one.
 */
export type Launch = (slot: Slot, entry: readonly string[], entrance?: string) => Promise<Launched>;

const START_TIMEOUT_MS = 20_000;
/** The next place is made this long after a command began, or at its end: most are short, and go first. */
const NEXT_START_MS = 10;
/** How long a place that is to end may still be starting, and then its pipes be open. */
const END_GRACE_MS = 4000;
/** node does not start with less of RLIMIT_DATA; `watchLimits` holds the memory of all processes together. */
const MIN_DATA_BYTES = 1_073_741_824;
const MAX_OPEN_FILES = 1024;
/** Far beyond what the kernel takes for arguments and environment. */
const MAX_COMMAND_BYTES = 100_000_000;
const READY = 'r';
const NO_FOLDER = 'f';

/**
 * An execution that starts a place for each command by `launch`, one ahead. Resolves when the first one waits; rejects
 * with `sandbox.failed`, after 30 s at the latest, and then nothing is left. The slot may be without `ws` until the first
 * command. Of the environment of a command, names that bash keeps for itself, such as UID, do not reach it.
 */
export async function createOneShotExecution(
  slot: Slot,
  launch: Launch,
  options: { limits: SandboxLimits; cgroups?: Cgroups | undefined; signal: AbortSignal },
): Promise<Execution> {
  const { limits } = options;
  const cgroup = slot.user && options.cgroups?.create(limits.memoryBytes);
  const entry = toEntry(limits);
  const places = new Set<Place>();
  const runs = new Set<CommandRun>();
  let isClosed = false;

  const start = (): Place => {
    const place = createPlace(launch(slot, entry, cgroup?.entrance));
    places.add(place);
    void place.ended.then(() => places.delete(place));
    return place;
  };
  const startNext = () => {
    // A later command has its place before the next but one is made.
    if (!isClosed && !next?.isAlive) next = start();
  };
  const take = (): Place => {
    const taken = next?.isAlive ? next : start();
    next = undefined;
    return taken;
  };

  let next: Place | undefined = start();
  try {
    await waitForStart(next, options.signal);
  } catch (error) {
    await cgroup?.remove();
    throw error;
  }

  return {
    async exec(spec) {
      if (isClosed) throw sandboxError('closed', 'The sandbox was closed.');
      const command = toCommand(spec);
      const place = take();
      const run = createCommandRun(spec, { outputBytes: limits.outputBytes, kill: place.kill });
      runs.add(run);
      void follow(place, run, { spec, command, slot, cgroup, limits });
      const timer = setTimeout(startNext, NEXT_START_MS);
      void place.ended.then(() => {
        clearTimeout(timer);
        startNext();
      });
      return run.result.finally(() => runs.delete(run));
    },
    async close() {
      isClosed = true;
      for (const run of runs) run.stop('closed');
      for (const place of places) place.kill();
      await Promise.all([...places].map((place) => place.ended));
      await cgroup?.remove();
    },
  };
}

async function waitForStart(place: Place, signal: AbortSignal): Promise<void> {
  const stop = AbortSignal.any([signal, AbortSignal.timeout(START_TIMEOUT_MS)]);
  stop.addEventListener('abort', place.kill);
  if (stop.aborted) place.kill();
  const isReady = await place.isReady;
  stop.removeEventListener('abort', place.kill);
  if (isReady && !stop.aborted) return;
  await place.ended;
  if (signal.aborted) throw sandboxError('failed', 'The start of the sandbox was cancelled.', { cause: signal.reason });
  throw sandboxError(
    'failed',
    stop.aborted ? `The sandbox did not start in ${START_TIMEOUT_MS / 1000} s.` : startFailure(place),
  );
}

const startFailure = (place: Place) => `The sandbox did not start: ${place.complaint() || 'it ended at once'}.`;

interface Command {
  cwd: string;
  /** For the entry: a line of shell that sets its arguments, each of them quoted. */
  text: string;
}

/** Hands a command to a place and stays with it to its end. */
async function follow(
  place: Place,
  run: CommandRun,
  options: { spec: ExecSpec; command: Command; slot: Slot; cgroup: Cgroup | undefined; limits: SandboxLimits },
): Promise<void> {
  const { spec, command, slot, cgroup, limits } = options;
  if (!(await place.isReady) || place.wasKilled) {
    await place.ended;
    if (place.wasKilled) run.end(null);
    else run.fail(sandboxError('failed', startFailure(place)));
    return;
  }
  const { memoryBytes, diskBytes } = limits;
  const unwatch = watchLimits(
    { pid: place.pid, directory: slot.directory, memoryBytes, diskBytes, ...(cgroup && { kills: cgroup.kills }) },
    run.stop,
  );
  // Now, when it is known what was there before.
  place.hand(command.text, { stdin: spec.stdin ?? '', push: run.push });
  const exitCode = await place.ended;
  unwatch();
  if (place.hasNoFolder) {
    run.fail(noFolder(command.cwd));
    return;
  }
  // Somebody else killed it, such as the kernel when the host has no more memory.
  if (exitCode === null) run.stop('lost');
  run.end(exitCode);
}

/** One started sandbox, for one command. */
interface Place {
  readonly pid: number;
  /** False when it ended instead; never rejects. */
  readonly isReady: Promise<boolean>;
  /** Resolves to the exit code when it has ended and its output was read; null where a signal ended it. Never rejects. */
  readonly ended: Promise<number | null>;
  readonly isAlive: boolean;
  readonly wasKilled: boolean;
  readonly hasNoFolder: boolean;
  hand(command: string, streams: { stdin: string | Uint8Array; push: CommandRun['push'] }): void;
  kill(): void;
  /** What it wrote to its standard error before it had a command, for people. */
  complaint(): string;
}

function createPlace(launching: Promise<Launched>): Place {
  const { promise: isReady, resolve: setReady } = Promise.withResolvers<boolean>();
  const { promise: ended, resolve: setEnded } = Promise.withResolvers<number | null>();
  let launched: Launched | undefined;
  let push: CommandRun['push'] | undefined;
  const told = { complaint: '', status: '' };
  let isAlive = true;
  let wasKilled = false;
  const end = (exitCode: number | null) => {
    isAlive = false;
    setReady(false);
    setEnded(exitCode);
  };
  const kill = () => {
    if (wasKilled) return;
    wasKilled = true;
    if (launched) endPlace(launched, push !== undefined);
  };
  const attach = (started: Launched) => {
    launched = started;
    void endOf(started, (message) => (told.complaint = message)).then(end);
    started.stdout.on('data', (chunk: Buffer) => push?.('stdout', chunk));
    started.stderr.on('data', (chunk: Buffer) => {
      if (push) push('stderr', chunk);
      else told.complaint = (told.complaint + chunk.toString()).slice(0, 2000);
    });
    const status = started.child.stdio[4];
    if (status instanceof Readable) {
      status.on('data', (chunk: Buffer) => {
        told.status += chunk.toString();
        setReady(true);
      });
    }
    if (wasKilled) endPlace(started, false);
  };
  launching.then(attach).catch((error: unknown) => {
    told.complaint = messageOf(error);
    end(null);
  });
  return {
    get pid() {
      return launched?.child.pid ?? 0;
    },
    isReady,
    ended,
    get isAlive() {
      return isAlive && !wasKilled;
    },
    get wasKilled() {
      return wasKilled;
    },
    get hasNoFolder() {
      return told.status.endsWith(NO_FOLDER);
    },
    hand(command, streams) {
      push = streams.push;
      writeTo(launched?.child.stdio[3], command);
      writeTo(launched?.stdin, streams.stdin);
    },
    kill,
    complaint: () => told.complaint.trim(),
  };
}

/**
 * Ends a place. One without a command ends by itself, when it learns that there will be none: killed while it starts, some
 * of its processes would be left, as they do not depend on each other yet.
 */
function endPlace({ child, stdout, stderr }: Launched, hasCommand: boolean): void {
  if (hasCommand) child.kill('SIGKILL');
  else writeTo(child.stdio[3], '');
  const timer = setTimeout(() => child.kill('SIGKILL'), END_GRACE_MS);
  child.once('exit', () => {
    clearTimeout(timer);
    setTimeout(() => {
      stdout.destroy();
      stderr.destroy();
    }, END_GRACE_MS).unref();
  });
}

/** Resolves when the child has ended, and its output was read to its end. */
async function endOf(launched: Launched, onError: (message: string) => void): Promise<number | null> {
  const { child, stdin, stdout, stderr } = launched;
  const { promise: exited, resolve } = Promise.withResolvers<number | null>();
  child.once('exit', resolve);
  child.once('error', (error) => {
    onError(error.message);
    // It was never started.
    if (child.pid === undefined) resolve(null);
  });
  const [exitCode] = await Promise.all([exited, closeOf(stdout), closeOf(stderr)]);
  for (const stream of [stdin, ...child.stdio]) stream?.destroy();
  return exitCode;
}

function closeOf(stream: Readable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once('close', resolve);
  return promise;
}

function writeTo(stream: unknown, data: string | Uint8Array): void {
  if (!(stream instanceof Writable) || stream.writableEnded) return;
  stream.on('error', () => {
    // A command need not read what it is given.
  });
  stream.end(data);
}

function toCommand(spec: ExecSpec): Command {
  const { argv, cwd, env } = checkCommand(spec);
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const fields = [cwd, String(variables.length), ...variables, ...argv];
  return { cwd, text: `set -- ${fields.map(quote).join(' ')}` };
}

const quote = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`;

/**
 * What waits in a place. Its limits hold for all that it starts. It ends when it gets no command, as when the server died.
 * It reads by `-N`, as bash reads each byte by itself when it looks for a delimiter.
 */
function toEntry(limits: SandboxLimits): readonly string[] {
  const kilobytes = (bytes: number) => Math.floor(bytes / 1024);
  const script = `
ulimit -c 0 -n ${MAX_OPEN_FILES} -u ${limits.processes} -t ${limits.cpuSeconds} -f ${kilobytes(limits.fileBytes)} \\
  -d ${kilobytes(Math.max(limits.memoryBytes, MIN_DATA_BYTES))} || exit 125
for path in /proc/self/fd/*; do
  [ "\${path##*/}" -le 4 ] || eval "exec \${path##*/}>&-"
done
echo 1000 >/proc/self/oom_score_adj
printf ${READY} >&4
IFS= read -r -N ${MAX_COMMAND_BYTES} -u 3 command
[ "$command" ] && eval "$command" || exit 125
cd -- "$1" 2>/dev/null || { printf ${NO_FOLDER} >&4; exit 125; }
unset OLDPWD
shift
export -- "\${@:2:$1}" 2>/dev/null
shift "$(($1 + 1))"
exec 3<&- 4>&-
exec -- "$@"
`;
  return ['/bin/bash', '--norc', '--noprofile', '-c', script, 'sandbox'];
}
