// The physical limit: turns a chat request into one upstream model call and passes the bytes of its stream through.
//   PORT=... OPENAI_BASE_URL=... node bench/raw-proxy.ts
import http from 'node:http';

const upstream = new URL(`${process.env['OPENAI_BASE_URL']}/chat/completions`);
const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });

function forward(query: string, response: http.ServerResponse): void {
  const body = JSON.stringify({ model: 'mock', stream: true, messages: [{ role: 'user', content: query }] });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const call = http.request(upstream, { method: 'POST', agent, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' });
    answer.pipe(response);
  });
  call.on('error', () => response.destroy());
  response.on('close', () => {
    if (!response.writableEnded) call.destroy();
  });
  call.end(body);
}

const server = http.createServer((request, response) => {
  if (request.method === 'GET') {
    response.end('ok');
    return;
  }
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (part: string) => (body += part));
  request.on('end', () => forward((JSON.parse(body) as { query: string }).query, response));
});
server.keepAliveTimeout = 120_000;
server.listen({ port: Number(process.env['PORT']), host: '127.0.0.1', backlog: 4096 });
process.on('SIGTERM', () => process.exit(0));
