import { sandboxError } from './errors.ts';
import type { SandboxFiles } from './sandbox.ts';

/** The files of a conversation that has none: the first that is written makes its folder. */
export function withoutFolder(make: () => Promise<SandboxFiles>): SandboxFiles {
  const missing = (path: string) => {
    return Promise.reject(sandboxError('file_not_found', `There is no ${JSON.stringify(path.slice(0, 200))}.`));
  };
  return {
    stat: () => Promise.resolve(null),
    read: missing,
    write: async (path, data, options) => await (await make()).write(path, data, options),
    list: (path) => (isRoot(path) ? Promise.resolve({ files: [], isComplete: true }) : missing(path)),
    remove: () => Promise.resolve(),
    rename: missing,
  };
}

const isRoot = (path: string): boolean => /^\/*(?:workspace)?[/.]*$/.test(path);
