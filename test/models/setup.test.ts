import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { modelsConfig } from '../../src/models/config.ts';
import { createRouter } from '../../src/models/router.ts';
import type { Setup } from '../../src/models/setup.ts';
import { createSetup } from '../../src/models/setup.ts';
import { createModelServer } from '../../src/testing/model-server.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'homard-setup-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const warnings: string[] = [];
const setUp = (environment: Record<string, string>, hosts = {}): Promise<Setup> =>
  createSetup({
    directory,
    config: modelsConfig.parse({ hosts }),
    environment,
    warn: (message) => warnings.push(message),
  });

const makers = [
  ['glm', 'ZHIPUAI_API_KEY', 'https://open.bigmodel.cn'],
  ['doubao', 'ARK_API_KEY', 'https://ark.cn-beijing.volces.com'],
  ['openai-compatible', 'OPENAI_COMPATIBLE_API_KEY', 'http://127.0.0.1:8000'],
] as const;

describe('CHAN-15 a key of the environment', () => {
  it.each(makers)('of %s goes to no address that somebody typed', async (provider, variable) => {
    await using server = await createModelServer(() => [{ text: 'ok' }]);
    const setup = await setUp({ [variable]: 'env-secret' });
    const choice = { provider, model: 'm', baseUrl: server.url, apiKey: undefined };
    if (provider === 'openai-compatible') expect(await setup.save(choice)).toMatchObject({ ok: true });
    else await expect(setup.save(choice)).rejects.toMatchObject({ code: 'setup.invalid' });
    expect(await setup.save({ ...choice, apiKey: 'typed' })).toMatchObject({ ok: true });
    expect(setup.describe().current).toMatchObject({ provider, keySource: 'file' });
    expect(JSON.stringify(server.requests.map(({ headers }) => headers))).not.toContain('env-secret');
  });

  it.each(makers)('of %s goes to its own address, and to that of the file', (provider, variable, origin) => {
    const env = { [variable]: 'env-secret' };
    const keyAt = (baseUrl: string, hosts = {}) =>
      createRouter(modelsConfig.parse({ hosts }), env, { saved: { provider, model: 'm', baseUrl } }).hostOf(provider)
        ?.apiKey;
    expect(keyAt(`${origin}/other/path`)).toBe('env-secret');
    expect(keyAt(`${origin}.evil.example/v1`)).toBeUndefined();
    expect(keyAt('http://h/v1', { [provider]: { baseUrl: 'http://h/v1' } })).toBe('env-secret');
  });
});

describe('drafts that a crash left', () => {
  const draft = (name: string, text = '{"apiKey":"sk-1"}') => writeFileSync(join(directory, name), text);
  const left = () => readdirSync(directory).toSorted();

  it('CHAN-15 are gone after a start, and after the set-up was cleared', async () => {
    draft('0b1f5a52-b7a5-4b63-8a2e-0a4a0f3c0f11.draft');
    draft('notes.txt');
    const setup = await setUp({ OPENAI_API_KEY: 'k' });
    expect(left()).toEqual(['notes.txt']);
    draft('x.draft');
    await setup.clear();
    expect(left()).toEqual(['notes.txt']);
  });

  it('a large one may be of a backup under way, and goes when it is old', async () => {
    draft('backup.draft', 'x'.repeat(100_000));
    await setUp({});
    expect(left()).toEqual(['backup.draft']);
    utimesSync(join(directory, 'backup.draft'), 1, 1);
    await setUp({});
    expect(left()).toEqual([]);
  });

  it('a directory that is not there stops nothing', async () => {
    rmSync(directory, { recursive: true });
    warnings.length = 0;
    await setUp({});
    expect(warnings).toEqual([]);
  });
});
