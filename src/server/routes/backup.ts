// POST /backup: everything in the database, as one packed stream. Only for the owner of a server of their own: it holds
// what all users wrote.
import { Readable } from 'node:stream';
import { Hono } from 'hono';
import * as z from 'zod';
import { bearerOf } from '../../access/identity.ts';
import { storeError } from '../../store/errors.ts';
import { ELSEWHERE } from '../../store/space.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { parse } from '../request.ts';

export const backupQuery = z.strictObject({ secrets: z.enum(['0', '1']).default('0') });

export function backupRoutes({ care }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();
  if (!care.pack) return app;
  const { pack } = care;

  app.post('/backup', async (c) => {
    const hasSecrets = parse(backupQuery, c.req.query()).secrets === '1';
    // A cookie must not become a token, a page not the key of a model.
    if (hasSecrets && bearerOf(c.req.raw) === null) {
      throw serverError('unauthorized', 'Secrets are in a backup only for who has the token.');
    }
    // What is damaged can be read as far as it goes; but to set rows aside takes room.
    const problem = care.health.problem();
    if (problem?.code === 'store.disk_full') throw storeError('disk_full', problem.reason, { hint: ELSEWHERE });
    const packed = await pack({ hasSecrets });
    c.req.raw.signal.addEventListener('abort', () => packed.destroy());
    const headers = { 'content-type': 'application/gzip', 'cache-control': 'no-store' };
    return new Response(Readable.toWeb(packed) as ReadableStream, { headers });
  });
  return app;
}
