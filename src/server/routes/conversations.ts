import { Hono } from 'hono';
import * as z from 'zod';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { parse, parseBody } from '../request.ts';
import { toMessageViews } from '../messages.ts';

const listQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(500).default(50),
  before: z.string().max(5000).optional(),
});

const messagesQuery = z.strictObject({
  after: z.coerce.number().int().min(0).optional(),
  last: z.coerce.number().int().min(1).max(1000).optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(200),
  since: z.iso.datetime({ offset: true }).optional(),
});

const forkRequest = z.strictObject({ id: z.string().min(1).max(200).optional(), after: z.int().min(1) });

export function conversationRoutes({ conversations, config }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();
  const notFound = (id: string) =>
    serverError('conversation_not_found', `There is no conversation ${JSON.stringify(id.slice(0, 200))}.`);

  app.get('/conversations', async (c) => {
    const { limit, before } = parse(listQuery, c.req.query());
    return c.json(await conversations.list(c.get('caller'), { limit, ...(before !== undefined && { before }) }));
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
      messages: toMessageViews(entries),
      next: end < found.version ? end : null,
    });
  });

  app.post('/conversations/:id/fork', async (c) => {
    const { id = `c-${crypto.randomUUID()}`, after } = await parseBody(c, forkRequest, config.bodyLimitBytes);
    const key = { ...c.get('caller'), conversation: c.req.param('id') };
    return c.json(await conversations.fork(key, { id, seq: after }), 201);
  });

  app.delete('/conversations/:id', async (c) => {
    await conversations.remove({ ...c.get('caller'), conversation: c.req.param('id') });
    return c.body(null, 204);
  });
  return app;
}
