// The model of the crash tests: what it says depends only on what it is shown, so it also checks what it is shown.
import { once } from 'node:events';
import { createServer } from 'node:http';

interface WireMessage {
  role: string;
  content: string | null;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

export interface CrashModel extends AsyncDisposable {
  url: string;
  /** What was wrong with the histories that it was shown; stays empty. */
  problems: string[];
  requests: number;
}

const KINDS = ['do_read', 'do_idempotent', 'do_once'];
export const CALLS = 6;

export async function createCrashModel(): Promise<CrashModel> {
  const model = { url: '', problems: [] as string[], requests: 0 };
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      model.requests++;
      const { messages } = JSON.parse(body) as { messages: WireMessage[] };
      model.problems.push(...problemsOf(messages));
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      void answer(messages, (delta, finish) => {
        const chunk = { choices: [{ index: 0, delta, finish_reason: finish ?? null }] };
        response.write(`data: ${JSON.stringify(chunk)}\n\n`);
      }).then(() => response.end('data: [DONE]\n\n'));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  model.url = `http://127.0.0.1:${(server.address() as { port: number }).port}/v1`;
  return {
    ...model,
    get requests() {
      return model.requests;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Orphans, calls without result, results out of order: a strict host would refuse them. */
function problemsOf(messages: WireMessage[]): string[] {
  const problems: string[] = [];
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      const expected = open.shift();
      if (expected !== message.tool_call_id) problems.push(`result ${message.tool_call_id} instead of ${expected}`);
      continue;
    }
    if (open.length) problems.push(`${message.role} while ${open.join()} have no result`);
    open = message.tool_calls?.map((call) => call.id) ?? [];
  }
  if (open.length) problems.push(`${open.join()} have no result`);
  return problems;
}

type Send = (delta: object, finish?: string) => void;

/** Steps of one or two calls until six were made in this turn, then a text. Streams with pauses. */
async function answer(messages: WireMessage[], send: Send): Promise<void> {
  const turn = messages.slice(messages.findLastIndex((message) => message.role === 'user'));
  const made = turn.filter((message) => message.role === 'tool').length;
  const pause = () => new Promise((resolve) => setTimeout(resolve, 2 + Math.random() * 8));
  send({ role: 'assistant', content: '' });
  for (const word of `Thinking about step ${made}: `.split(' ')) {
    send({ reasoning_content: `${word} ` });
    await pause();
  }
  const isLast = made >= CALLS;
  const text = isLast
    ? `All ${made} calls of "${turn[0]?.content}" are made. 全部完成，共${made}次。`
    : `Now call number ${made}. `;
  for (const word of text.split(/(?<=[ ，。])/)) {
    send({ content: word });
    await pause();
  }
  if (isLast) return send({}, 'stop');
  const count = Math.min(made % 2 === 0 ? 2 : 1, CALLS - made);
  for (let index = 0; index < count; index++) {
    const n = made + index;
    const call = { name: KINDS[n % KINDS.length], arguments: `{"n":${n}}` };
    send({ tool_calls: [{ index, id: `call_${n}`, type: 'function', function: call }] });
    await pause();
  }
  return send({}, 'tool_calls');
}
