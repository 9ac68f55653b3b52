// Which folder has the readable conversations of which owner.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConversationKey, Owner } from '../kernel/index.ts';
import { decodeName, encodeName, toTranscriptName } from './transcript-names.ts';

export interface TranscriptFolders {
  folderOf(owner: Owner): string;
  pathOf(key: ConversationKey): string;
  /** The folders that are there. `owner` is absent where its name does not tell whose it is. */
  find(warn: (error: unknown, folder: string) => void): AsyncIterable<{ folder: string; owner?: Owner }>;
}

const FOLDER = 'conversations';

/** `single`: the one owner of a personal server, whose folder is `<workspace>/conversations`. */
export function createTranscriptFolders(workspace: string, single: Owner | undefined): TranscriptFolders {
  const owners = join(workspace, 'owners');
  function folderOf({ tenant, owner }: Owner): string {
    if (single?.tenant === tenant && single.owner === owner) return join(workspace, FOLDER);
    return join(owners, encodeName(tenant).text, encodeName(owner).text, FOLDER);
  }
  return {
    folderOf,
    pathOf: (key) => join(folderOf(key), toTranscriptName(key.conversation).file),
    async *find(warn) {
      if (single) yield { folder: folderOf(single), owner: single };
      for (const tenant of await foldersIn(owners, warn)) {
        for (const { id, path } of await foldersIn(tenant.path, warn)) {
          const owner = tenant.id !== undefined && id !== undefined ? { tenant: tenant.id, owner: id } : undefined;
          // The one owner's is elsewhere.
          if (!owner || folderOf(owner) === join(path, FOLDER))
            yield { folder: join(path, FOLDER), ...(owner && { owner }) };
        }
      }
    },
  };
}

async function foldersIn(folder: string, warn: (error: unknown, folder: string) => void) {
  const found: { id: string | undefined; path: string }[] = [];
  try {
    for (const entry of await list(folder)) {
      if (!entry.isDirectory()) continue;
      found.push({ id: decodeName(entry.name.normalize('NFC')), path: join(folder, entry.name) });
    }
  } catch (error) {
    warn(error, folder);
  }
  return found;
}

/** What is in a folder; nothing where it is not there. */
export async function list(folder: string) {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}
