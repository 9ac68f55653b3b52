// Choosing the model in the page: what there is, one live call, and saving what answered. Only for who may; for anybody else
// these routes do not exist.
import { Hono } from 'hono';
import { setupChoice } from '../../models/setup.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { parseBody } from '../request.ts';

const LIMIT_BYTES = 20_000;

export function setupRoutes({ setup }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();
  if (!setup) return app;
  const { models, isFor } = setup;

  for (const path of ['/setup', '/setup/test']) {
    app.use(path, async (c, next) => {
      if (!isFor(c.get('caller'))) throw serverError('not_found', `There is no ${c.req.method} ${c.req.path}.`);
      await next();
      c.header('cache-control', 'no-store');
      c.header('vary', 'accept'); // the page has the same address
    });
  }

  app.get('/setup', (c) => c.json(models.describe()));

  app.post('/setup/test', async (c) => {
    const choice = await parseBody(c, setupChoice, LIMIT_BYTES);
    return c.json(await models.test(choice));
  });

  app.post('/setup', async (c) => {
    const choice = await parseBody(c, setupChoice, LIMIT_BYTES);
    const trial = await models.save(choice);
    if (trial.ok) return c.json({ ...trial, setup: models.describe() });
    return c.json({ ...trial, error: { ...trial.error, requestId: c.get('requestId') } }, 422);
  });

  app.delete('/setup', async (c) => {
    await models.clear();
    return c.json(models.describe());
  });
  return app;
}
