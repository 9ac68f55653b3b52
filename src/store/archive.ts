// A backup as a stream of lines: a header, the rows of each table, the contents of files, and at the end what all of it
// must add up to. The same on both back ends, so that what one wrote the other can read. See docs/ARCHITECTURE.md.
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { Owner } from '../kernel/index.ts';
import { fromColumn } from './column.ts';
import type { Database } from './database.ts';
import type { Snapshot } from './snapshot.ts';
import { openSnapshot } from './snapshot.ts';
import type { Table } from './tables.ts';

/** Raised when an older release could not read it any more. */
export const ARCHIVE_FORMAT = 1;

export interface ArchiveHeader {
  homard: 'backup';
  format: number;
  /** The release that wrote it. */
  version: string;
  /** ISO-8601 UTC. */
  createdAt: string;
  migrations: string[];
  tables: { name: string; columns: string[]; rows: number }[];
}

/** The contents, told by the last line. */
export interface ArchiveTrailer {
  tables: Record<string, { rows: number; sha256: string }>;
  files: number;
  /** Contents that their rows name and that were not in the data directory. */
  missingFiles: number;
  /** Of everything before this line. */
  sha256: string;
}

/** A line that is no row; rows are JSON arrays. */
export type ArchiveFrame =
  | ArchiveHeader
  | { secrets: Record<string, string> }
  | { table: string }
  | { file: Owner & { id: string } }
  | { content: string }
  | { end: 'file' }
  | { end: 'backup'; total: ArchiveTrailer };

export interface ArchiveConfig {
  version: string;
  /** The content of a file, for the archive to close. */
  openFile: (owner: Owner, id: string) => Promise<FileHandle | undefined>;
  /** Small files of the data directory by name, where the backup is to hold them. */
  secrets?: Record<string, string>;
  /** Nobody else uses the database meanwhile. */
  isAlone?: boolean;
  /** Milliseconds to wait after each part, so that other work comes first. */
  pauseMs?: number;
}

const PART_BYTES = 64 * 1024;
/** A multiple of three: base64 without padding inside a file. */
const CONTENT_BYTES = 48 * 1024;

/** Lines of one instant, in parts of about 64 KB, in constant memory. Whoever stops early frees the snapshot. */
export async function* writeArchive(database: Database, config: ArchiveConfig): AsyncGenerator<Buffer> {
  await using snapshot = await openSnapshot(database, { isAlone: config.isAlone });
  const hash = createHash('sha256');
  let part: string[] = [];
  let size = 0;
  for await (const line of linesOf(snapshot, config, () => hash.copy().digest('hex'))) {
    const text = `${line}\n`;
    hash.update(text);
    part.push(text);
    size += text.length;
    if (size < PART_BYTES) continue;
    yield Buffer.from(part.join(''));
    part = [];
    size = 0;
    if (config.pauseMs) await new Promise((wake) => setTimeout(wake, config.pauseMs));
  }
  yield Buffer.from(part.join(''));
}

async function* linesOf(
  snapshot: Snapshot,
  { version, secrets, openFile }: ArchiveConfig,
  sha256: () => string,
): AsyncGenerator<string> {
  const frame = (value: ArchiveFrame) => JSON.stringify(value);
  yield frame({
    homard: 'backup',
    format: ARCHIVE_FORMAT,
    version,
    createdAt: new Date().toISOString(),
    migrations: snapshot.migrations,
    tables: snapshot.tables.map(({ name, columns }) => {
      return { name, columns: columns.map((column) => column.name), rows: snapshot.counts.get(name)! };
    }),
  });
  if (secrets) yield frame({ secrets });
  const total: Omit<ArchiveTrailer, 'sha256'> = { tables: {}, files: 0, missingFiles: 0 };
  for (const table of snapshot.tables) {
    yield frame({ table: table.name });
    const hash = createHash('sha256');
    let rows = 0;
    for await (const line of snapshot.lines(table)) {
      hash.update(line).update('\n');
      rows++;
      yield line;
      if (table.name !== 'file') continue;
      const { id, ...owner } = fileOf(table, line);
      const handle = await openFile(owner, id);
      if (!handle) total.missingFiles++;
      else {
        total.files++;
        yield frame({ file: { ...owner, id } });
        for await (const content of contentOf(handle)) yield frame({ content });
        yield frame({ end: 'file' });
      }
    }
    total.tables[table.name] = { rows, sha256: hash.digest('hex') };
  }
  yield frame({ end: 'backup', total: { ...total, sha256: sha256() } });
}

function fileOf({ columns }: Table, line: string): Owner & { id: string } {
  const values = JSON.parse(line) as string[];
  const at = (name: string) => fromColumn(values[columns.findIndex((column) => column.name === name)]!);
  return { tenant: at('tenant_id'), owner: at('owner'), id: at('id') };
}

async function* contentOf(handle: FileHandle): AsyncGenerator<string> {
  try {
    const buffer = Buffer.allocUnsafe(CONTENT_BYTES);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, CONTENT_BYTES);
      if (!bytesRead) return;
      yield buffer.toString('base64', 0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
