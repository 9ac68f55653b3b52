// The files that the commands of a conversation work with, and what runs those commands.
import { describeRefusal, getJson, send } from './http.ts';
import type { Json, SandboxView, WorkspaceFile } from './types.ts';

const at = (conversation: string) => `/conversations/${encodeURIComponent(conversation)}/files`;

export const contentAddress = (conversation: string, path: string) =>
  `${at(conversation)}/content?path=${encodeURIComponent(path)}`;

export function getSandbox() {
  return getJson<SandboxView>('/sandbox');
}

export function listFiles(conversation: string) {
  return getJson<{ files: WorkspaceFile[]; isComplete: boolean }>(`${at(conversation)}?recursive=true`);
}

export async function removeFile(conversation: string, path: string): Promise<void> {
  await send(contentAddress(conversation, path), { method: 'DELETE' });
}

export function readFile(conversation: string, path: string, signal: AbortSignal): Promise<Response> {
  return send(contentAddress(conversation, path), { signal });
}

interface Upload {
  conversation: string;
  path: string;
  body: Blob;
  /** From 0 to 1. */
  onProgress: (part: number) => void;
}

/** By XMLHttpRequest: a fetch does not tell how far an upload is. Throws as `send` does. */
export function writeFile({ conversation, path, body, onProgress }: Upload): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('PUT', contentAddress(conversation, path));
    request.setRequestHeader('accept', 'application/json');
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(total ? loaded / total : 0));
    request.addEventListener('error', () => reject(new TypeError('The upload broke off.')));
    request.addEventListener('load', () => {
      if (request.status >= 200 && request.status < 300) return resolve();
      const response = new Response(request.responseText, { status: request.status });
      describeRefusal(response).then(reject, reject);
    });
    request.send(body);
  });
}

/** All of a result of which only head and tail are shown. */
export async function getResult(run: string, call: string): Promise<Json> {
  const path = `/runs/${encodeURIComponent(run)}/results/${encodeURIComponent(call)}`;
  return (await getJson<{ result: Json }>(path)).result;
}
