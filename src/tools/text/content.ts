// The content of a file of any size in bounded memory, and whether it is the one that this conversation has seen.
import { createHash } from 'node:crypto';
import type { FileInfo, Sandbox, SandboxFiles } from '../../sandbox/sandbox.ts';
import { showName } from './shown-name.ts';

const PIECE_BYTES = 1_048_576;

/** All bytes of a file as it was when `info` was taken, in order, in pieces of at most 1 MB. */
export async function* piecesOf(files: SandboxFiles, info: FileInfo): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < info.bytes;) {
    const piece = await files.read(info.path, { offset, limit: Math.min(PIECE_BYTES, info.bytes - offset) });
    if (!piece.byteLength) return;
    offset += piece.byteLength;
    yield piece;
  }
}

/** The file at a path, undefined where nothing is. A folder, a link or a device is refused. */
export async function findFile(files: SandboxFiles, path: string): Promise<FileInfo | undefined> {
  const info = await files.stat(path);
  if (!info) return undefined;
  if (info.kind === 'folder') throw new Error(`${showName(path)} is a folder. List shows what is in it.`);
  if (info.kind !== 'file') throw new Error(`${showName(path)} is no regular file. Name the file itself.`);
  return info;
}

export const digestOf = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** SHA-256 in hex, as in `Sandbox.seen`. */
export async function digestOfFile(files: SandboxFiles, info: FileInfo): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of piecesOf(files, info)) hash.update(piece);
  return hash.digest('hex');
}

/** Throws where the content is not the one that this conversation last read or wrote. */
export function requireSeen(sandbox: Sandbox, info: FileInfo, digest: string): void {
  const seen = sandbox.seen.get(info.path);
  if (seen === digest) return;
  const name = showName(info.path);
  throw new Error(
    seen === undefined
      ? `${name} exists and was not read in this conversation. Read it first.`
      : `${name} has changed since it was last read or written here. Read it first, again.`,
  );
}
