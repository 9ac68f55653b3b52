import { Hono } from 'hono';
import * as z from 'zod';
import { journalError } from '../../kernel/index.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { parseBody } from '../request.ts';

/** The server keeps tool and arguments; a client names the approval and says what it decides. */
export const decision = z.strictObject({
  decision: z.enum(['allow', 'deny']),
  comment: z.string().max(4000).optional(),
  /** Replace the model's arguments; they are validated and decided anew. */
  args: z.json().optional(),
});

export function approvalRoutes({ runner, config }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();

  app.post('/approvals/:id', async (c) => {
    const caller = c.get('caller');
    const approval = c.req.param('id');
    const match = /^(.+):(\d{1,9})$/.exec(approval);
    if (!match) throw journalError('not_awaiting', `Nothing waits for an answer at ${approval.slice(0, 200)}.`);
    const { decision: effect, comment, args } = await parseBody(c, decision, config.bodyLimitBytes);
    const answer = {
      effect,
      by: caller.owner,
      ...(comment !== undefined && { comment }),
      ...(args !== undefined && { args }),
    };
    await runner.answer(caller, { run: match[1]!, step: Number(match[2]), answer });
    return c.json({ id: approval, decision: effect });
  });
  return app;
}
