// Files in and out, as bytes of a body.
import { AgentError } from '../kernel/index.ts';
import { serverError } from './errors.ts';

/** The bytes of a body; throws `server.file_too_large`, and `server.invalid_request` where it breaks off or is empty. */
export async function* bodyOf(
  request: Request,
  { limitBytes, mayBeEmpty = false }: { limitBytes: number; mayBeEmpty?: boolean },
): AsyncGenerator<Uint8Array> {
  const tooLarge = () => {
    const limit = limitBytes >= 1_000_000 ? `${limitBytes / 1_000_000} MB` : `${limitBytes} bytes`;
    return serverError('file_too_large', `The file is larger than ${limit}.`);
  };
  if (Number(request.headers.get('content-length')) > limitBytes) throw tooLarge();
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limitBytes) throw tooLarge();
      yield chunk;
    }
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw serverError('invalid_request', 'The upload broke off.', { cause: error });
  }
  if (!bytes && !mayBeEmpty) throw serverError('invalid_request', 'The body is empty: send the bytes of the file.');
}

export interface Download {
  /** Of this content; what is cached under it stays true. */
  id: string;
  name: string;
  mime: string;
  bytes: number;
}

/** Shown in the browser; anything else is saved, and nothing runs with the rights of this server's pages. */
const INLINE = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export function headersOf({ id, name, mime, bytes }: Download): Record<string, string> {
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  return {
    'content-type': mime,
    'content-length': String(bytes),
    'content-disposition': `${INLINE.has(mime) ? 'inline' : 'attachment'}; filename="${plain}"; filename*=UTF-8''${encoded}`,
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'private, no-cache',
    etag: `"${id}"`,
  };
}
