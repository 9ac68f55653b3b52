// What a stop, a failure or a second process does to a turn; kill -9 is in test/crash.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { askForWrites, defineTool } from '../../src/kernel/index.ts';
import type { Model } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from './harness.ts';
import { backends, createTestServer, namesOf, textOf } from './harness.ts';

const pay = (paid: string[]) =>
  defineTool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({ amount: z.number().max(1000) }),
    effect: 'once',
    run({ amount }, { key }) {
      paid.push(key);
      return { paid: amount };
    },
  });

/** Asks for one payment, then says so. */
const payer = () =>
  createScriptedModel((request) =>
    request.messages.at(-1)?.role === 'tool'
      ? 'Paid.'
      : { text: 'I will pay. ', calls: [{ name: 'pay', args: { amount: 5 } }] },
  );

const hangs: Model = {
  name: 'hangs',
  call: (_, signal, on) => {
    on({ type: 'text', text: 'I begin and ' });
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  },
};

const fine = () => createScriptedModel(() => 'a whole answer');

async function until(look: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 500; i++) {
    if (await look()) return;
    await sleep(20);
  }
  throw new Error('it did not come to that in 10 s');
}

describe.each(backends)('durability on %s', (backend) => {
  const idle = (server: TestServer, id: string) => async () => {
    const { status, body } = await server.call('GET', `/conversations/${id}`);
    return status === 200 && body.activeRun === null && Number(body.queued) === 0;
  };
  const texts = async (server: TestServer, id: string) =>
    (
      (await server.call('GET', `/conversations/${id}/messages`)).body.messages as unknown as {
        kind: string;
        parts?: { text?: string }[];
        code?: string;
      }[]
    ).map((message) => message.code ?? message.parts?.map((part) => part.text).join('') ?? message.kind);

  it('B18 a server stopped in mid-answer goes on after the restart, and nothing is missing', async () => {
    await using server = await createTestServer(backend, { model: hangs });
    const seen = server.stream('/chat/stream', { body: { conversationId: 'b18', query: 'hello' } });
    await until(async () => (await server.call('GET', '/conversations/b18')).status === 200);
    await sleep(50);
    await server.restart({ model: fine() });
    expect(textOf(await seen)).toBe('I begin and ');
    await until(idle(server, 'b18'));
    expect(await texts(server, 'b18')).toEqual(['hello', 'a whole answer']);
  });

  it('B18 a cancelled answer keeps what was shown, marked, and the next turn sees it', async () => {
    const next = fine();
    await using server = await createTestServer(backend, { model: hangs });
    const frames = server.stream('/chat/stream', { body: { conversationId: 'c', query: 'hello' } });
    await until(async () => (await server.call('GET', '/conversations/c')).body.activeRun !== null);
    await sleep(50);
    const { activeRun } = (await server.call('GET', '/conversations/c')).body;
    expect((await server.call('DELETE', `/runs/${String(activeRun)}`)).body).toMatchObject({ status: 'running' });
    expect((await frames).at(-1)).toMatchObject({ event: 'run_end', data: { reason: 'cancelled' } });
    await server.restart({ model: next });
    await server.call('POST', '/chat', { body: { conversationId: 'c', query: 'go on' } });
    expect(JSON.stringify(next.requests[0]!.messages)).toContain('I begin and ');
    expect(JSON.stringify(next.requests[0]!.messages)).toContain('interrupted');
  });

  it('B19 a model that fails leaves the message and the error, and the next turn works', async () => {
    const model = createScriptedModel([{ error: new Error('the host is on fire') }, 'now it works']);
    await using server = await createTestServer(backend, { model });
    const failed = await server.call('POST', '/chat', { body: { conversationId: 'b19', query: 'hello' } });
    expect(failed.status).toBeGreaterThanOrEqual(500);
    expect(failed.body.error?.message).toContain('on fire');
    const worked = await server.call('POST', '/chat', { body: { conversationId: 'b19', query: 'again' } });
    expect(worked.body).toMatchObject({ status: 'done', text: 'now it works' });
    expect(await texts(server, 'b19')).toEqual(['hello', 'run.failed', 'again', 'now it works']);
  });

  it('B16 B11 a hung model, ten queued messages, three restarts: each message is answered once, in order', async () => {
    await using server = await createTestServer(backend, { model: hangs });
    const queries = Array.from({ length: 11 }, (_, i) => `message ${i}`);
    for (const query of queries) await server.send('b16', query);
    for (let i = 0; i < 3; i++) await server.restart();
    await server.restart({ model: fine() });
    await until(idle(server, 'b16'));
    expect(await texts(server, 'b16')).toEqual(queries.flatMap((query) => [query, 'a whole answer']));
  });

  it('GOV-60 GOV-82 a call that asks waits through a restart, is answered once, and runs once', async () => {
    const paid: string[] = [];
    await using server = await createTestServer(backend, { model: payer(), tools: [pay(paid)], policy: askForWrites });
    const waiting = await server.call('POST', '/chat', { body: { conversationId: 'ask', query: 'pay 5' } });
    expect(waiting).toMatchObject({
      status: 202,
      body: { status: 'waiting', approvals: [{ why: expect.stringContaining('changes') }] },
    });
    const { id } = (waiting.body.approvals as unknown as { id: string }[])[0]!;
    await server.restart();
    expect(paid).toEqual([]);
    const view = await server.call('GET', `/runs/${String(waiting.body.run)}`);
    expect(view.body.approvals).toMatchObject([{ id }]);
    const watching = server.stream(`/runs/${String(waiting.body.run)}/events`);
    expect((await server.call('POST', `/approvals/${id}`, { body: { decision: 'allow' } })).status).toBe(200);
    expect((await server.call('POST', `/approvals/${id}`, { body: { decision: 'deny' } })).status).toBe(409);
    const frames = await watching;
    expect(frames.at(-1)).toMatchObject({ event: 'run_end', data: { reason: 'done' } });
    expect(namesOf(frames)).toContain('approval_request');
    expect(textOf(frames)).toBe('I will pay. Paid.');
    expect(paid).toHaveLength(1);
  });

  it('POST /chat again with its Idempotency-Key, while its run waits, answers the same 202', async () => {
    await using server = await createTestServer(backend, { model: payer(), tools: [pay([])], policy: askForWrites });
    const send = () =>
      server.call('POST', '/chat', {
        body: { conversationId: 'w', query: 'pay 5' },
        headers: { 'idempotency-key': 'k' },
      });
    const first = await send();
    const second = await send();
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(second.body.approvals).toEqual(first.body.approvals);
  });

  it('GOV-82 a started call that the policy forbids after a crash is said to be unknown, not unexecuted', async () => {
    const model = payer();
    const stuck = defineTool({
      name: 'pay',
      description: 'Pays.',
      parameters: z.object({ amount: z.number() }),
      effect: 'idempotent',
      run: (_, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')))),
    });
    await using server = await createTestServer(backend, { model, tools: [stuck] });
    await server.send('c', 'pay 5');
    await until(async () =>
      JSON.stringify((await server.call('GET', '/conversations/c/messages')).body).includes('tool_call'),
    );
    await server.restart({ policy: { decide: () => ({ effect: 'deny', why: 'Not any more.' }) } });
    await until(idle(server, 'c'));
    const told = JSON.stringify(model.requests.at(-1)!.messages.at(-1));
    expect(told).toContain('tool.outcome_unknown');
    expect(told).toContain('Not any more.');
    expect(told).not.toMatch(/nothing was executed/i);
  });

  it('a denied call is told to the model with the comment, edited arguments are checked anew', async () => {
    const paid: string[] = [];
    const model = payer();
    await using server = await createTestServer(backend, { model, tools: [pay(paid)], policy: askForWrites });
    const ask = async () => {
      const { body } = await server.call('POST', '/chat', { body: { query: 'pay 5' } });
      return { run: String(body.run), id: (body.approvals as unknown as { id: string }[])[0]!.id };
    };
    const denied = await ask();
    await server.call('POST', `/approvals/${denied.id}`, { body: { decision: 'deny', comment: 'too dear' } });
    await until(async () => (await server.call('GET', `/runs/${denied.run}`)).body.status === ('done' as never));
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('too dear');
    const edited = await ask();
    await server.call('POST', `/approvals/${edited.id}`, { body: { decision: 'allow', args: { amount: 5000 } } });
    await until(async () => (await server.call('GET', `/runs/${edited.run}`)).body.status === ('done' as never));
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('Invalid arguments');
    expect(paid).toEqual([]);
    const cancelled = await ask();
    await server.call('DELETE', `/runs/${cancelled.run}`);
    await until(
      async () => (await server.call('GET', `/runs/${cancelled.run}`)).body.status === ('cancelled' as never),
    );
    expect(paid).toEqual([]);
  });

  it('a message sent while the server stops is refused with a code, and nothing of it is recorded', async () => {
    await using server = await createTestServer(backend, { model: fine() });
    const closing = server.homard.close();
    const reply = await server.call('POST', '/chat', { body: { conversationId: 'late', query: 'x' } });
    expect(reply.status).toBe(503);
    expect(reply.body.error!.code).toMatch(/^(run\.stopping|store\.\w+)$/);
    await closing;
    expect((await server.call('GET', '/health')).status).toBe(503);
    await server.restart();
    expect((await server.call('GET', '/conversations/late')).status).toBe(404);
  });

  it('the feed tells a second device what happens, once, and resumes', async () => {
    await using server = await createTestServer(backend, { model: fine() });
    const leave = new AbortController();
    const before = new Date().toISOString();
    const feed = server.stream('/events', { signal: leave.signal, until: (frame) => frame.data.status === 'done' });
    await sleep(50);
    const { body } = await server.call('POST', '/chat', { body: { query: 'x' } });
    const frames = await feed;
    expect(frames.at(-1)).toMatchObject({
      event: 'run',
      data: { run: body.run, status: 'done', conversation: body.conversation },
    });
    const again = await server.stream('/events', {
      headers: { 'last-event-id': before },
      until: (frame) => frame.data.status === 'done',
    });
    expect(again.at(-1)?.data).toMatchObject({ run: body.run });
  });
});
