// One virtual machine of E2B, and commands in it. The SDK's own `commands.run` goes through a login shell and turns output
// into text, so this speaks to the same service of the machine by the client that the SDK has for it.
import type { Sandbox as Machine } from 'e2b';
import { sandboxError } from '../errors.ts';

/** In the environment of every process that is started here: the id of a command, or '' for a step of our own. */
export const MARK = 'HOMARD_COMMAND';

export interface MachineCommand {
  argv: readonly [string, ...string[]];
  id?: string;
  env?: Readonly<Record<string, string>>;
  isRoot?: boolean;
  /** Ends the watching; the command goes on. */
  signal?: AbortSignal;
  onStart?: () => void;
  onOutput?: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void;
}

/**
 * Resolves when the command has ended and nothing holds its output any more; to null where a signal ended it. Rejects
 * when the connection breaks or the machine is gone.
 */
export async function runInMachine(machine: Machine, command: MachineCommand): Promise<number | null> {
  const [cmd, ...args] = command.argv;
  const headers = {
    'Keepalive-Ping-Interval': '50',
    ...(command.isRoot && { Authorization: `Basic ${Buffer.from('root:').toString('base64')}` }),
  };
  const call = { headers, ...(command.signal && { signal: command.signal }) };
  // Protected, not private: the wire below it is public, and 2.51 is the version that the tests run with.
  const events = machine.commands['rpc'].start(
    { process: { cmd, args, envs: { ...command.env, [MARK]: command.id ?? '' }, cwd: '/' }, stdin: false },
    call,
  );
  for await (const { event } of events) {
    const found = event?.event;
    if (found?.case === 'start') command.onStart?.();
    else if (found?.case === 'end') return found.value.exited ? found.value.exitCode : null;
    else if (found?.case === 'data') {
      const { output } = found.value;
      if (output.case === 'stdout' || output.case === 'stderr') command.onOutput?.(output.case, output.value);
    }
  }
  throw sandboxError('failed', 'The machine told no end of a command.');
}

export interface AskConfig {
  limitBytes: number;
  signal: AbortSignal;
  isRoot?: boolean;
}

/** What a script of bash writes to its standard output. Rejects with `sandbox.failed` unless it ends with 0. */
export async function askMachine(
  machine: Machine,
  [script, ...args]: readonly [string, ...string[]],
  { limitBytes, ...rest }: AskConfig,
): Promise<Buffer> {
  const output = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  let bytes = 0;
  const tooMuch = new AbortController();
  const signal = AbortSignal.any([rest.signal, tooMuch.signal]);
  const exitCode = await runInMachine(machine, {
    ...rest,
    argv: ['/bin/bash', '-c', script, 'homard', ...args],
    signal,
    onOutput(stream, chunk) {
      bytes += chunk.byteLength;
      if (bytes > limitBytes)
        tooMuch.abort(sandboxError('failed', `More than ${limitBytes} bytes came from a machine.`));
      else output[stream].push(chunk);
    },
  });
  if (exitCode === 0) return Buffer.concat(output.stdout);
  const said = Buffer.concat(output.stderr).toString().trim().slice(0, 500);
  throw sandboxError('failed', `A step in the machine ended with ${exitCode}: ${said || 'it said nothing'}`);
}

/** Whether the machine answers. */
export async function isAlive(machine: Machine): Promise<boolean> {
  try {
    return await machine.isRunning({ requestTimeoutMs: 5_000 });
  } catch {
    // Not to be reached is as good as gone: nothing can be done with it.
    return false;
  }
}
