// Pipes for the standard streams of commands. Node connects its children by sockets, which nothing can open by a name: a
// command could not write to /dev/stderr or read /dev/stdin. And it makes no pipes, so a shell does.
import { spawn } from 'node:child_process';
import { closeSync, constants, fchmodSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { sandboxError } from '../errors.ts';

/** Two descriptors, which the taker closes. The end of this process does not block; that of the child does. */
export interface Pipe {
  read: number;
  write: number;
}

export interface Pipes {
  /** Rejects with `sandbox.failed` where none can be made. */
  take(direction: 'to_child' | 'from_child'): Promise<Pipe>;
}

/** Made at once. */
const BATCH = 18;
const { O_RDONLY, O_WRONLY, O_RDWR, O_NONBLOCK } = constants;

/** A process substitution makes a pipe. (Those of `mkfifo` will not do: without a writer, to open one waits for ever.) */
const MAKE = `for ((i = 0; i < ${BATCH}; i++)); do exec {pipe}<> <(:) && echo "$pipe"; done; read -r`;

/** Keeps some pipes in stock, a descriptor each. */
export function createPipes(): Pipes {
  const stock: number[] = [];
  let filling: Promise<void> | undefined;

  const fill = (): Promise<void> => {
    const makeMore = async () => {
      try {
        stock.push(...(await makePipes()));
      } finally {
        filling = undefined;
      }
    };
    return (filling ??= makeMore());
  };
  return {
    async take(direction) {
      while (!stock.length) await fill();
      const pipe = stock.pop()!;
      if (stock.length < BATCH / 2) {
        fill().catch(() => {
          // Whoever finds none is told.
        });
      }
      return direction === 'to_child'
        ? split(pipe, { read: 0, write: O_NONBLOCK })
        : split(pipe, { read: O_NONBLOCK, write: 0 });
    },
  };
}

/** Each is one descriptor for both ends. */
async function makePipes(): Promise<number[]> {
  const shell = spawn('bash', ['--norc', '--noprofile', '-c', MAKE], { env: {}, stdio: ['pipe', 'pipe', 'ignore'] });
  const failed = new Promise<never>((_, reject) => {
    shell.once('error', reject);
  });
  failed.catch(() => {
    // Told below, or after all that was wanted.
  });
  const pipes: number[] = [];
  const open = async () => {
    for await (const descriptor of createInterface(shell.stdout)) {
      const pipe = openSync(`/proc/${shell.pid}/fd/${descriptor}`, O_RDWR | O_NONBLOCK);
      // The child may be another user, and open it anew.
      fchmodSync(pipe, 0o666);
      if (pipes.push(pipe) === BATCH) return;
    }
    throw sandboxError('failed', 'The pipes for a command could not be made.');
  };
  try {
    await Promise.race([open(), failed]);
    return pipes;
  } catch (error) {
    for (const pipe of pipes) closeSync(pipe);
    throw error;
  } finally {
    shell.stdin.end();
  }
}

function split(pipe: number, flags: { read: number; write: number }): Pipe {
  const path = `/proc/self/fd/${pipe}`;
  const ends = { read: openSync(path, O_RDONLY | flags.read), write: openSync(path, O_WRONLY | flags.write) };
  closeSync(pipe);
  return ends;
}
