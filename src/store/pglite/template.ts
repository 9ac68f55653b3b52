// An empty database with our schema, packed into one file of about 1 MB: unpacking it takes a tenth of the time of initdb.
// It is made by scripts/template.ts, at the install of a checkout and at the build of the package; nothing needs it.
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { constants, zstdCompressSync, zstdDecompress } from 'node:zlib';

interface Entry {
  /** Relative, with forward slashes; a directory comes before what is in it. */
  path: string;
  /** Absent: a directory. */
  bytes?: number;
}

/** The files follow each other as the entries do. */
interface Archive {
  entries: Entry[];
  content: Buffer;
}

const decompress = promisify(zstdDecompress);
/** The three databases of a cluster are nearly the same, and further apart than a usual window is wide. */
const WINDOW_LOG = 26;
/** All in one piece: pieces of Node's own 16 KiB take 2,500 turns of the thread pool and are then copied together. */
const CHUNK_BYTES = 64 * 1024 * 1024;

/** Where the template of the PGlite and the schema of this very code lies, if there is one: others have other names. */
export async function templatePath(): Promise<string> {
  const { fingerprintOf } = await import('../migrations/index.ts'); // and Kysely: for a first start only
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  const manifest: unknown = JSON.parse(readFileSync(join(dirname(entry), '../package.json'), 'utf8'));
  const { version } = manifest as { version?: unknown };
  // The same for src and dist.
  const name = `pglite-${String(version)}-${await fingerprintOf()}.template`;
  return fileURLToPath(new URL(`../../../dist/${name}`, import.meta.url));
}

/** Packs a closed database. */
export function packTemplate(directory: string, file: string): void {
  const found = readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => ({ path: join(entry.parentPath, entry.name), isFile: entry.isFile() }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const contents = found.map(({ path, isFile }) => (isFile ? readFileSync(path) : undefined));
  const entries = found.map(({ path }, i): Entry => {
    const bytes = contents[i]?.length;
    return { path: relative(directory, path).replaceAll(sep, '/'), ...(bytes !== undefined && { bytes }) };
  });
  const header = Buffer.from(`${JSON.stringify(entries)}\n`);
  const packed = zstdCompressSync(Buffer.concat([header, ...contents.filter((content) => content !== undefined)]), {
    params: {
      [constants.ZSTD_c_compressionLevel]: 9,
      [constants.ZSTD_c_windowLog]: WINDOW_LOG,
      [constants.ZSTD_c_enableLongDistanceMatching]: 1,
      [constants.ZSTD_c_checksumFlag]: 1,
    },
  });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, packed);
  renameSync(draft, file);
}

/** Unpacks a template into an empty directory; syncs nothing. False, and nothing done: it is absent or damaged. */
export async function unpackTemplate(file: string, directory: string): Promise<boolean> {
  const archive = await readArchive(file);
  if (!archive) return false;
  let end = 0;
  for (const { path, bytes } of archive.entries) {
    const target = join(directory, path);
    if (bytes === undefined) mkdirSync(target, { mode: 0o700 });
    else writeFileSync(target, archive.content.subarray(end, (end += bytes)), { flag: 'wx', mode: 0o600 });
  }
  // 40 MB, given back at once: a process that idles collects no garbage.
  if (archive.content.buffer instanceof ArrayBuffer) archive.content.buffer.transfer(0);
  return true;
}

async function readArchive(file: string): Promise<Archive | undefined> {
  try {
    const plain = await decompress(await readFile(file), {
      chunkSize: CHUNK_BYTES,
      params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG },
    });
    const start = plain.indexOf('\n') + 1;
    const entries = JSON.parse(plain.toString('utf8', 0, start)) as Entry[];
    const content = plain.subarray(start);
    const bytes = entries.reduce((sum, entry) => sum + (entry.bytes ?? 0), 0);
    return bytes === content.length ? { entries, content } : undefined;
  } catch {
    return undefined; // initdb does the same work, more slowly
  }
}
