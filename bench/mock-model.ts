// A model server that costs next to nothing: OpenAI chat completions, streamed, scripted by the conversation itself.
//   PORT=... node bench/mock-model.ts
// The last user message that holds a directive decides on the answer:
//   plain N              N tokens
//   tools K N            K rounds of one call each (the first tool offered, without arguments), then N tokens
//   ... delay TTFT ITL   milliseconds before the first token and between tokens; both 0 by default
// GET /stats tells what the last request brought.
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

interface Message {
  role: string;
  content?: string | { text?: string }[] | null;
  tool_calls?: unknown[];
}

interface ChatRequest {
  model?: string;
  messages: Message[];
  tools?: { function: { name: string } }[];
}

interface Script {
  tokens: number;
  toolRounds: number;
  ttftMs: number;
  itlMs: number;
  /** Messages after the directive: what the server under test has done with it so far. */
  since: Message[];
}

// The load client waits for these words; no id of any kind contains `w-`.
const words = Array.from({ length: 64 }, (_, i) => `w-${i.toString(36).padStart(2, '0')} `);
const stats = { requests: 0, lastMessages: 0, lastTools: 0 };

function textOf(message: Message): string {
  const { content } = message;
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => part.text ?? '').join('\n');
}

function readScript(messages: Message[]): Script {
  for (let i = messages.length - 1; i >= 0; i--) {
    const message = messages[i]!;
    if (message.role !== 'user') continue;
    const text = textOf(message);
    const found = /\b(?:plain (\d+)|tools (\d+) (\d+))(?: delay (\d+) (\d+))?/.exec(text);
    if (!found) continue;
    const [, plain, rounds = 0, tokens, ttft = 0, itl = 0] = found;
    return {
      tokens: Number(plain ?? tokens),
      toolRounds: Number(rounds),
      ttftMs: Number(ttft),
      itlMs: Number(itl),
      since: messages.slice(i + 1),
    };
  }
  throw new Error('no user message holds a directive');
}

/** Refuses what would make a tool row measure something else: no tool offered, or a call that did not run. */
function nextToolCall(script: Script, tools: string[]): string | undefined {
  if (script.toolRounds === 0) return undefined;
  if (tools.length === 0) throw new Error('the script needs a tool and none was offered');
  const last = script.since.at(-1);
  if (last && !(last.role === 'tool' && textOf(last).includes(String(new Date().getUTCFullYear()))))
    throw new Error(`the tool did not tell the time: ${textOf(last).slice(0, 200)}`);
  const done = script.since.filter((message) => message.tool_calls?.length).length;
  return done < script.toolRounds ? tools[0] : undefined;
}

async function answer(request: ChatRequest, promptBytes: number, response: http.ServerResponse): Promise<void> {
  const script = readScript(request.messages);
  const tool = nextToolCall(script, request.tools?.map((tool) => tool.function.name) ?? []);
  stats.requests++;
  stats.lastMessages = request.messages.length;
  stats.lastTools = request.tools?.length ?? 0;

  const id = `chatcmpl-${stats.requests}`;
  const head = `data: {"id":"${id}","object":"chat.completion.chunk","created":${Math.floor(Date.now() / 1000)},"model":"mock",`;
  const chunk = (delta: string, finish = 'null') =>
    `${head}"choices":[{"index":0,"delta":${delta},"finish_reason":${finish}}]}\n\n`;
  const usage = (tokens: number) =>
    `${head}"choices":[],"usage":{"prompt_tokens":${promptBytes >> 2},"completion_tokens":${tokens},"total_tokens":${(promptBytes >> 2) + tokens}}}\n\ndata: [DONE]\n\n`;

  if (script.ttftMs > 0) await sleep(script.ttftMs);
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  let out = chunk('{"role":"assistant","content":""}');
  if (tool) {
    const call = { index: 0, id: `call_${id}`, type: 'function', function: { name: tool, arguments: '' } };
    out += chunk(JSON.stringify({ tool_calls: [call] }));
    out += chunk('{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}');
    response.end(out + chunk('{}', '"tool_calls"') + usage(10));
    return;
  }
  for (let i = 0; i < script.tokens; i++) {
    out += chunk(`{"content":"${words[i & 63]}"}`);
    // The first token leaves at once; what follows without a delay comes as one burst, as from a busy network.
    if (i > 0 && script.itlMs === 0) continue;
    response.write(out);
    out = '';
    if (script.itlMs > 0) await sleep(script.itlMs);
    if (response.destroyed) return;
  }
  response.end(out + chunk('{}', '"stop"') + usage(script.tokens));
}

function serve(request: http.IncomingMessage, response: http.ServerResponse): void {
  const json = (status: number, value: unknown) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
  };
  if (request.method === 'GET') {
    if (request.url === '/v1/models') json(200, { object: 'list', data: [{ id: 'mock', object: 'model' }] });
    else json(200, stats);
    return;
  }
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const body = Buffer.concat(parts);
    Promise.resolve()
      .then(() => answer(JSON.parse(body.toString()) as ChatRequest, body.length, response))
      .catch((cause: unknown) => {
        if (response.headersSent) response.destroy();
        else json(400, { error: { message: String(cause), type: 'invalid_request_error' } });
      });
  });
}

const server = http.createServer(serve);
server.keepAliveTimeout = 120_000;
server.listen({ port: Number(process.env['PORT']), host: '127.0.0.1', backlog: 4096 });
