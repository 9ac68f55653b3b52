// POST /files takes the bytes of one file, GET /files/:id gives them back, DELETE removes them; chat requests then name it by its id.
import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { Hono } from 'hono';
import { AgentError } from '../../kernel/index.ts';
import type { StoredFile } from '../../store/files.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';

export function fileRoutes({ files, config }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.post('/files', async (c) => {
    const mime = c.req.header('content-type');
    if (mime?.toLowerCase().startsWith('multipart/')) {
      throw serverError('unsupported_media_type', 'The body is a form, not a file.', {
        hint: 'Send the bytes of one file as the body, its type as Content-Type and its name as ?name=.',
      });
    }
    const source = bodyOf(c.req.raw, config.fileLimitBytes);
    const upload = { name: nameOf(c), source, ...(mime !== undefined && { mime }) };
    return c.json(await files.save(c.get('caller'), upload), 201);
  });

  app.get('/files/:id', async (c) => {
    const id = c.req.param('id');
    const file = (await files.find(c.get('caller'), [id])).get(id);
    if (!file) throw serverError('file_not_found', `There is no file ${JSON.stringify(id.slice(0, 64))}.`);
    const headers = headersOf(file);
    if (c.req.header('if-none-match') === headers.etag) return new Response(null, { status: 304, headers });
    const handle = await files.open(c.get('caller'), id);
    if (c.req.method === 'HEAD') {
      await handle.close();
      return new Response(null, { headers });
    }
    return new Response(Readable.toWeb(handle.createReadStream()) as ReadableStream, { headers });
  });

  app.delete('/files/:id', async (c) => {
    await files.remove(c.get('caller'), c.req.param('id'));
    return c.body(null, 204);
  });
  return app;
}

/** From the header, percent-encoded, or else from the query. */
function nameOf(c: Context<ServerEnvironment>): string {
  const header = c.req.header('x-file-name');
  if (header === undefined) return c.req.query('name') ?? '';
  try {
    return decodeURIComponent(header);
  } catch {
    throw serverError('invalid_request', 'X-File-Name: must be percent-encoded UTF-8');
  }
}

async function* bodyOf(request: Request, limitBytes: number): AsyncGenerator<Uint8Array> {
  const tooLarge = () => {
    const limit = limitBytes >= 1_000_000 ? `${limitBytes / 1_000_000} MB` : `${limitBytes} bytes`;
    return serverError('file_too_large', `The file is larger than ${limit}.`);
  };
  if (Number(request.headers.get('content-length')) > limitBytes) throw tooLarge();
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limitBytes) throw tooLarge();
      yield chunk;
    }
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw serverError('invalid_request', 'The upload broke off.', { cause: error });
  }
  if (!bytes) throw serverError('invalid_request', 'The body is empty: send the bytes of the file.');
}

/** Shown in the browser; anything else is saved, and nothing runs with the rights of this server's pages. */
const INLINE = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

function headersOf({ id, name, mime, bytes }: StoredFile): Record<string, string> {
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  return {
    'content-type': mime,
    'content-length': String(bytes),
    'content-disposition': `${INLINE.has(mime) ? 'inline' : 'attachment'}; filename="${plain}"; filename*=UTF-8''${encoded}`,
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'private, no-cache',
    etag: `"${id}"`,
  };
}
