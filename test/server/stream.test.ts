import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { Model } from '../../src/kernel/index.ts';
import { defineTool, noUsage } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { Frame, TestServer } from './harness.ts';
import { backends, createTestServer, namesOf, textOf } from './harness.ts';

const slow = defineTool({
  name: 'slow',
  description: 'Waits.',
  parameters: z.object({ ms: z.number(), say: z.string().optional() }),
  effect: 'read',
  async run({ ms, say }, { signal, output }) {
    output('waiting');
    stopped.count++;
    const done = sleep(ms, undefined, { signal }).catch(() => {
      stopped.aborted++;
    });
    await done;
    return say ?? 'waited';
  },
});
const stopped = { count: 0, aborted: 0 };

/** The script is the user's text: `call slow {...}; call ...` makes calls, anything else is echoed slowly. */
const model = () =>
  createScriptedModel(
    (request) => {
      const turn = request.messages.slice(request.messages.findLastIndex((message) => message.role === 'user'));
      const user = turn[0]?.role === 'user' && turn[0].parts[0]?.type === 'text' ? turn[0].parts[0].text : '';
      if (turn.length === 1 && user.startsWith('call ')) {
        const calls = user.split(';').map((call) => ({
          name: call.trim().split(' ')[1]!,
          args: JSON.parse(call.trim().split(' ').slice(2).join(' ')),
        }));
        return { reasoning: 'I need the tools for that.', text: 'Let me see. ', calls };
      }
      return {
        reasoning: 'Easy enough to say.',
        text: user.startsWith('call ') ? 'All done now.' : `You said: ${user}`,
      };
    },
    { paceMs: 5 },
  );

