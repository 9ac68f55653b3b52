import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

/** Swaps two names at once, again and again: there is no moment when one of them is not there. */
const byExchange = `
import ctypes, sys
call = ctypes.CDLL(None).renameat2
names = [name.encode() for name in sys.argv[1:]]
pairs = list(zip(names[::2], names[1::2]))
print('ready', flush=True)
while True:
  for a, b in pairs: call(-100, a, -100, b, 2)
`;
const byRenames = `
const { renameSync } = require('node:fs');
const names = process.argv.slice(1);
const move = (from, to) => { try { renameSync(from, to); } catch { /* The other side has it just now. */ } };
console.log('ready');
for (let at = 0; ; at = (at + 2) % names.length) {
  const [a, b] = names.slice(at);
  move(a, a + '~'); move(b, a); move(a + '~', b);
}
`;
const canExchange = (program: string) =>
  spawnSync(program, ['-c', 'import ctypes; ctypes.CDLL(None).renameat2']).status === 0;
/** That of the system first: one of a version manager takes long to start. Undefined where there is none. */
export const python = ['/usr/bin/python3', 'python3'].find(canExchange);

/** Another process swaps the names of each pair in a loop, from now until disposal. */
export async function swapping(...pairs: [string, string][]): Promise<AsyncDisposable> {
  const start = python ? [python, '-c', byExchange] : [process.execPath, '-e', byRenames];
  const [program = '', ...args] = [...start, ...pairs.flat()];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}
