import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AgentEvent, Emitted } from '../../src/kernel/index.ts';
import { toEventId } from '../../src/kernel/index.ts';
import type { Sink } from '../../src/server/sse.ts';
import { createEventStream } from '../../src/server/sse.ts';
import { framesOf } from '../crash/client.ts';

interface Recorded extends Sink {
  chunks: string[];
  isEnded: boolean;
  waiting: number;
}

function createSink(): Recorded {
  const sink: Recorded = {
    chunks: [],
    isEnded: false,
    waiting: 0,
    write: (text) => void sink.chunks.push(text),
    end: () => void (sink.isEnded = true),
    buffered: () => sink.waiting,
  };
  return sink;
}

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
const base = { run: 'r', heartbeatMs: 60_000, backlogBytes: 1000 };

/** As the standard has it, written apart from our client: fields by line, events by blank lines. */
function readStandard(text: string): { event: string; id?: string; data: string }[] {
  const events: { event: string; id?: string; data: string }[] = [];
  let open: Record<string, string> = {};
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line === '') {
      if (open.data !== undefined) events.push(open as { event: string; data: string });
      open = {};
      continue;
    }
    const colon = line.indexOf(':');
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    open[field] = field === 'data' && open.data !== undefined ? `${open.data}\n${value}` : value;
  }
  return events;
}

describe('server-sent events', () => {
  const text = fc.string({
    unit: fc.oneof(
      fc.string({ unit: 'binary', maxLength: 2 }),
      fc.constantFrom('\n', '\r\n', '\n\n', 'data: x\n\n', '\u2028', '\0', '\ud800'),
    ),
  });
  const event: fc.Arbitrary<AgentEvent> = fc.oneof(
    text.map((value): AgentEvent => ({ type: 'token', text: value })),
    text.map((value): AgentEvent => ({ type: 'reasoning', text: value })),
    text.map((value): AgentEvent => ({ type: 'warning', code: 'a.b', message: value })),
    text.map((value): AgentEvent => ({ type: 'tool_output', id: value, text: value })),
  );

  it('any text survives the framing, whoever reads it and however it is cut', async () => {
    const property = fc.asyncProperty(
      fc.array(event, { maxLength: 12 }),
      fc.array(fc.nat(40)),
      async (events, cuts) => {
        const sink = createSink();
        const stream = createEventStream({ ...base, sink, onSlow: () => undefined });
        for (const [k, one] of events.entries()) {
          stream.send({ event: one, position: k % 3 ? { commit: 1, epoch: 1, k } : null });
          if (k % 4 === 3) await tick();
        }
        stream.end();
        const all = sink.chunks.join('');
        const expected = events.map(({ type, ...data }, k) => ({
          event: type,
          id: k % 3 ? toEventId('r', { commit: 1, epoch: 1, k }) : undefined,
          data: JSON.parse(JSON.stringify(data)) as object,
        }));
        const standard = readStandard(all).map((one) => ({
          event: one.event,
          id: one.id,
          data: JSON.parse(one.data) as object,
        }));
        expect(standard).toEqual(expected);
        const bytes = new TextEncoder().encode(all);
        const pieces: Uint8Array[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = 1 + (cuts[i % Math.max(1, cuts.length)] ?? 7);
          pieces.push(bytes.slice(at, at + size));
          at += size;
        }
        const body = new ReadableStream<Uint8Array>({
          start: (controller) => (pieces.forEach((piece) => controller.enqueue(piece)), controller.close()),
        });
        const read: object[] = [];
        for await (const frame of framesOf(body)) read.push(frame);
        expect(read).toEqual(expected);
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });

  it('what comes in one tick goes out in one write, and each event is encoded once for all watchers', async () => {
    const sinks = [createSink(), createSink()];
    const streams = sinks.map((sink) => createEventStream({ ...base, sink, onSlow: () => undefined }));
    const emitted: Emitted = { event: { type: 'token', text: 'x' }, position: { commit: 0, epoch: 1, k: 1 } };
    for (const stream of streams) for (let i = 0; i < 50; i++) stream.send(emitted);
    await tick();
    expect(sinks.map((sink) => sink.chunks.length)).toEqual([1, 1]);
    expect(emitted.wire).toBe('event: token\nid: r:0:1:1\ndata: {"text":"x"}\n\n');
    for (const stream of streams) stream.end();
  });

  it('H5 a large event is no sign of a slow reader; one who does not take what was sent is cut off', async () => {
    const sink = createSink();
    const slow: string[] = [];
    const stream = createEventStream({
      ...base,
      sink,
      onSlow: () => void slow.push(sink.isEnded ? 'late' : 'in time'),
    });
    stream.send({ event: { type: 'token', text: 'x'.repeat(5000) }, position: null });
    await tick();
    expect([sink.isEnded, slow]).toEqual([false, []]);
    sink.waiting = 5000;
    stream.send({ event: { type: 'token', text: 'y' }, position: null });
    await tick();
    expect([sink.isEnded, slow, sink.chunks.length]).toEqual([true, ['in time'], 1]);
    stream.send({ event: { type: 'token', text: 'z' }, position: null });
    await tick();
    expect(sink.chunks).toHaveLength(1);
  });

  it('OBS-06 H1 heartbeats are comments, and end with the stream', async () => {
    const sink = createSink();
    const stream = createEventStream({ ...base, heartbeatMs: 10, sink, onSlow: () => undefined });
    await new Promise((resolve) => setTimeout(resolve, 60));
    stream.end();
    const count = sink.chunks.length;
    await new Promise((resolve) => setTimeout(resolve, 40));
    expect(count).toBeGreaterThanOrEqual(2);
    expect(sink.chunks).toHaveLength(count);
    expect(readStandard(sink.chunks.join(''))).toEqual([]);
  });
});
