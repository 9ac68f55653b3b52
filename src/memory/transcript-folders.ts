// Which folder has the readable conversations of which owner.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConversationKey, Owner } from '../kernel/index.ts';
import { decodeName, encodeName, toTranscriptName } from './transcript-names.ts';

export interface TranscriptFolders {
  folderOf(owner: Owner): string;
  pathOf(key: ConversationKey): string;
  /** Owners whose folders are there and tell whose they are. */
  find(): Promise<Owner[]>;
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
    async find() {
      const found: Owner[] = single ? [single] : [];
      for (const [tenant, folder] of await foldersIn(owners)) {
        for (const [owner] of await foldersIn(folder)) found.push({ tenant, owner });
      }
      return found;
    },
  };
}

async function foldersIn(folder: string): Promise<[id: string, path: string][]> {
  const found: [string, string][] = [];
  for (const entry of await list(folder)) {
    const id = entry.isDirectory() ? decodeName(entry.name.normalize('NFC')) : undefined;
    if (id !== undefined) found.push([id, join(folder, entry.name)]);
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
