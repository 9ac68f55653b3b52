// Files that people gave: a row says whose they are and what they are called, the content lies below the data directory.
import type { FileHandle } from 'node:fs/promises';
import { createBlobs } from '../files/blobs.ts';
import { createSniffer } from '../files/mime.ts';
import { toFileName } from '../files/name.ts';
import type { Owner } from '../kernel/index.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';

export interface StoredFile {
  /** SHA-256 of the content, in hex. */
  id: string;
  /** For people: never a path. */
  name: string;
  mime: string;
  bytes: number;
}

export interface Upload {
  name: string;
  /** As the sender declares it; what the content says counts more. */
  mime?: string;
  source: AsyncIterable<Uint8Array>;
}

/** A file is its owner's: nobody else can name it. */
export interface Files {
  /** Keeps a file, on disk when it resolves. The same content again is the same file, under the newer name. */
  save(owner: Owner, upload: Upload): Promise<StoredFile>;
  /** Those of the ids that there are, by id. */
  find(owner: Owner, ids: readonly string[]): Promise<Map<string, StoredFile>>;
  /** The content, for the caller to close. Throws `store.file_gone` where it is not in this data directory. */
  open(owner: Owner, id: string): Promise<FileHandle>;
  /** The whole content. Throws `store.file_gone`, too. */
  read(owner: Owner, id: string, signal: AbortSignal): Promise<Uint8Array>;
}

/** `root` is a folder of its own, made with the first file. */
export function createFiles({ kysely }: Database, root: string): Files {
  const blobs = createBlobs(root);

  async function open(owner: Owner, id: string): Promise<FileHandle> {
    const handle = await blobs.open(owner, id);
    if (!handle) throw storeError('file_gone', `The content of the file ${id.slice(0, 64)} is not here any more.`);
    return handle;
  }

  return {
    async save(owner, { name, mime, source }) {
      const sniffer = createSniffer();
      const sniffed = async function* () {
        for await (const chunk of source) {
          sniffer.push(chunk);
          yield chunk;
        }
      };
      const { id, bytes } = await blobs.write(owner, sniffed());
      const file = { id, name: toFileName(name), mime: sniffer.type(mime), bytes };
      const told = { name: toColumn(file.name), mime: file.mime, bytes };
      await kysely
        .insertInto('file')
        .values({ tenant_id: toColumn(owner.tenant), owner: toColumn(owner.owner), id, ...told })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'owner', 'id']).doUpdateSet(told))
        .execute();
      return file;
    },
    async find(owner, ids) {
      if (!ids.length) return new Map();
      const rows = await kysely
        .selectFrom('file')
        .select(['id', 'name', 'mime', 'bytes'])
        .where('tenant_id', '=', toColumn(owner.tenant))
        .where('owner', '=', toColumn(owner.owner))
        .where('id', 'in', ids.map(toColumn))
        .execute();
      return new Map(rows.map((row) => [row.id, { ...row, name: fromColumn(row.name) }]));
    },
    open,
    async read(owner, id, signal) {
      const handle = await open(owner, id);
      try {
        return await handle.readFile({ signal });
      } finally {
        await handle.close();
      }
    },
  };
}
