// Reads a backup and believes nothing: what it says of itself must add up before it counts as read.
import type { Hash } from 'node:crypto';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable, pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import * as z from 'zod';
import type { AgentError, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { ArchiveHeader, ArchiveTrailer } from './archive.ts';
import { ARCHIVE_FORMAT } from './archive.ts';
import { storeError } from './errors.ts';

/** Takes what an archive holds, in its order; what it throws ends the reading. */
export interface ArchiveSink {
  begin?(header: ArchiveHeader): Promise<void>;
  rows?(table: { name: string; columns: string[] }, lines: string[]): Promise<void>;
  /** Must read `source` to its end. */
  file?(owner: Owner, id: string, source: AsyncIterable<Uint8Array>): Promise<void>;
  secrets?(secrets: Record<string, string>): Promise<void>;
}

export interface ArchiveContent {
  header: ArchiveHeader;
  total: ArchiveTrailer;
  hasSecrets: boolean;
}

const frameShape = z.union([
  z.object({ content: z.string() }),
  z.object({ table: z.string() }),
  z.object({ file: z.object({ tenant: z.string(), owner: z.string(), id: z.string() }) }),
  z.object({ secrets: z.record(z.string(), z.string()) }),
  z.object({ end: z.literal('file') }),
  z.object({
    end: z.literal('backup'),
    total: z.object({
      tables: z.record(z.string(), z.object({ rows: z.int(), sha256: z.string() })),
      files: z.int(),
      missingFiles: z.int(),
      sha256: z.string(),
    }),
  }),
]);

/** What every format has. */
const anyHeaderShape = z.object({ homard: z.literal('backup'), format: z.int(), version: z.string() });
const headerShape = z.object({
  ...anyHeaderShape.shape,
  createdAt: z.string(),
  migrations: z.array(z.string()),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()), rows: z.int() })),
});

const BATCH_ROWS = 500;
const BATCH_BYTES = 1_000_000;
/** Longer ones are not ours. */
const LINE_BYTES = 256 * 1024 * 1024;

/** Throws `store.backup_damaged`, `store.backup_newer`, or what the sink throws. `source` is the packed archive. */
export async function readArchive(
  name: string,
  source: AsyncIterable<Uint8Array>,
  sink: ArchiveSink = {},
): Promise<ArchiveContent> {
  const damaged = (what: string, cause?: unknown) =>
    storeError('backup_damaged', `${name} cannot be used: ${what}.`, { cause });
  const lines = unpack(source, damaged);
  try {
    return await new Reading(lines, sink, damaged).read();
  } finally {
    await lines.return(undefined);
  }
}

export async function readArchiveFile(path: string, sink?: ArchiveSink): Promise<ArchiveContent> {
  return await readArchive(path, createReadStream(path), sink);
}

type Damaged = (what: string, cause?: unknown) => AgentError;

class Reading {
  readonly #lines: AsyncGenerator<string>;
  readonly #sink: ArchiveSink;
  readonly #damaged: Damaged;
  /** Of every line but the last one. */
  readonly #hash = createHash('sha256');
  readonly #seen: ArchiveTrailer['tables'] = {};
  #table: { name: string; columns: string[]; hash: Hash; rows: number } | undefined;
  #batch: string[] = [];
  #batchBytes = 0;
  #files = 0;

  constructor(lines: AsyncGenerator<string>, sink: ArchiveSink, damaged: Damaged) {
    this.#lines = lines;
    this.#sink = sink;
    this.#damaged = damaged;
  }

  async read(): Promise<ArchiveContent> {
    const header = this.#headerOf(await this.#next());
    await this.#sink.begin?.(header);
    let hasSecrets = false;
    for (;;) {
      const before = this.#hash.copy();
      const line = await this.#next();
      if (line.startsWith('[')) {
        await this.#row(line);
        continue;
      }
      const frame = this.#frameOf(line);
      if ('table' in frame) await this.#open(header, frame.table);
      else if ('file' in frame) await this.#file(frame.file);
      else if ('secrets' in frame) {
        hasSecrets = true;
        await this.#sink.secrets?.(frame.secrets);
      } else if ('total' in frame) {
        await this.#closeTable();
        this.#compare(header, frame.total, before.digest('hex'));
        return { header, total: frame.total, hasSecrets };
      } else throw this.#damaged('it holds a line in a wrong place');
    }
  }