describe.each(backends)('the event stream on %s', (backend) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await createTestServer(backend, { model: model(), tools: [slow], config: { heartbeatSeconds: 0.1 } });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const ask = (query: string, more: object = {}) => server.stream('/chat/stream', { body: { query, ...more } });

  it('OBS-01 OBS-05 H4: reasoning, tokens, calls and results come in order, with ids, and one end', async () => {
    const frames = await ask('call slow {"ms":20,"say":"one"}; call slow {"ms":1,"say":"two"}', {
      conversationId: 'first',
    });
    expect(namesOf(frames)).toEqual([
      'run_start',
      'reasoning',
      'token',
      'usage',
      'tool_call',
      'tool_output',
      'tool_result',
      'reasoning',
      'token',
      'usage',
      'run_end',
    ]);
    expect(frames[0]?.data).toMatchObject({ conversation: 'first', agent: 'assistant', model: 'scripted' });
    const { run } = frames[0]!.data;
    for (const frame of frames)
      if (frame.event !== 'tool_output') expect(frame.id).toMatch(new RegExp(`^${String(run)}:\\d+:1:\\d+$`));
    const results = frames
      .filter((frame) => frame.event === 'tool_result')
      .flatMap((frame) => frame.data.results as { result: string }[]);
    expect(results.map((result) => result.result)).toEqual(['two', 'one']); // as they end
    expect(frames.at(-1)?.data).toMatchObject({ reason: 'done' });
    expect(frames.filter((frame) => frame.event === 'run_end' || frame.event === 'error')).toHaveLength(1);
  });

  it('OBS-03 a token leaves at once: tokens arrive one by one while the model is still speaking', async () => {
    const arrivals: number[] = [];
    await server.stream('/chat/stream', {
      body: { query: 'one two three four five six seven eight nine ten' },
      until: (frame) => {
        if (frame.event === 'token') arrivals.push(performance.now());
        return false;
      },
    });
    const spread = arrivals.at(-1)! - arrivals[0]!;
    expect(arrivals.length).toBeGreaterThan(8);
    expect(spread).toBeGreaterThan(30);
  });

  it('OBS-03 a token leaves within 50 ms of the model saying it', async () => {
    const said: number[] = [];
    const speaking: Model = {
      name: 'speaking',
      async call(_, __, on) {
        for (let i = 0; i < 30; i++) {
          await sleep(10);
          said.push(performance.now());
          on({ type: 'text', text: `${i} ` });
        }
        return { reason: 'stop', usage: noUsage };
      },
    };
    await using own = await createTestServer(backend, { model: speaking });
    const late: number[] = [];
    await own.stream('/chat/stream', {
      body: { query: 'x' },
      until: ({ event, data }) => {
        if (event === 'token')
          for (const i of String(data.text).trim().split(' ')) late.push(performance.now() - said[Number(i)]!);
        return false;
      },
    });
    expect(late).toHaveLength(30);
    expect(late.toSorted((a, b) => a - b)[27]).toBeLessThan(50); // two of thirty may meet a garbage collection
  });

  it('OBS-08 with detach:false the request to the model is closed, for /chat too', async () => {
    const closed: string[] = [];
    const hanging: Model = {
      name: 'hanging',
      call: (_, signal, on) => {
        on({ type: 'text', text: 'so ' });
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => (closed.push('closed'), reject(signal.reason as Error)));
        });
      },
    };
    await using own = await createTestServer(backend, { model: hanging });
    await own.stream('/chat/stream', { body: { query: 'x', detach: false }, until: ({ event }) => event === 'token' });
    await poll(
      () => Promise.resolve(closed.length),
      (count) => count === 1,
      2000,
    );
    const leave = new AbortController();
    const asking = own
      .call('POST', '/chat', { body: { query: 'x', detach: false }, signal: leave.signal })
      .catch(() => 'left');
    await sleep(200);
    leave.abort();
    expect(await asking).toBe('left');
    await poll(
      () => Promise.resolve(closed.length),
      (count) => count === 2,
      2000,
    );
  });

  it('a stream that is over is not begun again', async () => {
    const frames = await ask('x');
    const run = String(frames[0]?.data.run);
    const reply = await server.call('GET', `/runs/${run}/events`, { headers: { 'last-event-id': frames.at(-1)!.id! } });
    expect(reply.status).toBe(204);
  });

  it('OBS-06 H1: a silent tool is covered by heartbeats', async () => {
    const response = await fetch(`${server.address}/chat/stream`, {
      method: 'POST',
      headers: { authorization: 'Bearer ann-token', 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'call slow {"ms":450}' }),
    });
    const text = await response.text();
    expect(text.match(/^: still working$/gm)?.length).toBeGreaterThanOrEqual(3);
  });

  it('OBS-07 resuming at any event gives exactly the rest', async () => {
    const frames = await ask('call slow {"ms":5}; call slow {"ms":1}');
    const run = String(frames[0]?.data.run);
    const whole = frames.filter((frame) => frame.id !== undefined);
    for (const [i, frame] of whole.entries()) {
      const rest = await server.stream(`/runs/${run}/events`, { headers: { 'last-event-id': frame.id! } });
      const both = [...whole.slice(0, i + 1), ...rest];
      expect(textOf(both)).toBe(textOf(whole));
      expect(textOf(both, 'reasoning')).toBe(textOf(whole, 'reasoning'));
      expect(others(both)).toEqual(others(whole));
    }
  });

  it('OBS-07 resuming while it runs: a client that leaves and comes back sees what one that stayed sees', async () => {
    const staying = ask('call slow {"ms":300}', { conversationId: 'resume' });
    const { body } = await poll(
      () => server.call('GET', '/conversations/resume'),
      (reply) => reply.status === 200,
    );
    const path = `/runs/${String(body.activeRun)}/events`;
    const comeBack = async (leaveAfter: number) => {
      let seen = 0;
      const first = await server.stream(path, { until: () => ++seen === leaveAfter });
      const last = first.findLast((frame) => frame.id !== undefined)?.id;
      return [...first, ...(await server.stream(path, { headers: { 'last-event-id': last! } }))];
    };
    const returned = await Promise.all([1, 2, 5, 8, 11, 13].map(comeBack));
    const stayed = await staying;
    for (const frames of returned) {
      expect(textOf(frames)).toBe(textOf(stayed));
      expect(others(frames)).toEqual(others(stayed));
    }
  });

  it('OBS-08 a client that leaves does not stop the run; it can be watched again', async () => {
    const leaving = await server.stream('/chat/stream', {
      body: { query: 'call slow {"ms":200}', conversationId: 'leave' },
      until: (frame) => frame.event === 'tool_call',
    });
    const run = String(leaving[0]?.data.run);
    const again = await server.stream(`/runs/${run}/events`);
    expect(textOf(again)).toBe('Let me see. All done now.');
    expect(again.at(-1)).toMatchObject({ event: 'run_end', data: { reason: 'done' } });
  });

  it('OBS-08 with detach:false the run is stopped within 2 s, and its tool too', async () => {
    const { aborted } = stopped;
    const frames = await server.stream('/chat/stream', {
      body: { query: 'call slow {"ms":20000}', detach: false },
      until: (frame) => frame.event === 'tool_call',
    });
    const run = String(frames[0]?.data.run);
    const left = performance.now();
    const ended = await poll(
      () => server.call('GET', `/runs/${run}`),
      (reply) => String(reply.body.status) === 'cancelled',
    );
    expect(performance.now() - left).toBeLessThan(2000);
    expect(ended.body).toMatchObject({ status: 'cancelled', reason: 'cancelled' });
    expect(stopped.aborted).toBe(aborted + 1);
  });

  it('OBS-15 B20: /chat and /chat/stream record the same', async () => {
    const query = 'call slow {"ms":1,"say":"x"}';
    const { body } = await server.call('POST', '/chat', { body: { query, conversationId: 'json' } });
    await ask(query, { conversationId: 'sse' });
    const [json, sse] = await Promise.all(
      ['json', 'sse'].map((id) => server.call('GET', `/conversations/${id}/messages`)),
    );
    const bare = (reply: typeof json) =>
      (reply!.body.messages as unknown as Record<string, unknown>[]).map((message) => ({
        ...message,
        run: '',
        at: '',
        ms: 0,
      }));
    expect(bare(json)).toEqual(bare(sse));
    expect(body).toMatchObject({
      conversation: 'json',
      status: 'done',
      reason: 'done',
      text: 'All done now.',
      toolCalls: [{ name: 'slow', args: { ms: 1, say: 'x' }, result: 'x', isError: false }],
    });
  });

  it('H5 a reader who does not read is cut off, does not slow the run, and comes back for the rest', async () => {
    const { connect } = await import('node:net');
    const { hostname, port } = new URL(server.address);
    const socket = connect(Number(port), hostname);
    const query = Array(100).fill('x'.repeat(39_000)).join(' ');
    const body = JSON.stringify({ query, conversationId: 'slow' });
    const head = `POST /chat/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann-token\r\nContent-Type: application/json`;
    socket.write(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const first = await new Promise<string>((resolve) => socket.once('data', (chunk) => resolve(String(chunk))));
    socket.pause();
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.on('error', () => undefined);
    await poll(
      () => server.call('GET', '/conversations/slow'),
      (reply) => reply.body.activeRun === null,
      25_000,
    );
    socket.resume();
    await closed;
    const id = /^id: (.*)$/m.exec(first)![1]!;
    const rest = await server.stream(`/runs/${id.split(':')[0]}/events`, { headers: { 'last-event-id': id } });
    expect(textOf(rest)).toBe(`You said: ${query}`);
  });
});

const others = (frames: readonly Frame[]) =>
  frames.filter(({ event, id }) => id !== undefined && !['token', 'reasoning', 'step_restart'].includes(event));

async function poll<T>(look: () => Promise<T>, isDone: (value: T) => boolean, ms = 5000): Promise<T> {
  for (const until = Date.now() + ms; ;) {
    const value = await look();
    if (isDone(value)) return value;
    if (Date.now() > until) throw new Error(`still ${JSON.stringify(value)} after ${ms} ms`);
    await sleep(10);
  }
}
