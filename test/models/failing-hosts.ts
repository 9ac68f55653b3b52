// Hosts that fail before HTTP does: nobody there, a connection that is reset, a certificate that nobody trusts.
import { generateKeyPairSync, sign } from 'node:crypto';
import { createServer as createHttpsServer } from 'node:https';
import type { Server } from 'node:net';
import { createServer } from 'node:net';

export interface FailingHost extends AsyncDisposable {
  url: string;
}

async function listen(server: Server, scheme = 'http'): Promise<FailingHost> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    url: `${scheme}://127.0.0.1:${port}/v1`,
    [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

export async function createAbsentHost(): Promise<FailingHost> {
  const host = await listen(createServer());
  await host[Symbol.asyncDispose]();
  return { ...host, [Symbol.asyncDispose]: () => Promise.resolve() };
}

/** Takes the request, and resets the connection. */
export const createResettingHost = (): Promise<FailingHost> =>
  listen(createServer((socket) => socket.on('error', () => undefined).once('data', () => socket.resetAndDestroy())));

/** Speaks, but not HTTP. */
export const createStrangeHost = (): Promise<FailingHost> =>
  listen(createServer((socket) => socket.on('error', () => undefined).once('data', () => socket.end('hello\r\n'))));

/** Answers in plain text where TLS was spoken. */
export const createPlainHost = (): Promise<FailingHost> =>
  listen(
    createServer((socket) =>
      socket.on('error', () => undefined).once('data', () => socket.end('HTTP/1.1 400\r\n\r\n')),
    ),
    'https',
  );

/** Its certificate is signed by itself. */
export async function createUntrustedHost(): Promise<FailingHost> {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  const algorithm = der(0x30, Buffer.from('06082a8648ce3d040302', 'hex'));
  const commonName = der(0x30, Buffer.from('0603550403', 'hex'), der(0x0c, Buffer.from('127.0.0.1')));
  const name = der(0x30, der(0x31, commonName));
  const validity = der(0x30, ...['250101000000Z', '491231235959Z'].map((time) => der(0x17, Buffer.from(time))));
  const body = der(0x30, der(0x02, Buffer.from([1])), algorithm, name, validity, name, spki);
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, privateKey));
  const certificate = der(0x30, body, algorithm, signature).toString('base64');
  const cert = `-----BEGIN CERTIFICATE-----\n${certificate}\n-----END CERTIFICATE-----\n`;
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' });
  return await listen(
    createHttpsServer({ cert, key }, (_, response) => response.end('{}')),
    'https',
  );
}

/** One value of ASN.1. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length = content.length < 128 ? [content.length] : [0x82, content.length >> 8, content.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}
