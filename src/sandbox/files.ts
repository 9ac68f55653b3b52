// The files of a workspace, on the host, while commands may change them: for every back end the same.
import type { Stats } from 'node:fs';
import { lstatSync, renameSync } from 'node:fs';
import { listFolder } from '../files/listing.ts';
import type { Owner } from '../files/open-beneath.ts';
import {
  PathRefused,
  openFile,
  openFolder,
  openParent,
  readRange,
  refuseAllButFile,
  removeEntry,
  replaceFile,
  toParts,
  toRoot,
} from '../files/open-beneath.ts';
import { sandboxError } from './errors.ts';
import type { FileInfo, SandboxFiles } from './sandbox.ts';

export interface WorkspaceFilesConfig {
  /** Whom all that is made here belongs to; the user of this process when absent. */
  user?: Owner;
  /** Of a write, and of what one read gives. */
  fileBytes: number;
  /** Awaited after each change, with the path below the workspace. */
  push?: (path: string) => Promise<void>;
}

const WORKSPACE = 'workspace';
const DEFAULT_LIMIT = 10_000;
const MAX_SHOWN = 200;

/** `root` is a folder that is there, or a link to one; throws node's ENOENT. Another one in its place later is refused. */
export function createWorkspaceFiles(root: string, config: WorkspaceFilesConfig): SandboxFiles {
  const { user, fileBytes } = config;
  const top = toRoot(root);
  const push = async (path: string) => config.push?.(toWorkspaceParts(path).join('/'));
  const parentOf = (path: string, make?: { owner?: Owner }) => openParent(top, toWorkspaceParts(path), make);

  return {
    stat: (path) =>
      named(path, () => {
        const parts = toWorkspaceParts(path);
        const below = parts.join('/');
        try {
          using folder = openFolder(top, parts.slice(0, -1));
          const stat = lstatSync(folder.at(parts.at(-1) ?? '.'), { throwIfNoEntry: false });
          return stat ? toFileInfo(below, stat) : null;
        } catch (error) {
          if (isMissing(error)) return null;
          throw error;
        }
      }),

    read: (path, { offset = 0, limit = Number.POSITIVE_INFINITY } = {}) =>
      named(path, async () => {
        const { folder, name } = parentOf(path);
        using _ = folder;
        using file = openFile(folder, name);
        const length = Math.min(limit, Math.max(0, file.stat.size - offset));
        if (length > fileBytes) {
          throw sandboxError('file_too_large', `${shown(path)}: ${length} bytes are more than ${fileBytes} at once`, {
            hint: 'Read a part of it, by offset and limit.',
          });
        }
        return await readRange(file, offset, length);
      }),

    write: async (path, data, { isExecutable } = {}) => {
      const bytes = typeof data === 'string' ? Buffer.from(data) : data;
      const info = await named(path, async () => {
        if (bytes.byteLength > fileBytes) {
          throw sandboxError('file_too_large', `${shown(path)}: ${bytes.byteLength} bytes are more than ${fileBytes}`);
        }
        const { folder, name } = parentOf(path, { owner: user });
        using _ = folder;
        const found = lstatSync(folder.at(name), { throwIfNoEntry: false });
        if (found) refuseAllButFile(found, name);
        const mode = toMode(found, isExecutable);
        const stat = await replaceFile(folder, name, { data: bytes, mode, owner: user });
        return toFileInfo(toWorkspaceParts(path).join('/'), stat);
      });
      await push(path);
      return info;
    },

    list: (path, { isRecursive = false, limit = DEFAULT_LIMIT } = {}) =>
      named(path, async () => {
        const parts = toWorkspaceParts(path);
        using folder = openFolder(top, parts);
        const { entries, isComplete } = await listFolder(folder, { isRecursive, limit });
        const files = entries.map((entry) => toFileInfo([...parts, entry.path].join('/'), entry.stat));
        return { files, isComplete };
      }),

    remove: async (path) => {
      await named(path, async () => {
        try {
          const { folder, name } = parentOf(path);
          using _ = folder;
          await removeEntry(folder, name);
        } catch (error) {
          if (!isMissing(error)) throw error;
        }
      });
      await push(path);
    },

    rename: async (from, to) => {
      const source = await named(from, () => parentOf(from));
      using _from = source.folder;
      await named(from, () => lstatSync(source.folder.at(source.name)));
      await named(to, () => {
        const target = parentOf(to);
        using _to = target.folder;
        renameSync(source.folder.at(source.name), target.folder.at(target.name));
      });
      await push(from);
      await push(to);
    },
  };
}

/** Relative, or from `/workspace` on, or as programs see it where that is a link. */
function toWorkspaceParts(path: string): string[] {
  const parts = toParts(path.replace(/^\/slot\/ws(?=\/|$)/, `/${WORKSPACE}`));
  if (path.startsWith('/') && parts.shift() !== WORKSPACE) throw new PathRefused('path', 'it is not below /workspace');
  return parts;
}

function toFileInfo(path: string, stat: Stats): FileInfo {
  const isFile = stat.isFile();
  const other = stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'other';
  return {
    path,
    kind: isFile ? 'file' : other,
    bytes: isFile ? stat.size : 0,
    modifiedAt: Math.trunc(stat.mtimeMs),
    isExecutable: isFile && (stat.mode & 0o111) !== 0,
  };
}

function toMode(found: Stats | undefined, isExecutable: boolean | undefined): number {
  const mode = found ? found.mode & 0o777 : 0o644;
  if (isExecutable === undefined) return mode;
  return isExecutable ? mode | 0o111 : mode & ~0o111;
}

const shown = (path: string) => JSON.stringify(path.length > MAX_SHOWN ? `${path.slice(0, MAX_SHOWN)}…` : path);
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? '';
const isMissing = (error: unknown) => codeOf(error) === 'ENOENT';

/** What a model can understand and change. All else is `sandbox.failed`. */
const refusals: Record<string, string> = {
  EACCES: 'its mode does not allow it',
  EEXIST: 'a folder that is not empty is in its place',
  EINVAL: 'a folder cannot be moved into itself',
  ELOOP: 'a part of it became a link',
  ENAMETOOLONG: 'a name in it is too long',
  ENOTDIR: 'a file is where a folder should be',
  ENOTEMPTY: 'a folder that is not empty is in its place',
  EPERM: 'its mode does not allow it',
};

/** Runs `work`; what it refuses or fails with becomes an error that names the path. */
async function named<T>(path: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toSandboxError(path, error);
  }
}

function toSandboxError(path: string, cause: unknown): unknown {
  if (cause instanceof PathRefused) {
    const kind = cause.kind === 'folder' ? 'not_a_file' : 'path_refused';
    return sandboxError(kind, `${shown(path)}: ${cause.message}`, { cause });
  }
  const code = codeOf(cause);
  const refusal = refusals[code];
  if (refusal) return sandboxError('path_refused', `${shown(path)}: ${refusal}`, { cause });
  if (code === 'ENOENT') return sandboxError('file_not_found', `${shown(path)} is not there`, { cause });
  if (code === 'EISDIR') return sandboxError('not_a_file', `${shown(path)} is a folder`, { cause });
  if (code === 'EFBIG') return sandboxError('file_too_large', `${shown(path)} is too large for the disk`, { cause });
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return sandboxError('disk_full', `${shown(path)}: there is no space left`, { cause });
  }
  if (code.startsWith('E')) return sandboxError('failed', `${shown(path)}: the file system answers ${code}`, { cause });
  return cause;
}
