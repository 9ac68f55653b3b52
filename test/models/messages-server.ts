// A server that speaks Anthropic's messages protocol inside the test's process, as far as a script goes.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

type Body = { system?: unknown; messages: unknown; tools?: unknown };
export type Reply = (response: ServerResponse) => void;

/** The last reply is given again and again. */
export async function createMessagesServer(...replies: Reply[]) {
  const requests: { body: Body; headers: IncomingHttpHeaders; path?: string; port?: number; isClosed: boolean }[] = [];
  const answer = async (incoming: IncomingMessage, response: ServerResponse) => {
    const body = (await json(incoming)) as Body;
    const seen = { body, headers: incoming.headers, path: incoming.url, port: incoming.socket.remotePort };
    const index = requests.push({ ...seen, isClosed: false }) - 1;
    response.on('close', () => (requests[index]!.isClosed = !response.writableFinished));
    replies[Math.min(index, replies.length - 1)]!(response);
  };
  const server = createServer((incoming, response) => void answer(incoming, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const close = () => (server.closeAllConnections(), server[Symbol.asyncDispose]());
  return { url, requests, [Symbol.asyncDispose]: close };
}

export type Event = { type: string } & Record<string, unknown>;

const usage = { input_tokens: 7, output_tokens: 1, cache_read_input_tokens: 3 };
const message = { id: 'm1', type: 'message', model: 'claude-x-1', role: 'assistant', content: [], usage };
export const begin: Event = { type: 'message_start', message };
export const block = (index: number, content_block: object, ...deltas: object[]): Event[] => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];
export const textBlock = (index: number, ...texts: string[]) =>
  block(index, { type: 'text', text: '' }, ...texts.map((text) => ({ type: 'text_delta', text })));
export const end = (stop_reason = 'end_turn'): Event[] => [
  { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } },
  { type: 'message_stop' },
];
const toBody = (events: Event[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');

export function open(response: ServerResponse, events: Event[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(toBody(events));
}
export const stream =
  (...events: Event[]): Reply =>
  (response) => {
    open(response, events);
    response.end();
  };
export const refuse =
  (status: number, type: string, message: string, headers = {}): Reply =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ type: 'error', error: { type, message } }));
  };
