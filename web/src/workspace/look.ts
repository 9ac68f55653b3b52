// A file as it can be looked at: text, a picture, or neither.
import type { WorkspaceFile } from '../api/types.ts';
import { readFile } from '../api/workspace.ts';

export type Look =
  | { kind: 'text'; text: string }
  /** `url` is to be revoked. */
  | { kind: 'image'; url: string }
  | { kind: 'too-large' | 'binary' };

const MOST_TEXT_BYTES = 200_000;
const MOST_IMAGE_BYTES = 20_000_000;
/** What the server tells by the first bytes. No SVG: it is looked at as text. */
const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Throws as `send` does. Reads no further than it takes to know. */
export async function lookAt(conversation: string, file: WorkspaceFile, signal: AbortSignal): Promise<Look> {
  const response = await readFile(conversation, file.path, signal);
  const [type = ''] = (response.headers.get('content-type') ?? '').split(';', 1);
  const isImage = PICTURES.has(type);
  const kind = isImage || type.startsWith('text/') ? 'too-large' : 'binary';
  if (kind === 'binary' || file.bytes > (isImage ? MOST_IMAGE_BYTES : MOST_TEXT_BYTES)) {
    await response.body?.cancel();
    return { kind };
  }
  if (!isImage) return { kind: 'text', text: await response.text() };
  return { kind: 'image', url: URL.createObjectURL(await response.blob()) };
}
