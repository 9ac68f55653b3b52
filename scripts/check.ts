// All checks that need no running code, side by side; prints what failed and how long each took.
import { spawn } from 'node:child_process';

const checks: Record<string, string[]> = {
  types: ['tsc', '-p', '.'],
  'web types': ['web/node_modules/.bin/vue-tsc', '-p', 'web', '--noEmit'],
  lint: ['oxlint', '--type-aware'],
  format: ['oxfmt', '--check', 'src', 'test', 'scripts', 'bench', 'examples', 'web'],
  structure: ['node', 'scripts/structure.ts'],
  unused: ['knip'],
  docs: ['node', 'scripts/docs.ts'],
};

async function run(name: string, [command = '', ...rest]: string[]): Promise<boolean> {
  const started = performance.now();
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const code = await new Promise<number>((resolve) => child.once('close', (status) => resolve(status ?? 1)));
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`);
  if (code !== 0) console.log(output);
  return code === 0;
}

const results = await Promise.all(Object.entries(checks).map(([name, command]) => run(name, command)));
process.exitCode = results.every(Boolean) ? 0 : 1;
