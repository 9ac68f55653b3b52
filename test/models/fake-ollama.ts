// An Ollama inside the test's process: its list of models, what they can do, and chat over its OpenAI-compatible API.
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { delta, toBody } from './streams.ts';

export interface FakeModel {
  name: string;
  /** What /api/show says; absent: this Ollama is too old to tell. */
  capabilities?: string[];
  remote_host?: string;
  details?: { family: string };
}

export interface FakeOllama extends AsyncDisposable {
  /** As in OLLAMA_HOST. */
  host: string;
  models: FakeModel[];
  /** Method and path of each request, and of a chat its model. */
  seen: string[];
  /** The Authorization headers that came. */
  keys: string[];
}

/** Chat answers `I am <model>.` `delayMs`: before each answer. */
export async function createFakeOllama(models: FakeModel[], config: { delayMs?: number } = {}): Promise<FakeOllama> {
  const fake = { models, seen: [] as string[], keys: [] as string[] };

  function answer({ method, url, headers }: IncomingMessage, body: string): unknown {
    const { model } = (body ? JSON.parse(body) : {}) as { model?: string };
    fake.seen.push(`${method} ${url}${url === '/v1/chat/completions' ? ` ${model}` : ''}`);
    if (headers.authorization) fake.keys.push(headers.authorization);
    const shown = fake.models.map(({ name, remote_host, details }) => ({ name, remote_host, details }));
    if (method === 'GET' && url === '/api/tags') return { models: shown };
    const known = fake.models.find(({ name }) => name === model);
    if (!known) return undefined;
    if (url === '/api/show') return known.capabilities ? { capabilities: known.capabilities } : {};
    return url === '/v1/chat/completions'
      ? toBody([delta({ content: `I am ${model}.` }), delta({}, 'stop')])
      : undefined;
  }

  const server = createServer((incoming, response) => {
    void text(incoming).then((body) => {
      const said = answer(incoming, body);
      const status = said === undefined ? 404 : 200;
      setTimeout(() => {
        response.writeHead(status, {
          'content-type': typeof said === 'string' ? 'text/event-stream' : 'application/json',
        });
        response.end(typeof said === 'string' ? said : JSON.stringify(said ?? { error: 'not found' }));
      }, config.delayMs ?? 0);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(fake, {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await server[Symbol.asyncDispose]();
    },
  });
}
