// What a client sent, as the submission of a run.
import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { Caller } from '../access/identity.ts';
import { toFileName } from '../files/name.ts';
import type { FilePart, Submission } from '../kernel/index.ts';
import type { Files } from '../store/files.ts';
import type { ServerParts } from './context.ts';
import { serverError } from './errors.ts';
import { newMessages } from './messages.ts';

const id = z.string().min(1).max(200);
const content = z.string().max(4_000_000);

/** What POST /files answered may be sent as it is; only `id` and `name` count. */
const file = z
  .strictObject({
    id,
    name: z.string().max(1000).optional(),
    mime: z.string().optional(),
    bytes: z.number().optional(),
  })
  .transform(({ id, name }) => ({ id, ...(name !== undefined && { name }) }));

/** What the commands of a run get in their environment. */
const environment = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,199}$/, 'must be the name of an environment variable'),
    z
      .string()
      .max(100_000)
      .refine((value) => !value.includes('\0'), 'must not hold a NUL'),
  )
  .refine((given) => Object.keys(given).length <= 100, 'at most 100 variables');

const linesOf = (given: Record<string, string>) => Object.values(given).flatMap((value) => value.split('\n'));

/** All that a run shows is searched for each of them, and tools that show a part of a line look so far around it. */
const secrets = environment
  .refine((given) => Object.values(given).join('').length <= 100_000, 'at most 100,000 characters in all')
  .refine((given) => linesOf(given).length <= 1_000, 'at most 1,000 lines in all')
  .refine((given) => linesOf(given).every((line) => line.length <= 10_000), 'lines of at most 10,000 characters');

export const chatRequest = z.strictObject({
  conversationId: id.optional(),
  sessionId: id.optional(),
  query: content.optional(),
  messages: z
    .array(z.object({ role: z.enum(['system', 'user', 'assistant', 'tool']), content }))
    .min(1)
    .max(10_000)
    .optional(),
  files: z.array(file).max(20).optional(),
  modelName: z.string().min(1).max(200).optional(),
  agent: z.string().min(1).max(200).optional(),
  output: z.record(z.string(), z.json()).optional(),
  env: environment.optional(),
  secrets: secrets.optional(),
  expectedVersion: z.int().min(0).optional(),
  detach: z.boolean().default(true),
  userId: z.string().max(200).optional(),
  assistantId: z.string().max(200).optional(),
});

export type ChatRequest = z.infer<typeof chatRequest>;

interface Sent {
  caller: Caller;
  request: ChatRequest;
  /** The Idempotency-Key header. */
  key: string | undefined;
}

/** Throws for what cannot be a run, before anything is recorded. */
export async function toSubmission(
  parts: Pick<ServerParts, 'resolve' | 'conversations' | 'files' | 'sandboxes' | 'seal'>,
  { caller, request, key }: Sent,
): Promise<Omit<Submission, 'worker'>> {
  const { resolve, conversations, files, sandboxes, seal } = parts;
  const { agent, modelName, output, expectedVersion, env, secrets } = request;
  if (key !== undefined && !/^[\x21-\x7e]{1,200}$/.test(key)) {
    throw serverError('invalid_request', 'Idempotency-Key: must be 1 to 200 visible ASCII characters');
  }
  const home = { ...caller, conversation: conversationOf(request, key) };
  const texts = await toTexts(request, async () => {
    // Of a repeated message the history has its first attempt already: it was compared then.
    const isRepeated = key !== undefined && (await conversations.runOf(home, key)) !== undefined;
    return isRepeated ? null : await conversations.entries(home, { after: 0, limit: 100_000 });
  });
  const options = { ...(modelName !== undefined && { modelName }), ...(output && { output }) };
  const chosen = resolve({ ...(agent !== undefined && { agent }), ...options });
  const said = texts.map((text) => ({ type: 'text' as const, text }));
  // As the client sent it: a file may have got another name since the first attempt.
  const sent = [said, modelName ?? null, agent ?? null, output ?? null];
  const more = [
    ...(request.files?.length ? [request.files] : []),
    ...(env || secrets ? [seal.digest(JSON.stringify([env, secrets]))] : []),
  ];
  const digest = digestOf([...sent, ...more]);
  if ((env ?? secrets) && !sandboxes) {
    throw serverError('no_sandbox', 'env and secrets are for commands, and this server has no sandbox.');
  }
  const sealed = (env ?? secrets) && seal.close(JSON.stringify({ env, secrets }));
  return {
    ...home,
    run: crypto.randomUUID(),
    message: { parts: [...said, ...(await toFileParts(files, caller, request.files))] },
    request: { ...chosen, ...options, ...(sealed !== undefined && { sealed }) },
    ...(expectedVersion !== undefined && { expected: expectedVersion }),
    ...(key !== undefined && { idempotency: { key, digest } }),
  };
}

/** Named by the client, else new; with a key the same new one each time. */
function conversationOf({ conversationId, sessionId }: ChatRequest, key: string | undefined): string {
  if (conversationId !== undefined && sessionId !== undefined && sessionId !== conversationId) {
    throw serverError('invalid_request', 'conversationId and sessionId name two conversations.', {
      hint: 'sessionId is another name of conversationId: send one of them.',
    });
  }
  const named = conversationId ?? sessionId;
  return named ?? `c-${key === undefined ? crypto.randomUUID() : digestOf(key).slice(0, 32)}`;
}

async function toTexts(request: ChatRequest, history: Parameters<typeof newMessages>[1]): Promise<string[]> {
  const { query, messages, files = [] } = request;
  if (query !== undefined && messages) throw serverError('invalid_request', 'Send either "query" or "messages".');
  if (query === undefined && !messages && !files.length) {
    throw serverError('invalid_request', 'Send either "query" or "messages".');
  }
  const texts = messages ? await newMessages(messages, history) : query === undefined ? [] : [query];
  const isEmpty = texts.every((text) => text.trim() === '');
  if (isEmpty && !files.length) throw serverError('invalid_request', 'query: the message is empty');
  return isEmpty ? [] : texts;
}

/** Throws `server.file_not_found` for a file that the caller does not have. */
async function toFileParts(files: Files, caller: Caller, wanted: ChatRequest['files'] = []): Promise<FilePart[]> {
  const found = await files.take(
    caller,
    wanted.map((file) => file.id),
  );
  return wanted.map(({ id, name }) => {
    const file = found.get(id);
    if (!file) throw serverError('file_not_found', `files: there is no file ${JSON.stringify(id.slice(0, 64))}.`);
    return { type: 'file', ...file, ...(name !== undefined && { name: toFileName(name) }) };
  });
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}
