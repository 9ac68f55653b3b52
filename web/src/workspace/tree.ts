// The flat list of a workspace as the rows of a tree.
import type { WorkspaceFile } from '../api/types.ts';

export interface TreeRow {
  file: WorkspaceFile;
  /** The last part of its path, as it is. */
  name: string;
  /** 0: in the workspace itself. */
  level: number;
  /** Only of folders. */
  isOpen?: boolean;
  /** How many are in a folder, without those further down. */
  count?: number;
}

/** Beyond, folders below the first level begin closed, and so does a folder of more than MANY_INSIDE. */
const MANY = 100;
const MANY_INSIDE = 50;
/** Where tools keep what was too long to show. */
const OUTPUTS = '.outputs';

const { compare } = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

/** Folders before files, by name, `.outputs` last. `chosen`: what the reader opened (true) and closed, by path. */
export function toRows(files: readonly WorkspaceFile[], chosen: ReadonlyMap<string, boolean>): TreeRow[] {
  const folders = new Set(files.filter(({ kind }) => kind === 'folder').map(({ path }) => path));
  const inside = Map.groupBy(files, ({ path }) => parentOf(path, folders));
  const isMany = files.length > MANY;
  const rows: TreeRow[] = [];

  function isOpen(path: string, { level, count }: { level: number; count: number }): boolean {
    const automatic = path !== OUTPUTS && !(isMany && (level > 0 || count > MANY_INSIDE));
    return chosen.get(path) ?? automatic;
  }

  function add(folder: string, level: number): void {
    for (const file of (inside.get(folder) ?? []).toSorted(inOrder)) {
      const name = file.path.slice(folder ? folder.length + 1 : 0);
      if (file.kind !== 'folder') {
        rows.push({ file, name, level });
        continue;
      }
      const count = inside.get(file.path)?.length ?? 0;
      const row = { file, name, level, count, isOpen: isOpen(file.path, { level, count }) };
      rows.push(row);
      if (row.isOpen) add(file.path, level + 1);
    }
  }

  add('', 0);
  return rows;
}

/** '' is the workspace, which also has what stands in a folder that was not told. */
function parentOf(path: string, folders: ReadonlySet<string>): string {
  const parent = path.slice(0, Math.max(0, path.lastIndexOf('/')));
  return folders.has(parent) ? parent : '';
}

function inOrder(a: WorkspaceFile, b: WorkspaceFile): number {
  const rank = ({ kind, path }: WorkspaceFile) => (path === OUTPUTS ? 2 : kind === 'folder' ? 0 : 1);
  // Names that differ only in case or accents stay in the order of the server.
  return rank(a) - rank(b) || compare(a.path, b.path);
}
