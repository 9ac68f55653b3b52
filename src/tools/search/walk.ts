// All files below a folder of the workspace, folder by folder, so that what is not wanted is never listed.
import type { FileInfo, SandboxFiles } from '../../sandbox/sandbox.ts';

/** Only walked into where they are named: others' files, and what Bash kept. */
const APART = ['.git', 'node_modules', '.outputs'];

export const apartText = APART.join(', ');

/** Whoever walks looks at no more files than this; one more lets it see that there are more. */
export const MOST_WALKED = 100_000;

interface WalkConfig {
  signal: AbortSignal;
  /** The path and the pattern that were asked for: a folder that is named in them is not left out. */
  named: readonly string[];
}

/** In the order of their names. A folder that goes away meanwhile, or may not be entered, is passed over. */
export async function* walk(
  files: SandboxFiles,
  path: string,
  { signal, named }: WalkConfig,
): AsyncGenerator<FileInfo> {
  const names = new Set(named.flatMap((text) => text.split('/')));
  const apart = APART.filter((name) => !names.has(name));
  const open = [path];
  while (open.length) {
    signal.throwIfAborted();
    const folder = open.pop()!;
    const entries = await entriesOf(files, folder, folder === path);
    for (const entry of entries) if (entry.kind === 'file') yield entry;
    const folders = entries.filter(({ kind, path: at }) => kind === 'folder' && !apart.includes(nameOf(at)));
    open.push(...folders.map((entry) => entry.path).reverse());
  }
}

export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

async function entriesOf(files: SandboxFiles, folder: string, isFirst: boolean): Promise<FileInfo[]> {
  try {
    return (await files.list(folder, { limit: MOST_WALKED + 1 })).files;
  } catch (error) {
    if (isFirst) throw error;
    return [];
  }
}
