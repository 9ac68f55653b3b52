// A host of Anthropic's messages protocol that refuses what Anthropic refuses.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import * as z from 'zod';
import { isWhole } from './strict-model-server.ts';
import { parametersProblem } from './strict-schemas.ts';

const block = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  id: z.string().optional(),
  tool_use_id: z.string().optional(),
  name: z.string().optional(),
  signature: z.string().optional(),
  input: z.unknown().optional(),
  content: z.unknown().optional(),
});
const request = z.looseObject({
  system: z.array(block).optional(),
  messages: z.array(z.strictObject({ role: z.enum(['user', 'assistant']), content: z.array(block) })).min(1),
  tools: z.array(z.looseObject({ name: z.string(), input_schema: z.unknown() })).optional(),
});

type Block = z.infer<typeof block>;
type MessagesRequest = z.infer<typeof request>;

const idsOf = (blocks: Block[], type: string, field: 'id' | 'tool_use_id'): string[] =>
  blocks.filter((each) => each.type === type).map((each) => each[field] ?? '');

/** Why Anthropic refuses this request; undefined when it takes it. */
function messagesProblem({ system = [], messages, tools = [] }: MessagesRequest): string | undefined {
  if (system.some(({ text }) => !text?.trim())) return 'system: text content blocks must contain non-whitespace text';
  if (messages[0]!.role !== 'user') return 'messages: first message must use the "user" role';
  if (messages.at(-1)!.role !== 'user') return 'This model does not support assistant message prefill.';
  const used = new Set<string>();
  for (const [i, { role, content }] of messages.entries()) {
    const before = messages[i - 1];
    const problem =
      (before?.role === role && 'roles must alternate between "user" and "assistant"') ||
      (role === 'user' ? userProblem(content, before?.content ?? []) : assistantProblem(content, used));
    if (problem) return `messages.${i}: ${problem}`;
  }
  for (const [i, { name, input_schema: schema }] of tools.entries()) {
    const problem = parametersProblem(schema, 'anthropic');
    if (problem) return `tools.${i}.custom.input_schema (${name}): JSON schema is invalid: ${problem}`;
  }
  return undefined;
}

function userProblem(content: Block[], before: Block[]): string | undefined {
  if (!content.length) return 'content must not be empty';
  const results = idsOf(content, 'tool_result', 'tool_use_id');
  const calls = idsOf(before, 'tool_use', 'id');
  const missing = calls.find((id) => !results.includes(id));
  if (missing !== undefined) return `\`tool_use\` ids were found without \`tool_result\` blocks: ${missing}`;
  const orphan = results.find((id) => !calls.includes(id));
  if (orphan !== undefined) return `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${orphan}`;
  if (new Set(results).size < results.length) return 'each tool_use must have a single result';
  const firstOther = content.findIndex(({ type }) => type !== 'tool_result');
  if (firstOther >= 0 && content.slice(firstOther).some(({ type }) => type === 'tool_result')) {
    return 'tool_result blocks must come first';
  }
  return textProblem(content);
}

function assistantProblem(content: Block[], used: Set<string>): string | undefined {
  if (!content.length) return 'content must not be empty';
  const firstCall = content.findIndex(({ type }) => type === 'tool_use');
  for (const [i, { type, id = '', name = '', input, signature }] of content.entries()) {
    if (/thinking/.test(type) && firstCall >= 0 && i > firstCall) return 'thinking must come before tool_use';
    if (type === 'thinking' && !signature?.startsWith('sig'))
      return `content.${i}: Invalid \`signature\` in \`thinking\` block`;
    if (type !== 'tool_use') continue;
    if (!/^[a-zA-Z0-9_-]+$/.test(id)) return `content.${i}.tool_use.id: String should match '^[a-zA-Z0-9_-]+$': ${id}`;
    if (used.has(id)) return `content.${i}: \`tool_use\` ids must be unique: ${id}`;
    used.add(id);
    if (!/^[a-zA-Z0-9_-]{1,128}$/.test(name)) return `content.${i}.tool_use.name: ${name}`;
    if (typeof input !== 'object' || input === null || Array.isArray(input)) return `content.${i}.tool_use.input`;
  }
  return textProblem(content);
}

const textProblem = (content: Block[]): string | undefined =>
  content.some(({ type, text }) => type === 'text' && !text?.trim())
    ? 'text content blocks must contain non-whitespace text'
    : undefined;

export interface StrictMessagesServer extends AsyncDisposable {
  /** Ends in `/v1`. */
  readonly url: string;
  /** Of all requests so far, in order; those that were refused, too. */
  readonly requests: readonly MessagesRequest[];
}

const usage = { input_tokens: 1, output_tokens: 1 };
const answer = [
  { type: 'message_start', message: { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], usage } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'ok' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
  { type: 'message_stop' },
]
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('');

/** Answers "ok", or 400 with the reason. Listens on 127.0.0.1, on a free port. */
export async function createStrictMessagesServer(): Promise<StrictMessagesServer> {
  const requests: MessagesRequest[] = [];

  async function respond(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await json(incoming);
    const parsed = request.safeParse(body);
    if (parsed.success) requests.push(parsed.data);
    const half = !isWhole(body) && 'The request body is not valid JSON: no low surrogate in string';
    const message = half || (parsed.success ? messagesProblem(parsed.data) : z.prettifyError(parsed.error));
    if (!message) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(answer);
      return;
    }
    const error = { type: 'error', error: { type: 'invalid_request_error', message } };
    response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(error));
  }

  const server = createServer((incoming, response) => {
    respond(incoming, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/v1`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await server[Symbol.asyncDispose]();
    },
  };
}
