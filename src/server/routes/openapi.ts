import { Hono } from 'hono';
import type { ServerEnvironment, ServerParts } from '../context.ts';

/** GET /openapi.json. Made at the first call: few starts ever need it. */
export function openApiRoutes({ describe }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.get('/openapi.json', async (c) => {
    const { toOpenApi } = await import('../openapi-document.ts');
    return c.json(toOpenApi(String(describe().version)));
  });
  return app;
}
