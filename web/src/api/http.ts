// Requests to our own server. The sign-in cookie goes with them; a page without one is sent to /sign-in.
import { router } from '../router.ts';
import { takeEarly } from './early.ts';

/** A refusal in the server's words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;

  constructor(status: number, body: { code: string; message: string; hint: string }) {
    super(body.message);
    this.name = 'ApiError';
    this.status = status;
    this.code = body.code;
    this.hint = body.hint;
  }
}

/** Throws ApiError for what the server refuses, TypeError where it cannot be reached. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const isGet = init.method === undefined || init.method === 'GET';
  const response = await ((isGet && takeEarly(path)) || fetch(path, init));
  if (response.ok) return response;
  throw await describeRefusal(response);
}

/** What a refusal says; where nobody is signed in, the page goes to where one does. */
export async function describeRefusal(response: Response): Promise<ApiError> {
  if (response.status === 401) void router.replace('/sign-in');
  return new ApiError(response.status, await bodyOf(response));
}

async function bodyOf(response: Response): Promise<{ code: string; message: string; hint: string }> {
  const fallback = { code: `http.${response.status}`, message: `The server answered ${response.status}.`, hint: '' };
  try {
    const { error } = (await response.json()) as { error?: Partial<typeof fallback> };
    return { ...fallback, ...error };
  } catch {
    return fallback;
  }
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send(path, { headers: { accept: 'application/json' }, ...(signal && { signal }) });
  return (await response.json()) as T;
}

export function jsonInit(method: string, body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method, headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

export async function sendJson<T>(method: string, path: string, body: unknown): Promise<T> {
  const response = await send(path, jsonInit(method, body));
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Of anything thrown: what to tell a person. */
export function describeError(error: unknown): { code: string; message: string; hint: string } {
  if (error instanceof ApiError) return { code: error.code, message: error.message, hint: error.hint };
  return { code: 'web.unreachable', message: error instanceof Error ? error.message : String(error), hint: '' };
}
