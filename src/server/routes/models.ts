import { Hono } from 'hono';
import type { ServerEnvironment, ServerParts } from '../context.ts';

/** GET /models: what people can choose, of the hosts that are configured. Holds no key. */
export function modelRoutes({ listModels, setup }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.get('/models', async (c) => {
    const canSetUp = setup !== undefined && setup.isFor(c.get('caller'));
    return c.json({ ...(await listModels()), canSetUp });
  });
  return app;
}
