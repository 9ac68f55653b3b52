// One command in a running container: how it is handed over, and how its two streams come back in one.
import type Docker from 'dockerode';
import type { Duplex } from 'node:stream';
import { checkCommand } from '../command.ts';
import type { CommandRun } from '../run.ts';
import type { ExecSpec } from '../sandbox.ts';

const NO_FOLDER = '\0no folder\0';

/** Nothing of the command is parsed as shell: folder, program and arguments are arguments of it. */
const ENTER = `
cd -- "$1" 2>/dev/null || { printf '\\0no folder\\0' >&2; exit 125; }
unset OLDPWD
shift
exec -- "$@"`;

/** Throws `sandbox.invalid_command`. */
export function toExecOptions(spec: ExecSpec): Docker.ExecCreateOptions & { WorkingDir: string } {
  // The container has the other variables.
  const { argv, cwd, env } = checkCommand(spec, {});
  return {
    Cmd: ['bash', '--norc', '--noprofile', '-c', ENTER, 'sandbox', cwd, ...argv],
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    WorkingDir: '/',
    AttachStdin: spec.stdin !== undefined,
    AttachStdout: true,
    AttachStderr: true,
  };
}

/** Feeds a command and reads it to the end of its output. Never rejects. */
export async function converse(
  stream: Duplex,
  { stdin, push }: { stdin: ExecSpec['stdin']; push: CommandRun['push'] },
): Promise<{ hasNoFolder: boolean }> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let hasNoFolder = false;
  stream.on(
    'data',
    createDemux((name, chunk) => {
      if (name === 'stderr' && Buffer.from(chunk).toString('latin1') === NO_FOLDER) hasNoFolder = true;
      else push(name, chunk);
    }),
  );
  stream.once('end', end);
  stream.once('close', end);
  // A command need not read what it is given, and a connection that broke has ended.
  stream.on('error', end);
  if (stdin !== undefined) stream.end(stdin);
  await ended;
  stream.destroy();
  return { hasNoFolder };
}

const HEADER_BYTES = 8;

/**
 * Takes apart what the daemon sends: frames of a header (stream, three zeros, length) and bytes. A frame is passed on in
 * pieces as they come. dockerode's own one overflows the stack, where many small frames come at once.
 */
export function createDemux(onChunk: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void): (data: Buffer) => void {
  const header = Buffer.alloc(HEADER_BYTES);
  let headerBytes = 0;
  let left = 0;
  return (data) => {
    for (let at = 0; at < data.length;) {
      if (left === 0) {
        const taken = data.copy(header, headerBytes, at, at + HEADER_BYTES - headerBytes);
        at += taken;
        headerBytes += taken;
        if (headerBytes < HEADER_BYTES) return;
        headerBytes = 0;
        left = header.readUInt32BE(4);
      } else {
        const chunk = data.subarray(at, at + left);
        at += chunk.length;
        left -= chunk.length;
        onChunk(header[0] === 2 ? 'stderr' : 'stdout', chunk);
      }
    }
  };
}
