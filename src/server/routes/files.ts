// POST /files takes the bytes of one file, GET /files/:id gives them back, DELETE removes them; chat requests then name it by its id.
import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { Hono } from 'hono';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { bodyOf, headersOf } from '../bytes.ts';
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
    const source = bodyOf(c.req.raw, { limitBytes: config.fileLimitBytes });
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
