// What a newcomer's browser loads, by the files as they are served.
import { globSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';
import { closeBrowser, composerOf, openDevice } from './browser.ts';
import { startCliServer } from './cli-server.ts';

const BUDGET_BYTES = 240_000;

afterAll(closeBrowser);

it('a new chat loads at most 240 kB of JavaScript, gzipped', { timeout: 60_000 }, async () => {
  await using server = await startCliServer();
  await using device = await openDevice(server);
  const loaded = new Set<string>();
  device.context.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.endsWith('.js')) loaded.add(pathname);
  });
  const page = await device.open('/c/new');
  await composerOf(page).waitFor();
  for (const last of ['Your chats will be listed here', 'A scripted demo answers.'])
    await page.getByText(last).waitFor();
  const sizes = [...loaded].map((path) => gzipSync(readFileSync(`web/dist${path}`), { level: 9 }).length);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`a new chat: ${(bytes / 1000).toFixed(1)} kB of JavaScript in ${sizes.length} files`);
  expect(sizes.length).toBeGreaterThan(2);
  expect(bytes).toBeLessThanOrEqual(BUDGET_BYTES);
  expect(device.problems).toEqual([]);
});

it('every icon that the sources name is in the bundle', () => {
  const sources = globSync('web/src/**/*.{vue,ts}').map((path) => readFileSync(path, 'utf8'));
  const named = new Set(
    sources.flatMap((text) => [...text.matchAll(/i-lucide-([a-z0-9-]+)/g)].map((match) => match[1]!)),
  );
  const bundled = globSync('web/dist/assets/index-*.js')
    .map((path) => readFileSync(path, 'utf8'))
    .join('');
  const missing = [...named].filter((name) => !new RegExp(`["'\`]?\\b${name}["'\`]?:\\{`).test(bundled));
  expect(missing.filter((name) => name !== '')).toEqual([]);
});
