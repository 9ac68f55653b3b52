// The files that a conversation's commands work with: listed, looked at, brought and taken away, also while a run has them.
import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { Hono } from 'hono';
import * as z from 'zod';
import { createSniffer } from '../../files/mime.ts';
import { describeBackend } from '../../sandbox/backends.ts';
import type { FileInfo, SandboxFiles } from '../../sandbox/sandbox.ts';
import { bodyOf, headersOf } from '../bytes.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { parse } from '../request.ts';

export const workspaceQuery = z.strictObject({
  path: z.string().max(4000).default(''),
  recursive: z.stringbool().default(false),
});
export const contentQuery = z.strictObject({ path: z.string().min(1).max(4000) });

const PIECE_BYTES = 1_000_000;
const SNIFFED_BYTES = 64_000;

export function workspaceRoutes({ sandboxes, conversations, config }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  async function filesOf(c: Context<ServerEnvironment>): Promise<SandboxFiles> {
    if (!sandboxes) throw serverError('no_sandbox', 'This server has no sandbox, so conversations have no files.');
    const key = { ...c.get('caller'), conversation: c.req.param('id') ?? '' };
    if (!(await conversations.get(key))) {
      const name = JSON.stringify(key.conversation.slice(0, 200));
      throw serverError('conversation_not_found', `There is no conversation ${name}.`);
    }
    return sandboxes.filesOf(key);
  }

  app.get('/sandbox', (c) => {
    if (!sandboxes) return c.json({ kind: 'off' });
    return c.json(describeBackend(sandboxes.backend));
  });

  app.get('/conversations/:id/files', async (c) => {
    const { path, recursive } = parse(workspaceQuery, c.req.query());
    const files = await filesOf(c);
    return c.json({ path, ...(await files.list(path, { isRecursive: recursive })) });
  });

  app.get('/conversations/:id/files/content', async (c) => {
    const { path } = parse(contentQuery, c.req.query());
    const files = await filesOf(c);
    const info = await files.stat(path);
    if (info?.kind !== 'file')
      throw serverError('file_not_found', `There is no file ${JSON.stringify(path.slice(0, 200))}.`);
    const headers = headersOf(await toDownload(files, info));
    if (c.req.header('if-none-match') === headers.etag) return new Response(null, { status: 304, headers });
    if (c.req.method === 'HEAD') return new Response(null, { headers });
    const stream = Readable.toWeb(Readable.from(piecesOf(files, info), { objectMode: false }));
    return new Response(stream as ReadableStream, { headers });
  });

  app.put('/conversations/:id/files/content', async (c) => {
    const { path } = parse(contentQuery, c.req.query());
    const files = await filesOf(c);
    const pieces: Uint8Array[] = [];
    for await (const piece of bodyOf(c.req.raw, { limitBytes: config.fileLimitBytes, mayBeEmpty: true }))
      pieces.push(piece);
    return c.json(await files.write(path, Buffer.concat(pieces)), 201);
  });

  app.delete('/conversations/:id/files/content', async (c) => {
    const { path } = parse(contentQuery, c.req.query());
    const files = await filesOf(c);
    await files.remove(path);
    return c.body(null, 204);
  });
  return app;
}

async function toDownload(files: SandboxFiles, info: FileInfo) {
  const sniffer = createSniffer();
  const head = await files.read(info.path, { limit: SNIFFED_BYTES });
  // A cut character is no sign of anything.
  sniffer.push(head.byteLength < info.bytes ? head.subarray(0, lastWhole(head)) : head);
  return {
    id: `${info.modifiedAt}-${info.bytes}`,
    name: info.path.split('/').at(-1) ?? info.path,
    mime: sniffer.type(undefined),
    bytes: info.bytes,
  };
}

/** Where the last character of UTF-8 begins that may not be whole. */
function lastWhole(bytes: Uint8Array): number {
  let at = bytes.byteLength - 1;
  while (at > bytes.byteLength - 4 && (bytes[at]! & 0xc0) === 0x80) at--;
  return at;
}

/** A file that a command makes shorter meanwhile ends early, and the client sees that the length is not right. */
async function* piecesOf(files: SandboxFiles, { path, bytes }: FileInfo): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < bytes;) {
    const piece = await files.read(path, { offset, limit: Math.min(PIECE_BYTES, bytes - offset) });
    if (!piece.byteLength) return;
    offset += piece.byteLength;
    yield piece;
  }
}
