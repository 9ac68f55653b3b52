import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSignInCode } from '../../src/access/sign-in.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from './harness.ts';
import { createTestServer } from './harness.ts';

const HTML = '<!doctype html><title>Homard</title><script src="/boot.js"></script>';
const SCRIPT = `console.log(${JSON.stringify('x'.repeat(20_000))})`;
const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

function build(): string {
  const root = mkdtempSync(join(tmpdir(), 'homard-page-'));
  const folder = join(root, 'dist');
  mkdirSync(join(folder, 'assets'), { recursive: true });
  writeFileSync(join(folder, 'index.html'), HTML);
  writeFileSync(join(folder, 'boot.js'), 'document.title');
  writeFileSync(join(folder, 'assets', 'main-abc123.js'), SCRIPT);
  writeFileSync(join(folder, 'assets', 'inter-1.woff2'), Buffer.alloc(5000, 1));
  writeFileSync(join(folder, 'assets', 'main-abc123.js.map'), 'not for visitors');
  writeFileSync(join(root, 'secret.txt'), 'secret of the machine');
  symlinkSync(join(root, 'secret.txt'), join(folder, 'link.txt'));
  return folder;
}

interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

describe('the page', () => {
  let server: TestServer;
  const folder = build();
  beforeAll(async () => {
    const model = createScriptedModel(() => ({ text: 'ok' }));
    // A file that is gone while a build is replaced is told there.
    const logger = { warn: () => undefined, error: () => undefined };
    const more = { page: folder, identity: undefined, token: 'ann-token', logger };
    server = await createTestServer('embedded', { model, ...more });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    rmSync(join(folder, '..'), { recursive: true, force: true });
  });

  /** The path as it is written, and the body as it came. */
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    new Promise<Answer>((resolve, reject) => {
      const { hostname, port } = new URL(server.address);
      const sent = request({ hostname, port, path, method, headers }, (response) => {
        buffer(response).then(
          (body) => resolve({ status: response.statusCode!, headers: response.headers, body }),
          reject,
        );
      });
      sent.on('error', reject).end();
    });

  it.each(['/', '/c/new', '/c/c-1/with%2Fslash', '/setup', '/settings', '/sign-in', '/sign-in-needed'])(
    'is there at %s for a browser, without a caller, under a strict policy',
    async (path) => {
      const { status, headers, body } = await get(path, browser);
      expect([status, String(body)]).toEqual([200, HTML]);
      expect(headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'permissions-policy': expect.stringContaining('microphone=()') as string,
      });
      const policy = String(headers['content-security-policy']);
      for (const rule of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) {
        expect(policy.split('; ')).toContain(rule);
      }
      expect(policy).not.toMatch(/script-src[^;]*unsafe|https?:/);
    },
  );

  it('programs get the API at the same addresses, and nobody else the data', async () => {
    expect(String((await get('/')).body)).toContain('Homard is running');
    const { status, body } = await get('/conversations', browser);
    expect([status, String(body)]).toEqual([401, expect.stringContaining('server.unauthorized')]);
    expect((await get('/c/x', { accept: 'application/json' })).status).toBe(401);
    expect((await get('/anything', browser)).status).toBe(401);
    expect((await get('/setup', { accept: 'application/json' })).status).toBe(401);
    expect((await get('/c/x', browser, 'POST')).status).toBe(401);
  });

  it('each file comes compressed as the browser takes it, and the same bytes', async () => {
    const path = '/assets/main-abc123.js';
    const plain = await get(path);
    expect(String(plain.body)).toBe(SCRIPT);
    expect(plain.headers['content-encoding']).toBeUndefined();
    const br = await get(path, { 'accept-encoding': 'gzip, deflate, br' });
    const gzip = await get(path, { 'accept-encoding': 'gzip;q=0.5, br;q=0' });
    expect([br, gzip].map(({ headers }) => headers['content-encoding'])).toEqual(['br', 'gzip']);
    expect(String(brotliDecompressSync(br.body))).toBe(SCRIPT);
    expect(String(gunzipSync(gzip.body))).toBe(SCRIPT);
    for (const { headers, body } of [plain, br, gzip]) {
      expect(headers).toMatchObject({
        'content-type': 'text/javascript; charset=utf-8',
        'cache-control': 'public, max-age=31536000, immutable',
        'content-length': String(body.byteLength),
      });
      expect(headers.vary).toContain('accept-encoding');
    }
    expect(new Set([plain, br, gzip].map(({ headers }) => headers.etag)).size).toBe(3);
    const font = await get('/assets/inter-1.woff2', { 'accept-encoding': 'br' });
    expect(font.headers).toMatchObject({ 'content-type': 'font/woff2', 'content-length': '5000' });
    expect(font.headers['content-encoding']).toBeUndefined();
    expect((await get('/boot.js')).headers['cache-control']).toBe('no-cache');
  });

  it('what the browser has is not sent again, and HEAD sends headers only', async () => {
    for (const path of ['/', '/boot.js', '/assets/main-abc123.js']) {
      const { headers } = await get(path, { ...browser, 'accept-encoding': 'br' });
      const more = { ...browser, 'accept-encoding': 'br', 'if-none-match': `"x", W/${String(headers.etag)}` };
      const again = await get(path, more);
      expect([again.status, again.body.byteLength, again.headers.etag]).toEqual([304, 0, headers.etag]);
      const head = await get(path, { ...browser, 'accept-encoding': 'br' }, 'HEAD');
      expect([head.status, head.body.byteLength]).toEqual([200, 0]);
      expect(head.headers).toMatchObject({ etag: headers.etag, 'content-length': headers['content-length'] });
    }
    expect((await get('/boot.js', { 'if-none-match': '"other"' })).status).toBe(200);
  });

  it.each([
    '/../secret.txt',
    '/assets/../../secret.txt',
    '/%2e%2e/secret.txt',
    '/assets/..%2f..%2fsecret.txt',
    '/assets/%2e%2e%2f%2e%2e%2fsecret.txt',
    '/..\\secret.txt',
    '/assets/..%5c..%5csecret.txt',
    '//secret.txt',
    '/link.txt',
    '/assets/main-abc123.js.map',
    '/assets/main-abc123.js%00.js',
    '/assets',
    '/assets/none.js',
    '/__proto__.js',
  ])('GOV-79 %s leads nowhere', async (path) => {
    for (const headers of [{}, browser, { authorization: 'Bearer ann-token' }] as Record<string, string>[]) {
      const { status, body } = await get(path, headers);
      expect([400, 401, 404]).toContain(status);
      expect(String(body)).not.toContain('secret of');
    }
  });

  it('a new build is taken while the server runs', async () => {
    const { headers } = await get('/', browser);
    writeFileSync(join(folder, 'assets', 'main-def456.js'), 'new');
    writeFileSync(join(folder, 'index.html'), `${HTML}<!-- new -->`);
    const next = await get('/', browser);
    expect(String(next.body)).toContain('new');
    expect(next.headers.etag).not.toBe(headers.etag);
    expect(String((await get('/assets/main-def456.js')).body)).toBe('new');
    rmSync(join(folder, 'boot.js'));
    await server.call('GET', '/boot.js');
    writeFileSync(join(folder, 'boot.js'), 'back');
    writeFileSync(join(folder, 'index.html'), HTML);
    expect((await get('/', browser)).status).toBe(200);
    expect(String((await get('/boot.js')).body)).toBe('back');
  });

  it('a sign-in link leads a browser in, and a used one to the page that says so', async () => {
    const code = await createSignInCode(server.folder);
    const first = await get(`/sign-in?code=${code}`, browser);
    expect(first).toMatchObject({ status: 303, headers: { location: '/' } });
    const cookie = String(first.headers['set-cookie']).split(';')[0]!;
    expect((await get('/conversations', { cookie })).status).toBe(200);
    const second = await get(`/sign-in?code=${code}`, browser);
    expect(second).toMatchObject({ status: 303, headers: { location: '/sign-in?problem=link_expired' } });
    expect((await get(String(second.headers.location), browser)).status).toBe(200);
    expect((await get(`/sign-in?code=${code}`)).status).toBe(401);
  });
});

describe('without a page', () => {
  const model = createScriptedModel(() => ({ text: 'ok' }));
  const open = async (page: boolean | string) => await createTestServer('embedded', { model, page });
  const read = async ({ address }: TestServer, path: string) => {
    const response = await fetch(address + path, { headers: browser });
    return { status: response.status, type: response.headers.get('content-type'), body: await response.text() };
  };

  it('that is not built the server says how to build it', async () => {
    await using server = await open(join(tmpdir(), 'homard-no-page'));
    const { status, type, body } = await read(server, '/');
    expect([status, type]).toEqual([200, expect.stringContaining('text/plain')]);
    expect(body).toContain('npm run build');
    expect((await read(server, '/c/new')).status).toBe(401);
  });

  it('where a host has its own, nothing of ours is there', async () => {
    await using server = await open(false);
    const { status, body } = await read(server, '/');
    expect(status).toBe(200);
    expect(body).not.toContain('build');
    expect((await read(server, '/c/new')).status).toBe(401);
    expect((await read(server, '/boot.js')).status).toBe(401);
  });
});
