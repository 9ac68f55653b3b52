// How much disk the files of a conversation may have where the server writes them; commands are watched.
import { sandboxError } from './errors.ts';
import type { SandboxFiles } from './sandbox.ts';

const MOST_COUNTED = 100_000;
/** So much is written before it is counted again what is there: a count looks at every file. */
const UNCOUNTED_BYTES = 1_000_000;

/** Throws `sandbox.disk_full`. */
export function checkQuota(bytes: number, diskBytes: number): void {
  if (bytes <= diskBytes) return;
  throw sandboxError('disk_full', `The files of this conversation would be more than ${diskBytes} bytes.`);
}

export async function countBytes(files: SandboxFiles): Promise<number> {
  const all = await files.list('', { isRecursive: true, limit: MOST_COUNTED });
  return all.files.reduce((sum, file) => sum + file.bytes, 0);
}

/** The same files; a write that would make them more than `diskBytes` and a megabyte rejects with `sandbox.disk_full`. */
export function withQuota(files: SandboxFiles, diskBytes: number): SandboxFiles {
  let uncounted = 0;
  return {
    ...files,
    async write(path, data, options) {
      const bytes = Buffer.byteLength(data);
      if (uncounted + bytes > UNCOUNTED_BYTES) {
        checkQuota((await countBytes(files)) + bytes, diskBytes);
        uncounted = 0;
      } else uncounted += bytes;
      return await files.write(path, data, options);
    },
  };
}
