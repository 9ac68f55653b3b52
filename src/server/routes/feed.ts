import { Hono } from 'hono';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { OVERLAP_MS } from '../feed.ts';
import { respondWithEvents } from '../stream.ts';

/** GET /events: what changed in the caller's conversations, here and on other processes, for a second device. */
export function feedRoutes({ feed, config, log }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.get('/events', (c) => {
    const caller = c.get('caller');
    const last = c.req.header('last-event-id');
    // What came back may be told twice: commits become visible a little after the instant that they carry.
    const isBack = last !== undefined && !Number.isNaN(Date.parse(last));
    const after = isBack ? new Date(Date.parse(last) - OVERLAP_MS) : new Date();
    return respondWithEvents(c, { ...config, log, run: '' }, (stream, gone) =>
      feed.follow(caller, { after, signal: gone }, ({ event, data }) => stream.sendRaw(event, data, data.changedAt)),
    );
  });
  return app;
}