  async #next(): Promise<string> {
    const { done, value } = await this.#lines.next();
    if (done) throw this.#damaged('its end is missing');
    this.#hash.update(value).update('\n');
    return value;
  }

  #frameOf(line: string): z.infer<typeof frameShape> {
    const { success, data, error } = frameShape.safeParse(this.#valueOf(line));
    if (!success) throw this.#damaged('it holds a line that belongs to no backup', error);
    return data;
  }

  #valueOf(line: string): unknown {
    try {
      return JSON.parse(line);
    } catch (error) {
      throw this.#damaged('it holds a line that is no JSON', error);
    }
  }

  #headerOf(line: string): ArchiveHeader {
    const value = this.#valueOf(line);
    const any = anyHeaderShape.safeParse(value);
    if (!any.success) throw this.#damaged('it is no backup of Homard', any.error);
    const { format, version } = any.data;
    if (format > ARCHIVE_FORMAT) {
      throw storeError('backup_newer', `The backup has format ${format}; this release reads up to ${ARCHIVE_FORMAT}.`, {
        data: { version },
      });
    }
    const header = headerShape.safeParse(value);
    if (!header.success) throw this.#damaged('its header is not complete', header.error);
    return header.data;
  }

  async #open(header: ArchiveHeader, name: string): Promise<void> {
    await this.#closeTable();
    const known = header.tables.find((table) => table.name === name);
    if (!known || Object.hasOwn(this.#seen, name))
      throw this.#damaged(`its table ${JSON.stringify(name)} is not announced`);
    this.#table = { name, columns: known.columns, hash: createHash('sha256'), rows: 0 };
  }

  async #row(line: string): Promise<void> {
    const table = this.#table;
    if (!table) throw this.#damaged('it holds a row outside of a table');
    table.hash.update(line).update('\n');
    table.rows++;
    this.#batch.push(line);
    this.#batchBytes += line.length;
    if (this.#batch.length >= BATCH_ROWS || this.#batchBytes >= BATCH_BYTES) await this.#flush();
  }

  async #flush(): Promise<void> {
    if (!this.#table || !this.#batch.length) return;
    const { name, columns } = this.#table;
    const lines = this.#batch;
    this.#batch = [];
    this.#batchBytes = 0;
    await this.#sink.rows?.({ name, columns }, lines);
  }

  async #closeTable(): Promise<void> {
    await this.#flush();
    if (this.#table) this.#seen[this.#table.name] = { rows: this.#table.rows, sha256: this.#table.hash.digest('hex') };
    this.#table = undefined;
  }

  /** Contents are checked by their ids, which are their hashes. */
  async #file({ id, tenant, owner }: Owner & { id: string }): Promise<void> {
    const hash = createHash('sha256');
    const content = this.#contentOf(hash);
    if (this.#sink.file) await this.#sink.file({ tenant, owner }, id, content);
    for await (const rest of content) void rest;
    if (hash.digest('hex') !== id) throw this.#damaged(`its file ${id.slice(0, 64)} is not what it was`);
    this.#files++;
  }

  async *#contentOf(hash: Hash): AsyncGenerator<Uint8Array> {
    for (;;) {
      const frame = this.#frameOf(await this.#next());
      if ('content' in frame) {
        const bytes = Buffer.from(frame.content, 'base64');
        hash.update(bytes);
        yield bytes;
      } else if ('end' in frame && frame.end === 'file') return;
      else throw this.#damaged('a file in it breaks off');
    }
  }

  #compare(header: ArchiveHeader, total: ArchiveTrailer, sha256: string): void {
    if (total.sha256 !== sha256) throw this.#damaged('its checksum differs');
    if (total.files !== this.#files) throw this.#damaged(`it holds ${this.#files} of ${total.files} files`);
    for (const { name, rows } of header.tables) {
      const [seen, wanted] = [this.#seen[name], total.tables[name]];
      if (!seen || seen.sha256 !== wanted?.sha256 || seen.rows !== rows) {
        throw this.#damaged(`its table ${JSON.stringify(name)} is not complete`);
      }
    }
  }
}

async function* unpack(source: AsyncIterable<Uint8Array>, damaged: Damaged): AsyncGenerator<string> {
  const unzip = createGunzip();
  // The iteration below tells of errors, of the source as well.
  pipeline(Readable.from(source), unzip, () => undefined);
  let parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of unzip as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
        parts.push(chunk.subarray(start, end));
        yield (parts.length === 1 ? parts[0]! : Buffer.concat(parts)).toString('utf8');
        parts = [];
        size = 0;
        start = end + 1;
      }
      if (start === chunk.length) continue;
      parts.push(chunk.subarray(start));
      size += chunk.length - start;
      if (size > LINE_BYTES) throw damaged('it holds a line without end');
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code?.startsWith('Z_')) throw damaged(`it is not whole (${messageOf(error)})`, error);
    if (code === 'ENOENT' || code === 'EISDIR' || code === 'EACCES') throw damaged(messageOf(error), error);
    throw error;
  } finally {
    unzip.destroy();
  }
  if (size) throw damaged('its last line breaks off');
}
