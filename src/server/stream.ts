// One response that shows a run's events. Written straight to the socket where there is one (a third of the cost of a web
// stream), else as the body of a Response, so that any host with `fetch` can mount the server.
import type { Context } from 'hono';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Log } from '../kernel/index.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import type { ServerEnvironment } from './context.ts';
import { toErrorBody } from './errors.ts';
import type { EventStream, Sink } from './sse.ts';
import { createEventStream } from './sse.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff',
};

export interface StreamConfig {
  run: string;
  log: Log;
  heartbeatMs: number;
  backlogBytes: number;
}

/** What fills the stream; `signal` aborts when the reader is gone or too slow. The stream ends when it resolves. */
export type Fill = (stream: EventStream, signal: AbortSignal) => Promise<void>;

export function respondWithEvents(c: Context<ServerEnvironment>, config: StreamConfig, fill: Fill): Response {
  const headers = { ...HEADERS, 'x-request-id': c.get('requestId') };
  const outgoing = c.env?.outgoing;
  const gone = new AbortController();
  let isOver = false;
  const leave = () => {
    if (!isOver) gone.abort(new DOMException('The reader is gone.', 'AbortError'));
  };
  const run = (sink: Sink) => {
    const stream = createEventStream({ ...config, sink, onSlow: leave });
    void fill(stream, gone.signal)
      .catch((error: unknown) => {
        // What is so for good is told; after any other failure the reader comes back and goes on.
        const { code, message, hint } = toErrorBody(error, c.get('requestId')).body.error;
        if (error instanceof AgentError && !error.retryable) stream.sendRaw('error', { code, message, hint });
        else config.log.warn({ err: error, run: config.run }, `An event stream broke: ${messageOf(error)}`);
      })
      .finally(() => {
        isOver = true; // every stream closes; only one that is left is worth an error object
        stream.end();
      });
  };
  if (outgoing) {
    outgoing.writeHead(200, headers);
    outgoing.flushHeaders();
    outgoing.once('close', leave);
    if (outgoing.destroyed) leave();
    run({
      write: (text) => void outgoing.write(text),
      end: () => (gone.signal.aborted ? outgoing.destroy() : outgoing.end()),
      buffered: () => outgoing.writableLength,
    });
    return RESPONSE_ALREADY_SENT;
  }
  const encoder = new TextEncoder();
  let taken = 0;
  let written = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        run({
          write(text) {
            const bytes = encoder.encode(text);
            written += bytes.length;
            if (!gone.signal.aborted) controller.enqueue(bytes);
          },
          end: () => (gone.signal.aborted ? undefined : controller.close()),
          buffered: () => written - taken,
        });
      },
      pull(controller) {
        taken = written + Math.min(0, controller.desiredSize ?? 0);
      },
      cancel: leave,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }),
  );
  return new Response(body, { headers });
}
