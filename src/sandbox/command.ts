// What is checked of a command before a back end has it, and what every command has in its environment.
import { posix } from 'node:path';
import { sandboxError } from './errors.ts';
import type { ExecSpec } from './sandbox.ts';

export const SYSTEM_PATH = '/usr/local/bin:/usr/bin:/bin';

/** Unless the command says otherwise. */
export const baseEnv: Readonly<Record<string, string>> = {
  PATH: SYSTEM_PATH,
  HOME: '/workspace',
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
  USER: 'sandbox',
};

export interface CheckedCommand {
  argv: ExecSpec['argv'];
  /** `/workspace`, `/tmp` or a folder below them; whether it is there is not known. */
  cwd: string;
  env: Record<string, string>;
}

/** Checks a command as far as that can be done outside. Throws `sandbox.invalid_command`. */
export function checkCommand({ argv, cwd = '', env }: ExecSpec, base = baseEnv): CheckedCommand {
  const invalid = (message: string) => sandboxError('invalid_command', message);
  if (!argv[0]) throw invalid('The command has no program.');
  const folder = posix.resolve('/workspace', cwd);
  if (!/^\/(workspace|tmp)(\/|$)/.test(folder)) throw invalid(`The folder ${folder} is not below /workspace.`);
  const all = { ...base, ...env };
  const wrong = Object.keys(all).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (wrong !== undefined) throw invalid(`${JSON.stringify(wrong)} is not the name of an environment variable.`);
  if ([folder, ...argv, ...Object.values(all)].some((text) => text.includes('\0'))) {
    throw invalid('The command, its folder or its environment has a NUL character.');
  }
  return { argv, cwd: folder, env: all };
}

export const noFolder = (folder: string): Error =>
  sandboxError('invalid_command', `There is no folder ${folder} to run the command in.`);
