import { Hono } from 'hono';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { OVERLAP_MS } from '../feed.ts';
import { respondWithEvents } from '../stream.ts';

/** GET /events: what changed in the caller's conversations, here and on other processes, for a second device. */
export function feedRoutes({ feed, conversations, config, log }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.get('/events', async (c) => {
    const caller = c.get('caller');
    const last = c.req.header('last-event-id');
    // Commits become visible a little after the instant that they carry: so some may be told twice.
    const isBack = last !== undefined && !Number.isNaN(Date.parse(last));
    const from = isBack ? Date.parse(last) : (await conversations.now()).getTime();
    const after = new Date(from - OVERLAP_MS);
    return respondWithEvents(c, { ...config, log, run: '' }, (stream, gone) =>
      feed.follow(caller, { after, signal: gone }, ({ event, data }) => stream.sendRaw(event, data, data.changedAt)),
    );
  });
  return app;
}
