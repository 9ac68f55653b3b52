// A fetch over node:http: kept-alive connections, a streamed body, an abort that closes the connection at once, no
// redirects.
import type { ClientRequest, IncomingMessage } from 'node:http';
import * as http from 'node:http';
import * as https from 'node:https';
import { isRecord } from './json.ts';

/** Free connections close after 20 s, before most hosts close them. */
const pool = { keepAlive: true, timeout: 20_000, maxFreeSockets: 64 };
const agents = { http: new http.Agent(pool), https: new https.Agent(pool) };

/** Rejects with node's own error, whose `code` tells what happened. The request's body is text or bytes. */
export const nodeFetch: typeof globalThis.fetch = async (input, init = {}) => {
  const url = new URL(input instanceof Request ? input.url : input);
  try {
    return await exchange(url, init, false);
  } catch (error) {
    // The host closed a kept-alive connection while the request was on its way: it was never read.
    if (error instanceof StaleSocket) return exchange(url, init, true);
    throw error;
  }
};

class StaleSocket extends Error {}

function exchange(url: URL, init: RequestInit, isFresh: boolean): Promise<Response> {
  const { method = 'GET', body } = init;
  const signal = init.signal ?? undefined;
  const bytes = typeof body === 'string' || body instanceof Uint8Array ? Buffer.from(body) : Buffer.alloc(0);
  const headers = { ...Object.fromEntries(new Headers(init.headers)), 'accept-encoding': 'identity' };
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const isHttps = url.protocol === 'https:';
    const agent = isFresh ? false : agents[isHttps ? 'https' : 'http'];
    const options = { method, agent, headers: { ...headers, 'content-length': bytes.length } };
    const request = isHttps ? https.request(url, options) : http.request(url, options);
    const abort = () => request.destroy(signal?.reason as Error);
    signal?.addEventListener('abort', abort, { once: true });
    request.on('close', () => signal?.removeEventListener('abort', abort));
    request.on('error', (error) => {
      if (signal?.aborted) reject(signal.reason as Error);
      else reject(isStale(request, error) && !isFresh ? new StaleSocket() : error);
    });
    request.on('response', (response) => resolve(toResponse(response)));
    request.end(bytes);
  });
}

const isStale = (request: ClientRequest, error: Error): boolean =>
  request.reusedSocket && 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');

function toResponse(response: IncomingMessage): Response {
  const { statusCode: status = 502, statusMessage: statusText = '' } = response;
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(response.headersDistinct)) {
    for (const value of values) headers.append(name, value);
  }
  if ([204, 205, 304].includes(status)) {
    response.resume();
    return new Response(null, { status, statusText, headers });
  }
  return new Response(toStream(response), { status, statusText, headers });
}

function toStream(response: IncomingMessage): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isOpen = true;
  const once = (action: () => void) => () => {
    if (isOpen) action();
    isOpen = false;
  };
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      response.on('data', (chunk: Buffer<ArrayBuffer>) => {
        if (!isOpen) return;
        controller.enqueue(chunk);
        if ((controller.desiredSize ?? 0) <= 0) response.pause();
      });
      response.on(
        'end',
        once(() => controller.close()),
      );
      response.on('error', (error) => once(() => controller.error(error))());
    },
    pull: () => void response.resume(),
    cancel: () => {
      isOpen = false;
      response.destroy();
    },
  });
}

/** The code of node's own error, which packages wrap in errors of theirs. */
export function reasonOf(error: unknown): string | undefined {
  for (let at = error, depth = 0; isRecord(at) && depth < 5; at = at.cause, depth++) {
    if (
      at instanceof Error &&
      typeof at.code === 'string' &&
      /^(E[A-Z]|UND_ERR|HPE_|[A-Z_]*(CERT|SIGNATURE))/.test(at.code)
    ) {
      return at.code;
    }
  }
  return undefined;
}
