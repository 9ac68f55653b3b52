// The files of a conversation for who does not have them: in their folder, with a run, or not there yet. Each call looks
// where they are.
import { AgentError } from '../kernel/index.ts';
import { sandboxError } from './errors.ts';
import { checkQuota, countBytes } from './quota.ts';
import type { SandboxFiles } from './sandbox.ts';

export interface FilesAnywhere extends SandboxFiles {
  /** A `write` for many files, one after the other, that counts what is there only once and then what it writes itself. */
  writer(): SandboxFiles['write'];
}

export interface FilesAnywhereConfig {
  /** `root` is another one when they have moved; undefined: there is no folder. */
  locate(): Promise<{ root: string; files: SandboxFiles } | undefined>;
  make(): Promise<void>;
  /** Of all files together, for a write. */
  diskBytes: number;
}

const MOST_TRIES = 3;

export function createFilesAnywhere({ locate, make, diskBytes }: FilesAnywhereConfig): FilesAnywhere {
  /** Again where they moved meanwhile. */
  async function reach<T>(call: (files: SandboxFiles) => Promise<T>, nowhere: () => T | Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const found = await locate();
      if (!found) return await nowhere();
      try {
        return await call(found.files);
      } catch (error) {
        const isGone = error instanceof AgentError && GONE.has(error.code);
        if (!isGone || tries === MOST_TRIES || (await locate())?.root === found.root) throw error;
      }
    }
  }

  const missing = (path: string) => (): never => {
    throw sandboxError('file_not_found', `There is no ${JSON.stringify(path.slice(0, 200))}.`);
  };

  function writer(): SandboxFiles['write'] {
    let used: number | undefined;
    return async (path, data, options) => {
      if (!(await locate())) await make();
      return await reach(async (files) => {
        used ??= await countBytes(files);
        checkQuota(used + Buffer.byteLength(data), diskBytes);
        const written = await files.write(path, data, options);
        used += written.bytes;
        return written;
      }, missing(path));
    };
  }

  return {
    // null may mean that they moved between two looks.
    stat: (path) =>
      reach(
        async (files) => (await files.stat(path)) ?? ((await files.stat('')) ? null : missing(path)()),
        () => null,
      ),
    read: (path, range) => reach((files) => files.read(path, range), missing(path)),
    list: (path, options) =>
      reach(
        (files) => files.list(path, options),
        () => (isTop(path) ? { files: [], isComplete: true } : missing(path)()),
      ),
    write: (...args) => writer()(...args),
    writer,
    remove: (path) =>
      reach(
        (files) => files.remove(path),
        () => undefined,
      ),
    rename: (from, to) => reach((files) => files.rename(from, to), missing(from)),
  };
}

/** What is told of a folder that went away, or that another one stands in the place of. */
const GONE = new Set(['sandbox.file_not_found', 'sandbox.path_refused']);

const isTop = (path: string): boolean => /^\/*(?:workspace)?[/.]*$/.test(path);
