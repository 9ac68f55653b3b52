// Files that people gave: a row says whose they are and what they are called, the content lies below the data directory.
import type { FileHandle } from 'node:fs/promises';
import { sql } from 'kysely';
import { createBlobs } from '../files/blobs.ts';
import { createSniffer } from '../files/mime.ts';
import { toFileName } from '../files/name.ts';
import type { Owner } from '../kernel/index.ts';
import { alone } from './alone.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';
import { storeError } from './errors.ts';
import { sweepFiles } from './file-sweep.ts';

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
  /** The same for those that a message is to name: what sweeps unnamed files leaves them for a day. */
  take(owner: Owner, ids: readonly string[]): Promise<Map<string, StoredFile>>;
  /** Without a trace; what names it names nothing from now on. False when there is none. */
  remove(owner: Owner, id: string): Promise<boolean>;
  /**
   * Removes those that were given before an instant and that no message of their owner names, in the record or waiting;
   * answers how many.
   */
  sweep(before: Date, signal?: AbortSignal): Promise<number>;
  /** The content, for the caller to close. Throws `store.file_gone` where it is not in this data directory. */
  open(owner: Owner, id: string): Promise<FileHandle>;
  /** The whole content. Throws `store.file_gone`, too. */
  read(owner: Owner, id: string, signal: AbortSignal): Promise<Uint8Array>;
}

/** `root` is a folder of its own, made with the first file. */
export function createFiles(database: Database, root: string): Files {
  const { kysely } = database;
  const blobs = createBlobs(root);

  async function open(owner: Owner, id: string): Promise<FileHandle> {
    const handle = await blobs.open(owner, id);
    if (!handle) throw storeError('file_gone', `The content of the file ${id.slice(0, 64)} is not here any more.`);
    return handle;
  }

  const find: Files['find'] = async (owner, ids) => {
    if (!ids.length) return new Map();
    const rows = await kysely
      .selectFrom('file')
      .select(['id', 'name', 'mime', 'bytes'])
      .where('tenant_id', '=', toColumn(owner.tenant))
      .where('owner', '=', toColumn(owner.owner))
      .where('id', 'in', ids.map(toColumn))
      .execute();
    return new Map(rows.map((row) => [row.id, { ...row, name: fromColumn(row.name) }]));
  };

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
        .onConflict((conflict) =>
          conflict.columns(['tenant_id', 'owner', 'id']).doUpdateSet({ ...told, at: sql<Date>`now()` }),
        )
        .execute();
      return file;
    },
    find,
    async take(owner, ids) {
      // Seldom, and before the look: a sweep that is at it has removed the row, or leaves it.
      if (ids.length) {
        await kysely
          .updateTable('file')
          .set({ at: sql<Date>`now()` })
          .where('tenant_id', '=', toColumn(owner.tenant))
          .where('owner', '=', toColumn(owner.owner))
          .where('id', 'in', ids.map(toColumn))
          .where('at', '<', sql<Date>`now() - interval '1 hour'`)
          .execute();
      }
      return await find(owner, ids);
    },
    async remove(owner, id) {
      return await alone(database, async (transaction) => {
        const { numDeletedRows } = await transaction
          .deleteFrom('file')
          .where('tenant_id', '=', toColumn(owner.tenant))
          .where('owner', '=', toColumn(owner.owner))
          .where('id', '=', toColumn(id))
          .executeTakeFirst();
        if (numDeletedRows) await blobs.remove(owner, id);
        return numDeletedRows > 0n;
      });
    },
    sweep: (before, signal) => sweepFiles(database, blobs, { before, ...(signal && { signal }) }),
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
