// Bodies from outside: bounded, JSON, and parsed by a schema; what is wrong is named by its path.
import type { Context } from 'hono';
import * as z from 'zod';
import type { ServerEnvironment } from './context.ts';
import { serverError } from './errors.ts';

export async function parseBody<T>(
  c: Context<ServerEnvironment>,
  schema: z.ZodType<T>,
  limitBytes: number,
): Promise<T> {
  const type = c.req.header('content-type') ?? '';
  if (!/^application\/(?:[\w.+-]+\+)?json\b/i.test(type)) {
    throw serverError('unsupported_media_type', `The body is "${type.slice(0, 100) || 'of no type'}", not JSON.`);
  }
  const text = await readText(c.req.raw, limitBytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw serverError('invalid_json', `The body is not JSON: ${reasonOf(error as Error)}.`, { cause: error });
  }
  return parse(schema, value);
}

/** Without the piece of the body that the engine shows: it may hold a key. */
function reasonOf({ message }: Error): string {
  return message.split(/,? *(?:\.\.\.)?"/, 1)[0]!.slice(0, 200) || 'it has no meaning';
}

export function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues.slice(0, 5).map(({ path, message }) => {
    const where = path.map(String).join('.');
    return where ? `${where}: ${message}` : message;
  });
  throw serverError('invalid_request', problems.join('; '), { cause: result.error });
}

async function readText(request: Request, limitBytes: number): Promise<string> {
  const tooLarge = () => {
    const limit = limitBytes >= 1_000_000 ? `${limitBytes / 1_000_000} MB` : `${limitBytes} bytes`;
    return serverError('body_too_large', `The body is larger than ${limit}.`);
  };
  const declared = request.headers.get('content-length');
  if (declared !== null) {
    if (Number(declared) > limitBytes) throw tooLarge();
    return await request.text();
  }
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > limitBytes) throw tooLarge();
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
