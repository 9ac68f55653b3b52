import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSignInCode } from '../../src/access/sign-in.ts';
import type { Homard } from '../../src/app.ts';
import { createHomard } from '../../src/app.ts';
import { copyTemplate } from '../../src/testing/store.ts';

/** The standalone server's own sign-in, called as `fetch`, so without a port. */
describe('who may call', () => {
  let homard: Homard;
  const folder = mkdtempSync(join(tmpdir(), 'homard-access-'));
  const secret = 'sk-very-secret-key-000000';
  beforeAll(async () => {
    await copyTemplate(join(folder, 'db'));
    homard = await createHomard({
      config: { data: folder, hosts: ['homard.example:8443', 'listed.example'] },
      token: 'owner-token',
      environment: { DEEPSEEK_API_KEY: secret },
    });
  });
  afterAll(async () => {
    await homard.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const get = (path: string, headers: Record<string, string> = {}) =>
    homard.fetch(new Request(`http://127.0.0.1:4680${path}`, { headers: { host: '127.0.0.1:4680', ...headers } }));
  const codeOf = async (response: Response) => ((await response.json()) as { error?: { code: string } }).error?.code;

  it('a sign-in link works once and gives a cookie that only this server can have made', async () => {
    const code = await createSignInCode(folder);
    const first = await get(`/sign-in?code=${code}`);
    expect(first.status).toBe(303);
    const cookie = first.headers.get('set-cookie')!;
    expect(cookie).toMatch(/HttpOnly; SameSite=Lax/);
    expect(await codeOf(await get(`/sign-in?code=${code}`))).toBe('server.link_expired');
    expect(await codeOf(await get('/sign-in?code=guess'))).toBe('server.link_expired');
    const value = cookie.split(';')[0]!;
    expect((await get('/conversations', { cookie: `a=b; ${value}` })).status).toBe(200);
    const forged = value.replace(/\d(?=\.)/, (digit) => String((Number(digit) + 1) % 10));
    expect(await codeOf(await get('/conversations', { cookie: forged }))).toBe('server.unauthorized');
  });

  it('of two who use one link at the same instant one gets in', async () => {
    const code = await createSignInCode(folder);
    const both = await Promise.all([get(`/sign-in?code=${code}`), get(`/sign-in?code=${code}`)]);
    expect(both.map((response) => response.status).toSorted()).toEqual([303, 401]);
  });

  it('only the right bearer token is the owner', async () => {
    expect((await get('/conversations', { authorization: 'Bearer owner-token' })).status).toBe(200);
    expect(await codeOf(await get('/conversations', { authorization: 'Bearer owner-toke' }))).toBe(
      'server.unauthorized',
    );
    expect(await codeOf(await get('/conversations'))).toBe('server.unauthorized');
  });

  it('a foreign name (DNS rebinding) and a foreign page are refused, also with the right token', async () => {
    const authorization = 'Bearer owner-token';
    expect(await codeOf(await get('/conversations', { authorization, host: 'evil.example' }))).toBe(
      'server.host_refused',
    );
    expect(await codeOf(await get('/health', { host: 'evil.example' }))).toBe('server.host_refused');
    expect(await codeOf(await get('/conversations', { authorization, origin: 'https://evil.example' }))).toBe(
      'server.origin_refused',
    );
    expect(await codeOf(await get('/conversations', { authorization, origin: 'null' }))).toBe('server.origin_refused');
    expect((await get('/conversations', { authorization, origin: 'http://127.0.0.1:4680' })).status).toBe(200);
    expect((await get('/conversations', { authorization, host: 'homard.example:8443' })).status).toBe(200);
  });

  it('a page of another port of this machine is a foreign page; one that is listed is not', async () => {
    const code = await createSignInCode(folder);
    const cookie = (await get(`/sign-in?code=${code}`)).headers.get('set-cookie')!.split(';')[0]!;
    const rename = (origin: string, host = '127.0.0.1:4680') =>
      homard.fetch(
        new Request('http://127.0.0.1:4680/conversations/none', {
          method: 'PATCH',
          headers: { host, origin, cookie, 'content-type': 'application/json' },
          body: JSON.stringify({ title: 'x' }),
        }),
      );
    const refused = ['http://127.0.0.1:3000', 'http://localhost:3000', 'http://localhost:4680', 'http://127.0.0.1'];
    for (const origin of [...refused, 'http://homard.example', 'http://listed.example.evil:1']) {
      expect([origin, await codeOf(await rename(origin))]).toEqual([origin, 'server.origin_refused']);
    }
    for (const origin of ['http://127.0.0.1:4680', 'https://homard.example:8443', 'https://listed.example:9']) {
      expect([origin, (await rename(origin)).status]).toEqual([origin, 404]);
    }
    expect((await rename('http://localhost:4680', 'localhost:4680')).status).toBe(404);
  });

  it('health says only its status to nobody, and MODEL-12 no key to anybody', async () => {
    expect(await (await get('/health')).json()).toEqual({ status: 'ok' });
    const known = await (await get('/health', { authorization: 'Bearer owner-token' })).json();
    expect(known).toMatchObject({ status: 'ok', store: 'pglite' });
    expect(JSON.stringify(known)).not.toContain(secret);
  });

  it('MODEL-04 a provider without a key is a 400 that names what is missing, and nothing is recorded', async () => {
    const response = await homard.fetch(
      new Request('http://127.0.0.1:4680/chat', {
        method: 'POST',
        headers: { host: '127.0.0.1:4680', authorization: 'Bearer owner-token', 'content-type': 'application/json' },
        body: JSON.stringify({ query: 'hi', modelName: 'gpt-4o' }),
      }),
    );
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { code: string; message: string; hint: string } };
    expect(error.code).toBe('models.not_configured');
    expect(error.message + error.hint).toContain('OPENAI_API_KEY');
    const list = await get('/conversations', { authorization: 'Bearer owner-token' });
    expect(await list.json()).toMatchObject({ conversations: [] });
  });
});
