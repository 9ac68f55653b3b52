import { send } from './http.ts';
import type { UploadedFile } from './types.ts';

export async function uploadFile(file: File, signal: AbortSignal): Promise<UploadedFile> {
  const response = await send(`/files?name=${encodeURIComponent(file.name)}`, {
    method: 'POST',
    headers: { 'content-type': file.type || 'application/octet-stream' },
    body: file,
    signal,
  });
  return (await response.json()) as UploadedFile;
}

export const fileAddress = (id: string) => `/files/${encodeURIComponent(id)}`;
