// Contents by their hash, below one folder: `<bucket of the owner>/<2 hex>/<sha256>`. Nothing that a person or a model
// wrote becomes part of a path.
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openDraft } from './atomic.ts';

export interface BlobOwner {
  tenant: string;
  owner: string;
}

export interface Blobs {
  /**
   * Keeps what `source` gives until it ends, flushed to disk; nothing stays when it fails. `id` is the SHA-256 in hex: the
   * same content of the same owner is one file.
   */
  write(owner: BlobOwner, source: AsyncIterable<Uint8Array>): Promise<{ id: string; bytes: number }>;
  /** An open file, for the caller to close; undefined when there is none of that name. */
  open(owner: BlobOwner, id: string): Promise<FileHandle | undefined>;
  /** False where it was written at or after `writtenBefore`: then it stays. What is not there is removed. */
  remove(owner: BlobOwner, id: string, writtenBefore?: Date): Promise<boolean>;
}

/** Drafts older than this belong to a process that died. */
const STALE_MS = 3_600_000;

export function createBlobs(root: string): Blobs {
  const drafts = join(root, 'drafts');
  let swept: Promise<void> | undefined;
  const pathOf = (owner: BlobOwner, id: string) => join(root, bucketOf(owner), id.slice(0, 2), id);
  return {
    async write(owner, source) {
      // What stands in its way stands in the way of the draft, too, which tells of it.
      await (swept ??= removeStale(drafts).catch(() => void (swept = undefined)));
      await using draft = await openDraft(drafts);
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const chunk of source) {
        hash.update(chunk);
        bytes += chunk.byteLength;
        await draft.write(chunk);
      }
      const id = hash.digest('hex');
      await draft.keepAs(pathOf(owner, id));
      return { id, bytes };
    },
    async open(owner, id) {
      if (!isId(id)) return undefined;
      try {
        return await open(pathOf(owner, id), 'r');
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    async remove(owner, id, writtenBefore) {
      if (!isId(id)) return true;
      // Aside first: an upload of the same content may put it there anew between a look and the removal.
      const aside = join(drafts, `${crypto.randomUUID()}.draft`);
      await mkdir(drafts, { recursive: true, mode: 0o700 });
      try {
        await rename(pathOf(owner, id), aside);
      } catch (error) {
        if (isMissing(error)) return true;
        throw error;
      }
      const isOld = !writtenBefore || (await stat(aside)).mtimeMs < writtenBefore.getTime();
      await (isOld ? rm(aside, { force: true }) : rename(aside, pathOf(owner, id)));
      return isOld;
    },
  };
}

const isId = (id: string): boolean => /^[0-9a-f]{64}$/.test(id);

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/** JSON keeps the two apart, whatever they hold. */
function bucketOf({ tenant, owner }: BlobOwner): string {
  return createHash('sha256')
    .update(JSON.stringify([tenant, owner]))
    .digest('hex')
    .slice(0, 32);
}

async function removeStale(folder: string): Promise<void> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  for (const name of names) {
    const path = join(folder, name);
    // Another process may remove it first.
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > STALE_MS) await rm(path, { force: true });
  }
}
