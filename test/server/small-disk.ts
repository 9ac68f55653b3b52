// A disk of a few megabytes, where this user may mount one.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SmallDisk extends Disposable {
  path: string;
  /** Leaves at most so many bytes. */
  fillUp(leave: number): void;
  makeSpace(): void;
}

export const canMount = process.platform === 'linux' && process.getuid?.() === 0 && tryMount();

function tryMount(): boolean {
  try {
    createSmallDisk(1)[Symbol.dispose]();
    return true;
  } catch {
    return false; // the tests say that they were skipped
  }
}

export function createSmallDisk(megabytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'homard-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', path], { stdio: 'ignore' });
  } catch (error) {
    rmSync(path, { recursive: true, force: true });
    throw error;
  }
  const filler = join(path, 'filler');
  return {
    path,
    fillUp(leave) {
      const file = openSync(filler, 'a');
      const chunk = Buffer.alloc(65_536);
      try {
        for (;;) {
          const { bavail, bsize } = statfsSync(path);
          const size = Math.min(chunk.length, bavail * bsize - leave);
          if (size <= 0) return;
          writeSync(file, chunk, 0, size);
        }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
    },
    makeSpace: () => rmSync(filler, { force: true }),
    [Symbol.dispose]() {
      execFileSync('umount', [path]);
      rmSync(path, { recursive: true, force: true });
    },
  };
}
