import { Hono } from 'hono';
import * as z from 'zod';
import { addUsage, noUsage } from '../../kernel/index.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { parse } from '../request.ts';

const KEYS = ['model', 'day', 'conversation', 'run'] as const;
const instant = z.iso.datetime({ offset: true });

export const usageQuery = z.strictObject({
  from: instant.default('1970-01-01T00:00:00Z'),
  to: instant.default('9999-12-31T00:00:00Z'),
  by: z
    .string()
    .default('model')
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(KEYS))),
});

/** GET /usage: the caller's tokens and, where the configuration has prices, their cost in US dollars. */
export function usageRoutes({ usage, priceOf }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.get('/usage', async (c) => {
    const { from, to, by } = parse(usageQuery, c.req.query());
    const rows = (await usage.sum(c.get('caller'), { from, to, by })).map((row) => {
      const { conversation, run, day, model, ...numbers } = row;
      const keys = { conversation, run, day };
      const named = Object.fromEntries(Object.entries(keys).filter(([key]) => by.includes(key as keyof typeof keys)));
      return { ...named, model, ...numbers, costUsd: priceOf(model, row) };
    });
    const tokens = rows.reduce((sum, row) => addUsage(sum, row), noUsage);
    const isPriced = rows.every(({ costUsd }) => costUsd !== null);
    const costUsd = isPriced ? rows.reduce((sum, row) => sum + (row.costUsd ?? 0), 0) : null;
    return c.json({ rows, total: { ...tokens, costUsd } });
  });
  return app;
}
