// POST /chat and /chat/stream: one message in, one run out.
import { Hono } from 'hono';
import type { Emitted } from '../../kernel/index.ts';
import { journalError } from '../../kernel/index.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { parseBody } from '../request.ts';
import { respondWithEvents } from '../stream.ts';
import { chatRequest, toSubmission } from '../submission.ts';
import { toRunView } from './runs.ts';

export function chatRoutes(parts: ServerParts): Hono<ServerEnvironment> {
  const { runner, journal, priceOf, mask, config, log } = parts;
  const app = new Hono<ServerEnvironment>();

  app.post('/chat/stream', async (c) => {
    const caller = c.get('caller');
    const request = await parseBody(c, chatRequest, config.bodyLimitBytes);
    const submission = await toSubmission(parts, { caller, request, key: c.req.header('idempotency-key') });
    // A refusal must still be a status code, so the response begins when the journal has the message.
    const early: Emitted[] = [];
    const viewing = new AbortController();
    let on: (emitted: Emitted) => void = (emitted) => early.push(emitted);
    const submitted = await runner.submit(submission, { on: (emitted) => on(emitted), signal: viewing.signal });
    const run = submitted.outcome === 'duplicate' ? submitted.run : submission.run;
    return respondWithEvents(c, { ...config, log, run }, async (stream, gone) => {
      const leave = () => viewing.abort();
      if (gone.aborted) leave();
      gone.addEventListener('abort', leave, { once: true });
      on = stream.send;
      for (const emitted of early) stream.send(emitted);
      await submitted.watched;
      if (gone.aborted && !request.detach) await runner.cancel(caller, run);
    });
  });

  app.post('/chat', async (c) => {
    const caller = c.get('caller');
    const request = await parseBody(c, chatRequest, config.bodyLimitBytes);
    const submission = await toSubmission(parts, { caller, request, key: c.req.header('idempotency-key') });
    const gone = c.req.raw.signal;
    const submitted = await runner.submit(submission, { on: () => undefined, signal: gone, isUntilWaiting: true });
    const run = submitted.outcome === 'duplicate' ? submitted.run : submission.run;
    await submitted.watched;
    if (gone.aborted && !request.detach) await runner.cancel(caller, run);
    const record = await journal.load(caller, run, -1);
    if (!record) throw journalError('run_not_found', 'The conversation was deleted while the run was under way.');
    const view = toRunView(record, { priceOf, mask });
    if (!view.error) return c.json(view, record.status === 'waiting' ? 202 : 200);
    return c.json({ ...view, error: { ...view.error, requestId: c.get('requestId') } }, statusOf(view.error.code));
  });
  return app;
}

const MODEL_FAILURES = new Set(['run.empty_answer', 'run.output_invalid']);

/** A run that failed is told with a status that a client without SSE understands. */
function statusOf(code: string): 400 | 502 | 504 | 500 {
  if (code === 'models.file_unsupported') return 400;
  if (code.startsWith('models.timeout') || code === 'run.timeout') return 504;
  return code.startsWith('models.') || MODEL_FAILURES.has(code) ? 502 : 500;
}
