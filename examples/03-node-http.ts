// Homard inside a server that exists already: below /agent, with that server's own users. Express and Fastify take the same
// listener.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createHomard } from '../src/index.ts';
import { createScriptedModel } from '../src/testing/index.ts';

/** Whatever your server knows its users by; here a cookie with a name in it. */
function userOf(request: Request): { tenant: string; owner: string } | null {
  const name = /session=(\w+)/.exec(request.headers.get('cookie') ?? '')?.[1];
  return name === undefined ? null : { tenant: 'acme', owner: name };
}

await using homard = await createHomard({
  model: createScriptedModel(() => 'Noted.'),
  identity: userOf,
  page: false,
  config: { data: 'data/node-http' },
});
const agent = getRequestListener(homard.fetch, { overrideGlobalObjects: false });

const server = createServer((request, response) => {
  if (request.url?.startsWith('/agent/')) {
    request.url = request.url.slice('/agent'.length);
    void agent(request, response);
  } else {
    response.end('The shop.');
  }
});
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1');
await once(server, 'listening');
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

console.log(await (await fetch(address)).text());
await fetch(`${address}/agent/chat`, {
  method: 'POST',
  headers: { cookie: 'session=ann', 'content-type': 'application/json' },
  body: JSON.stringify({ conversationId: 'plans', query: 'Remember the milk.' }),
});
for (const name of ['ann', 'bob']) {
  const found = await fetch(`${address}/agent/conversations`, { headers: { cookie: `session=${name}` } });
  const { conversations } = (await found.json()) as { conversations: { id: string }[] };
  console.log(name, 'sees', conversations.map(({ id }) => id).join(', ') || 'nothing');
}
console.log('a stranger gets', (await fetch(`${address}/agent/conversations`)).status);

server.close();
server.closeAllConnections();
