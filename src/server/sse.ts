// Events as server-sent events: what a commit or a token says goes out in the same tick, in one write. A reader who does
// not keep up is cut off rather than remembered; it comes back with Last-Event-ID.
import type { AgentEvent, Emitted } from '../kernel/index.ts';
import { toEventId } from '../kernel/index.ts';

/** Where an event stream goes to. */
export interface Sink {
  write(text: string): void;
  end(): void;
  /** Bytes that were written and not taken yet. */
  buffered(): number;
}

export interface EventStream {
  send(emitted: Emitted): void;
  /** A server event outside the union, with its own id. */
  sendRaw(name: string, data: unknown, id?: string): void;
  /** Sends what is left and ends the response. */
  end(): void;
}

export interface EventStreamConfig {
  sink: Sink;
  run: string;
  /** Milliseconds between comment lines that keep proxies from closing a silent stream. */
  heartbeatMs: number;
  /** Bytes that a reader may be behind. */
  backlogBytes: number;
  /** The reader has not taken what it was sent before: the stream will be over. */
  onSlow: () => void;
}

export function createEventStream({ sink, run, heartbeatMs, backlogBytes, onSlow }: EventStreamConfig): EventStream {
  let pending = '';
  let isArmed = false;
  let isOver = false;

  const heartbeat = setInterval(() => write(': still working\n\n'), heartbeatMs);

  function flush(): void {
    isArmed = false;
    if (isOver || !pending) return;
    if (sink.buffered() > backlogBytes) {
      onSlow();
      stop();
      return;
    }
    sink.write(pending);
    pending = '';
  }

  function write(text: string): void {
    if (isOver) return;
    pending += text;
    if (isArmed) return;
    isArmed = true;
    setImmediate(flush);
  }

  function stop(): void {
    isOver = true;
    clearInterval(heartbeat);
    sink.end();
  }

  return {
    send: (emitted) => write((emitted.wire ??= encode(emitted, run))),
    sendRaw: (name, data, id) => write(toFrame(name, JSON.stringify(data), id)),
    end() {
      if (isOver) return;
      flush();
      if (!isOver) stop();
    },
  };
}

function encode({ event, position }: Emitted, run: string): string {
  return toFrame(event.type, payloadOf(event), position ? toEventId(run, position) : undefined);
}

function payloadOf(event: AgentEvent): string {
  if (event.type === 'token' || event.type === 'reasoning') return `{"text":${JSON.stringify(event.text)}}`;
  const { type: _, ...payload } = event;
  return JSON.stringify(payload);
}

/** JSON has no line break inside, so one `data:` line always is enough. */
export function toFrame(name: string, json: string, id?: string): string {
  return id === undefined ? `event: ${name}\ndata: ${json}\n\n` : `event: ${name}\nid: ${id}\ndata: ${json}\n\n`;
}
