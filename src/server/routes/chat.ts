// POST /chat and /chat/stream: one message in, one run out.
import { createHash } from 'node:crypto';
import { Hono } from 'hono';
import * as z from 'zod';
import type { Caller } from '../../access/identity.ts';
import type { Emitted, Json, Submission, UserBody } from '../../kernel/index.ts';
import { textOf } from '../../kernel/index.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { parseBody } from '../request.ts';
import { respondWithEvents } from '../stream.ts';
import { newMessages } from './messages.ts';
import { toRunView } from './runs.ts';

const id = z.string().min(1).max(200);
const content = z.string().max(4_000_000);

const chatRequest = z.strictObject({
  conversationId: id.optional(),
  sessionId: id.optional(),
  query: content.optional(),
  messages: z
    .array(z.object({ role: z.enum(['system', 'user', 'assistant', 'tool']), content }))
    .min(1)
    .max(10_000)
    .optional(),
  modelName: z.string().min(1).max(200).optional(),
  agent: z.string().min(1).max(200).optional(),
  expectedVersion: z.int().min(0).optional(),
  detach: z.boolean().default(true),
  userId: z.string().max(200).optional(),
  assistantId: z.string().max(200).optional(),
});

export type ChatRequest = z.infer<typeof chatRequest>;

export function chatRoutes(parts: ServerParts): Hono<ServerEnvironment> {
  const { runner, journal, config, log } = parts;
  const app = new Hono<ServerEnvironment>();

  app.post('/chat/stream', async (c) => {
    const caller = c.get('caller');
    const request = await parseBody(c, chatRequest, config.bodyLimitBytes);
    const submission = await toSubmission(parts, { caller, request, idempotencyKey: c.req.header('idempotency-key') });
    // A refusal must still be a status code, so the response begins when the journal has the message.
    const early: Emitted[] = [];
    const viewing = new AbortController();
    let on: (emitted: Emitted) => void = (emitted) => early.push(emitted);
    const submitted = await runner.submit(submission, { on: (emitted) => on(emitted), signal: viewing.signal });
    const run = submitted.outcome === 'duplicate' ? submitted.run : submission.run;
    return respondWithEvents(c, { ...config, log, run }, async (stream, gone) => {
      gone.addEventListener('abort', () => viewing.abort(), { once: true });
      on = stream.send;
      for (const emitted of early) stream.send(emitted);
      await submitted.watched;
      if (gone.aborted && !request.detach) await runner.cancel(caller, run);
    });
  });

  app.post('/chat', async (c) => {
    const caller = c.get('caller');
    const request = await parseBody(c, chatRequest, config.bodyLimitBytes);
    const submission = await toSubmission(parts, { caller, request, idempotencyKey: c.req.header('idempotency-key') });
    const viewing = new AbortController();
    let waits: ReturnType<typeof setInterval> | undefined;
    const { run } = submission;
    const stopWhenWaiting = async (name: string) => {
      const record = await journal.load(caller, name, -1);
      if (record?.status === 'waiting') viewing.abort();
    };
    const submitted = await runner.submit(submission, {
      signal: viewing.signal,
      on: ({ event }) => {
        if (event.type === 'approval_request') waits ??= setInterval(() => void stopWhenWaiting(run), 100);
      },
    });
    const name = submitted.outcome === 'duplicate' ? submitted.run : run;
    const leave = () => viewing.abort();
    c.req.raw.signal.addEventListener('abort', leave, { once: true });
    try {
      await submitted.watched;
    } finally {
      clearInterval(waits);
    }
    if (c.req.raw.signal.aborted && !request.detach) await runner.cancel(caller, name);
    const record = await journal.load(caller, name, -1);
    if (!record)
      throw serverError('conversation_not_found', 'The conversation was deleted while the run was under way.');
    const view = toRunView(record);
    const status = record.status === 'waiting' ? 202 : view.error ? statusOf(view.error.code) : 200;
    return c.json(view.error ? { ...view, error: { ...view.error, requestId: c.get('requestId') } } : view, status);
  });
  return app;
}

/** A run that failed is told with a status that a client without SSE understands. */
function statusOf(code: string): 502 | 504 | 500 {
  if (code.startsWith('models.timeout') || code === 'run.timeout') return 504;
  return code.startsWith('models.') ? 502 : 500;
}

async function toSubmission(
  { resolve, conversations }: ServerParts,
  given: { caller: Caller; request: ChatRequest; idempotencyKey: string | undefined },
): Promise<Omit<Submission, 'worker'>> {
  const { caller, request, idempotencyKey } = given;
  const named = request.conversationId ?? request.sessionId;
  if (request.conversationId !== undefined && request.sessionId !== undefined && request.sessionId !== named) {
    throw serverError('invalid_request', 'conversationId and sessionId name two conversations.', {
      hint: 'sessionId is another name of conversationId: send one of them.',
    });
  }
  const key = idempotencyKey?.slice(0, 200);
  const conversation = named ?? (key === undefined ? `c-${crypto.randomUUID()}` : `c-${digestOf([key]).slice(0, 32)}`);
  const message = await toMessage(request, async () => {
    const entries = await conversations.entries({ ...caller, conversation }, { after: 0, limit: 100_000 });
    return entries;
  });
  const chosen = resolve({
    ...(request.agent && { agent: request.agent }),
    ...(request.modelName && { modelName: request.modelName }),
  });
  const options: Record<string, Json> = request.modelName === undefined ? {} : { modelName: request.modelName };
  return {
    ...caller,
    conversation,
    run: crypto.randomUUID(),
    message,
    request: { ...chosen, ...options },
    ...(request.expectedVersion !== undefined && { expected: request.expectedVersion }),
    ...(key !== undefined && {
      idempotency: { key, digest: digestOf([textOf(message.parts), chosen.model, chosen.agent]) },
    }),
  };
}

async function toMessage(request: ChatRequest, history: Parameters<typeof newMessages>[1]): Promise<UserBody> {
  const { query, messages } = request;
  if ((query === undefined) === (messages === undefined)) {
    throw serverError('invalid_request', 'Send either "query" or "messages".');
  }
  const texts = messages ? await newMessages(messages, history) : [query!];
  if (texts.every((text) => text.trim() === '')) throw serverError('invalid_request', 'query: the message is empty');
  return { parts: texts.map((text) => ({ type: 'text', text })) };
}

function digestOf(parts: string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
