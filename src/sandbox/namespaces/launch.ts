// Starts the program that makes a sandbox: with nothing in its environment, in a session of its own, as the user of the
// slot.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { type Readable, Writable } from 'node:stream';
import { createPipes } from './pipes.ts';
import type { Slot } from '../sandbox.ts';

/** A started program. Its standard streams are pipes; its descriptors from 3 on are `child.stdio`. */
export interface Launched {
  child: ChildProcess;
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
}

/**
 * Where a started program finds the folder of the slot. The user of a slot may not be able to enter a folder on the way
 * to it, such as /root; so it is mounted there, where only the program and what it starts see it.
 */
export const folderSeen = (slot: Slot): string => (slot.user ? '/tmp' : slot.directory);

/**
 * Becomes the first to be ended when the host has no more memory, which others than root cannot take back; enters the cgroup
 * of "$1" where there is one, mounts "$2", becomes the user "$3" of the group "$4", and goes on as the program that follows:
 * with the same pid and parent.
 */
const ENTER = `
echo 1000 >/proc/self/oom_score_adj
if [ "$1" ]; then echo 0 >"$1" || exit; fi
mount --bind "$2" /tmp || exit
user=$3 group=$4
shift 4
exec env -i setpriv --reuid "$user" --regid "$group" --clear-groups -- "$@"
`;

/** Of this process: pipes have no owner until they are taken. */
const pipes = createPipes();

/**
 * Starts a program for a slot. Its descriptors 3 and 4 are for the entry, see one-shot.ts; from 5 on it reads `inputs`,
 * in their order. It is in the cgroup of `entrance`, for a slot that has a user. SIGINT of a terminal does not reach it.
 * Rejects where there are no pipes.
 */
export async function launch(
  slot: Slot,
  argv: readonly string[],
  { inputs = [], entrance = '' }: { inputs?: readonly (string | Uint8Array)[]; entrance?: string | undefined },
): Promise<Launched> {
  const enter = slot.user ? toEnter(slot.directory, slot.user, entrance) : [];
  const launched = await spawnWithPipes([...enter, ...argv], 2 + inputs.length);
  for (const [index, input] of inputs.entries()) {
    const stream: unknown = launched.child.stdio[5 + index];
    if (!(stream instanceof Writable)) continue;
    stream.on('error', () => {
      // It ended before it read this; what it says on its standard error tells why.
    });
    stream.end(input);
  }
  return launched;
}

function toEnter(directory: string, user: { uid: number; gid: number }, entrance: string): string[] {
  const enter = ['/bin/sh', '-c', ENTER, 'sh', entrance, directory, String(user.uid), String(user.gid)];
  return ['unshare', '--mount', '--propagation', 'private', '--', ...enter];
}

async function spawnWithPipes(argv: readonly string[], more: number): Promise<Launched> {
  const [stdin, stdout, stderr] = await Promise.all([
    pipes.take('to_child'),
    pipes.take('from_child'),
    pipes.take('from_child'),
  ]);
  const ends = [stdin.read, stdout.write, stderr.write];
  const [program = '', ...args] = argv;
  try {
    return {
      child: spawn(program, args, {
        cwd: '/',
        env: {},
        stdio: [...ends, ...Array<'pipe'>(more).fill('pipe')],
        detached: true,
      }),
      stdin: new Socket({ fd: stdin.write, readable: false, writable: true }),
      stdout: new Socket({ fd: stdout.read, readable: true, writable: false }),
      stderr: new Socket({ fd: stderr.read, readable: true, writable: false }),
    };
  } finally {
    for (const end of ends) closeSync(end);
  }
}
