import { Hono } from 'hono';
import * as z from 'zod';
import { toLine } from '../../files/name.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { parse, parseBody } from '../request.ts';
import { toMessageViews } from '../messages.ts';

export const listQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(500).default(50),
  before: z.string().max(5000).optional(),
  search: z.string().max(200).optional(),
});

const isReadable = (title: string) => /[\p{L}\p{N}\p{P}\p{S}]/u.test(title);
export const titleRequest = z.strictObject({
  title: z
    .string()
    .max(10_000)
    .transform(toLine)
    .refine(isReadable, 'must hold something to read')
    .refine((title) => Array.from(title).length <= 200, 'must have at most 200 characters'),
});

export const messagesQuery = z.strictObject({
  after: z.coerce.number().int().min(0).optional(),
  last: z.coerce.number().int().min(1).max(1000).optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(200),
  since: z.iso.datetime({ offset: true }).optional(),
});

export const forkRequest = z.strictObject({ id: z.string().min(1).max(200).optional(), after: z.int().min(1) });

export function conversationRoutes({ conversations, feed, mask, config }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();
  const notFound = (id: string) =>
    serverError('conversation_not_found', `There is no conversation ${JSON.stringify(id.slice(0, 200))}.`);

  app.get('/conversations', async (c) => {
    const { limit, before, search } = parse(listQuery, c.req.query());
    const wanted = search?.trim();
    const page = { limit, ...(before !== undefined && { before }), ...(wanted && { search: wanted }) };
    return c.json(await conversations.list(c.get('caller'), page));
  });

  app.delete('/conversations', async (c) => {
    if (c.req.query('confirm') !== 'all') {
      throw serverError('invalid_request', 'confirm: this deletes all your conversations', {
        hint: 'Send DELETE /conversations?confirm=all to delete them all, or DELETE /conversations/:id for one.',
      });
    }
    const deleted = await conversations.removeAll(c.get('caller'));
    feed.hint(c.get('caller'));
    return c.json({ deleted });
  });

  app.get('/conversations/:id', async (c) => {
    const key = { ...c.get('caller'), conversation: c.req.param('id') };
    const found = await conversations.get(key);
    if (!found) throw notFound(key.conversation);
    return c.json({ ...found, runs: await conversations.openRuns(key) });
  });

  app.get('/conversations/:id/messages', async (c) => {
    const key = { ...c.get('caller'), conversation: c.req.param('id') };
    const { after, last, limit, since } = parse(messagesQuery, c.req.query());
    const found = await conversations.get(key);
    if (!found) throw notFound(key.conversation);
    const start = after ?? (last === undefined ? 0 : Math.max(0, found.version - last));
    const entries = await conversations.entries(key, { after: start, limit, ...(since !== undefined && { since }) });
    const end = entries.length === limit ? entries.at(-1)!.seq : found.version;
    return c.json({
      version: found.version,
      messages: toMessageViews(entries, mask),
      next: end < found.version ? end : null,
    });
  });

  app.post('/conversations/:id/fork', async (c) => {
    const { id = `c-${crypto.randomUUID()}`, after } = await parseBody(c, forkRequest, config.bodyLimitBytes);
    const key = { ...c.get('caller'), conversation: c.req.param('id') };
    const fork = await conversations.fork(key, { id, seq: after });
    feed.hint(key);
    return c.json(fork, 201);
  });

  app.patch('/conversations/:id', async (c) => {
    const { title } = await parseBody(c, titleRequest, config.bodyLimitBytes);
    const key = { ...c.get('caller'), conversation: c.req.param('id') };
    const renamed = await conversations.rename(key, title);
    if (!renamed) throw notFound(key.conversation);
    feed.hint(key);
    return c.json(renamed);
  });

  app.delete('/conversations/:id', async (c) => {
    const key = { ...c.get('caller'), conversation: c.req.param('id') };
    await conversations.remove(key);
    feed.hint(key);
    return c.body(null, 204);
  });
  return app;
}
