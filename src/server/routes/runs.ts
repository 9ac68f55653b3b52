// GET /runs/:id, its events, and ending it.
import { Hono } from 'hono';
import type { Mask, Position, RunRecord, Step, Usage } from '../../kernel/index.ts';
import { addUsage, callsOf, journalError, noUsage, parseEventId, replay, textOf, toShown } from '../../kernel/index.ts';
import type { ServerEnvironment, ServerParts } from '../context.ts';
import { serverError } from '../errors.ts';
import { respondWithEvents } from '../stream.ts';

export function runRoutes({ runner, journal, priceOf, mask, config, log }: ServerParts): Hono<ServerEnvironment> {
  const app = new Hono<ServerEnvironment>();
  const notFound = (run: string) => journalError('run_not_found', `There is no run ${run.slice(0, 200)}.`);

  app.get('/runs/:id', async (c) => {
    const record = await journal.load(c.get('caller'), c.req.param('id'), -1);
    if (!record) throw notFound(c.req.param('id'));
    return c.json({
      ...toRunView(record, { priceOf, mask }),
      steps: record.steps.map((step) => toStepView(step, mask)),
    });
  });

  app.get('/runs/:id/results/:call', async (c) => {
    const { id, call } = c.req.param();
    const record = await journal.load(c.get('caller'), id, -1);
    if (!record) throw notFound(id);
    const entry = record.entries.find((entry) => entry.kind === 'tool_result' && entry.body.call === call);
    if (entry?.kind !== 'tool_result') {
      throw serverError('not_found', `Run ${id.slice(0, 200)} has no result of a call ${call.slice(0, 200)}.`);
    }
    const { name, result, isError = false, ms } = entry.body;
    return c.json({ id: call, name, result: mask(result), isError, ms });
  });

  app.get('/runs/:id/events', async (c) => {
    const run = c.req.param('id');
    const caller = c.get('caller');
    const after = positionOf(run, c.req.header('last-event-id') ?? c.req.query('lastEventId'));
    const record = await journal.load(caller, run, after ? after.commit - 1 : -1);
    if (!record) throw notFound(run);
    // EventSource comes back for ever unless it is told that there is nothing more.
    const isOver = after && record.outcome && !replay(record).some(({ position }) => isBehind(position, after));
    if (isOver) return c.body(null, 204);
    return respondWithEvents(c, { ...config, log, run }, (stream, gone) =>
      runner.watch({ ...caller, run, after }, { on: stream.send, signal: gone }),
    );
  });

  app.delete('/runs/:id', async (c) => {
    const status = await runner.cancel(c.get('caller'), c.req.param('id'));
    if (status === undefined) throw notFound(c.req.param('id'));
    return c.json({ run: c.req.param('id'), status });
  });
  return app;
}

function isBehind(position: Position | null, { commit, k }: Position): boolean {
  return position !== null && (position.commit > commit || (position.commit === commit && position.k > k));
}

function positionOf(run: string, id: string | undefined): Position | null {
  if (id === undefined || id === '') return null;
  const position = parseEventId(run, id);
  if (!position)
    throw serverError('invalid_request', `Last-Event-ID: "${id.slice(0, 200)}" is not an event of this run`);
  return position;
}

export interface RunView {
  conversation: string;
  run: string;
  status: RunRecord['status'];
  agent: string;
  model: string;
  /** The text of the last answer. */
  text: string;
  toolCalls: { id: string; name: string; args: unknown; result?: unknown; truncated?: true; isError?: boolean }[];
  /** Open questions to a person; answer with POST /approvals/:id. */
  approvals: { id: string; call: string; why: string }[];
  usage: Usage;
  /** In US dollars; null where the configuration has no price of a model that was used. */
  costUsd: number | null;
  reason?: string;
  /** The answer in the form of the request's `output`. */
  final?: unknown;
  error?: { code: string; message: string; hint: string };
  createdAt: string;
  endedAt: string | null;
}

export function toRunView(record: RunRecord, { priceOf, mask }: Pick<ServerParts, 'priceOf' | 'mask'>): RunView {
  const { conversation, run, status, request, outcome, createdAt, endedAt, entries, steps } = record;
  const answers = entries.filter((entry) => entry.kind === 'assistant');
  const results = new Map(
    entries.flatMap((entry) => (entry.kind === 'tool_result' ? [[entry.body.call, entry.body]] : [])),
  );
  const waiting = new Set(steps.filter((step) => step.state === 'awaiting').map((step) => step.n));
  const isOpen = status === 'running' || status === 'waiting';
  const toolCalls = answers
    .flatMap(({ body }) => callsOf(body.parts))
    .map(({ id, name, args, raw }) => {
      const result = results.get(id);
      return {
        id,
        name,
        args: mask(raw ?? args),
        ...(result && { ...toShown(result.result, mask), isError: result.isError ?? false }),
      };
    });
  const approvals = answers
    .flatMap(({ body }) => body.asks ?? [])
    .filter((ask) => isOpen && waiting.has(ask.step))
    .map(({ step, call, why }) => ({ id: `${run}:${step}`, call, why }));
  return {
    conversation,
    run,
    status,
    agent: request.agent,
    model: request.model,
    text: textOf(answers.at(-1)?.body.parts ?? []),
    toolCalls,
    approvals,
    usage: outcome?.usage ?? answers.reduce((sum, { body }) => addUsage(sum, body.usage), noUsage),
    costUsd: answers.map(({ body }) => priceOf(body.model, body.usage)).reduce(addCost, 0),
    ...(outcome?.type === 'run_end' && { reason: outcome.reason }),
    ...(outcome?.type === 'run_end' && outcome.final !== undefined && { final: outcome.final }),
    ...(outcome?.type === 'error' && { error: { code: outcome.code, message: outcome.message, hint: outcome.hint } }),
    createdAt,
    endedAt,
  };
}

/** A person may have given arguments. */
function toStepView({ answer, ...step }: Step, mask: Mask): object {
  if (!answer) return step;
  return { ...step, answer: answer.args === undefined ? answer : { ...answer, args: mask(answer.args) } };
}

function addCost(sum: number | null, cost: number | null): number | null {
  return sum === null || cost === null ? null : sum + cost;
}
