// PGlite's own file system never calls fsync (electric-sql/pglite#1107): commits would live in the page cache only.
// This one adds what PostgreSQL expects of a disk: fsync of files, and of directories after a create or a rename.
import { closeSync, fdatasyncSync, fsyncSync, openSync, renameSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';

interface FsNode {
  name: string;
}

interface FsStream {
  node: FsNode;
  nfd?: number;
}

/** The part of Emscripten's NODEFS that is patched; checked at run time, because it is not a public interface. */
interface NodeFileSystem {
  realPath: (node: FsNode) => string;
  tryFSOperation: <T>(operation: () => T) => T;
  stream_ops: { fsync?: (stream: FsStream) => number };
  node_ops: {
    mknod: (parent: FsNode, name: string, mode: number, device: number) => FsNode;
    rename: (node: FsNode, parent: FsNode, name: string) => void;
  };
}

export interface DurableFsConfig {
  /** Counts the syncs and leaves them out: for a directory that is being made; syncTree() follows. */
  isDraft: boolean;
  /** The disk refused a sync. Must end the thread: PostgreSQL may not go on as if nothing were lost. */
  onFailure: (error: unknown) => never;
}

type Options = Awaited<ReturnType<NodeFS['init']>>['emscriptenOpts'];

/** NodeFS that syncs. */
export class DurableFs extends NodeFS {
  /** File syncs that PostgreSQL asked for; those of directories are not counted. */
  syncs = 0;
  /** False when PGlite's internals are not the ones this patch knows. */
  isPatched = false;
  readonly #config: DurableFsConfig;

  constructor(directory: string, config: DurableFsConfig) {
    super(directory);
    this.#config = config;
  }

  override async init(pglite: PGlite, options: Options): Promise<{ emscriptenOpts: Options }> {
    const { emscriptenOpts } = await super.init(pglite, options);
    const patch = (module: { FS: unknown }) => {
      const { filesystems } = module.FS as { filesystems?: { NODEFS?: NodeFileSystem } };
      if (filesystems?.NODEFS) this.#patch(filesystems.NODEFS);
    };
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [patch, ...(emscriptenOpts.preRun ?? [])] } };
  }

  #patch(files: NodeFileSystem): void {
    const { mknod, rename } = files.node_ops;
    if (![mknod, rename, files.realPath, files.tryFSOperation].every((part) => typeof part === 'function')) return;
    files.stream_ops.fsync = ({ node, nfd }) => {
      this.syncs++;
      this.#sync(() => (nfd === undefined ? syncDirectory(files.realPath(node)) : fdatasyncSync(nfd)));
      return 0;
    };
    files.node_ops.mknod = (parent, name, mode, device) => {
      const node = mknod(parent, name, mode, device);
      this.#sync(() => syncDirectory(files.realPath(parent)));
      return node;
    };
    // Written anew: the original first unlinks the target, under a path of the host inside the virtual tree.
    files.node_ops.rename = (node, parent, name) => {
      files.tryFSOperation(() => renameSync(files.realPath(node), join(files.realPath(parent), name)));
      node.name = name;
      this.#sync(() => syncDirectory(files.realPath(parent)));
    };
    this.isPatched = true;
  }

  #sync(operation: () => void): void {
    if (this.#config.isDraft) return;
    try {
      operation();
    } catch (error) {
      this.#config.onFailure(error);
    }
  }
}

/** Makes the entries of a directory durable: names that were created, renamed or removed in it. */
export function syncDirectory(directory: string): void {
  const handle = openSync(directory, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Many syncs at once share a commit of the disk's own journal: 0.2-0.6 s for a new database instead of 2 s. */
const PARALLEL = 8;

/** Syncs every file and directory below and including `directory`, for what was not written through DurableFs. */
export async function syncTree(directory: string): Promise<void> {
  const paths = [directory];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile() || entry.isDirectory()) paths.push(join(entry.parentPath, entry.name));
  }
  const run = async () => {
    for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
      await using handle = await open(path, 'r');
      await handle.sync();
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, run));
}
