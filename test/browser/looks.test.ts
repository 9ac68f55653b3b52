// Every state of the page in both themes, both languages, on a desktop and on a phone: accessible to axe, and pictured.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from './browser.ts';
import { closeBrowser, openDevice, takePicture } from './browser.ts';
import type { Language, Places } from './content.ts';
import { fillTalks } from './content.ts';
import type { SharedServer } from './shared-server.ts';
import { startSharedServer } from './shared-server.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Put in through the debugger: the page allows no script of others. */
async function violationsOf(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: axe });
  await session.detach();
  const { violations } = await page.evaluate(async (tags) => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<AxeResults> } };
    return await axe.run({ runOnly: tags, resultTypes: ['violations'] });
  }, TAGS);
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join(' | ')}`,
  );
}

interface State {
  name: string;
  /** Absent: on both. */
  form?: 'desktop' | 'phone';
  path: (places: Places) => string;
  /** Until it is there; by what no language changes. */
  ready: (page: Page) => Promise<unknown>;
}

const settled = (page: Page) => page.locator('article[aria-busy="false"] time').last().waitFor();

/** Beside the conversation they may be open already. */
async function openFiles(page: Page): Promise<void> {
  await settled(page);
  const button = page.getByRole('banner').getByRole('button').last();
  if ((await button.getAttribute('aria-expanded')) === 'false') await button.click();
  await page.locator('li[aria-level]').first().waitFor();
}

async function lookAt(page: Page, name: string): Promise<void> {
  await openFiles(page);
  await page.locator('li[aria-level] button').filter({ hasText: name }).click();
}

async function openTrail(page: Page): Promise<void> {
  await settled(page);
  await page.locator('pre code span[style]').first().waitFor();
  await page.getByRole('article').locator('button[aria-expanded="false"]').filter({ hasText: /2/ }).first().click();
  await page.getByTestId('tool-row').first().waitFor();
  await page.locator('body').hover({ position: { x: 5, y: 5 } });
}

const states: State[] = [
  { name: 'new', path: () => '/c/new', ready: (page) => page.locator('main textarea').waitFor() },
  { name: 'conversation', path: ({ conversation }) => `/c/${conversation}`, ready: openTrail },
  {
    name: 'tools',
    path: ({ conversation }) => `/c/${conversation}`,
    async ready(page) {
      await openTrail(page);
      await page.getByTestId('tool-row').first().getByRole('button').click();
      await page.getByRole('log').evaluate((log) => log.scrollTo(0, 0));
    },
  },
  {
    name: 'running',
    path: ({ running }) => `/c/${running}`,
    ready: (page) => page.locator('[data-state="running"]').waitFor(),
  },
  {
    name: 'output',
    path: ({ watching }) => `/c/${watching}`,
    ready: (page) => page.locator('[data-state="running"] pre').getByText('answered 200').waitFor(),
  },
  { name: 'asking', path: ({ asking }) => `/c/${asking}`, ready: (page) => page.locator('section dl').waitFor() },
  {
    name: 'failed',
    path: ({ failed }) => `/c/${failed}`,
    ready: (page) => page.getByText('models.quota').waitFor(),
  },
  { name: 'settings', path: () => '/settings', ready: (page) => page.locator('[aria-pressed]').first().waitFor() },
  {
    name: 'setup',
    path: () => '/setup',
    async ready(page) {
      await page.locator('input[type="radio"][value="glm"]').check();
      await page.locator('button[type="submit"]').click();
      await page.locator('[aria-invalid="true"]').first().waitFor();
    },
  },
  {
    name: 'setup-saved',
    path: () => '/setup',
    async ready(page) {
      await page.locator('input[type="radio"][value="openai"]').check();
      await page.locator('button[type="submit"]').click();
      await page.locator('main [role="status"]').waitFor();
    },
  },
  {
    name: 'setup-refused',
    path: () => '/setup',
    async ready(page) {
      await page.locator('input[type="radio"][value="openai-compatible"]').check();
      await page.locator('input[name="baseUrl"]').fill('http://127.0.0.1:1/v1');
      await page.locator('input[name="model"]').fill('nobody');
      await page.locator('button[type="submit"]').click();
      await page.getByText('models.network').waitFor();
    },
  },
  {
    name: 'drawer',
    form: 'phone',
    path: () => '/c/new',
    async ready(page) {
      await page.getByRole('banner').getByRole('button').first().click();
      await page.getByRole('dialog').getByRole('link').nth(3).waitFor();
    },
  },
  {
    name: 'dialog',
    form: 'desktop',
    path: () => '/c/new',
    async ready(page) {
      const row = page.getByRole('navigation').getByRole('listitem').first();
      await row.hover();
      await row.getByRole('button').click();
      await page.getByRole('menuitem').last().click();
      await page.getByRole('dialog').getByRole('button').last().waitFor();
    },
  },
  { name: 'missing', path: () => '/c/nothing-here', ready: (page) => page.locator('section[role="group"]').waitFor() },
  { name: 'sign-in', path: () => '/sign-in', ready: (page) => page.locator('main pre').waitFor() },
  { name: 'files', path: ({ conversation }) => `/c/${conversation}`, ready: openFiles },
  {
    name: 'file-text',
    path: ({ conversation }) => `/c/${conversation}`,
    async ready(page) {
      await lookAt(page, 'orders.py');
      await page.getByRole('dialog').locator('code span[style]').first().waitFor();
    },
  },
  {
    name: 'file-image',
    path: ({ conversation }) => `/c/${conversation}`,
    async ready(page) {
      await lookAt(page, 'chart.png');
      await page.getByRole('dialog').locator('img').waitFor();
    },
  },
  {
    name: 'file-delete',
    path: ({ conversation }) => `/c/${conversation}`,
    async ready(page) {
      await openFiles(page);
      await page.locator('li[aria-level]').filter({ hasText: 'chart.png' }).locator('button').last().click();
      await page.getByText('“chart.png”').or(page.getByText('“reports/chart.png”')).waitFor();
    },
  },
];

const looks = (['en', 'zh'] as const).flatMap((language) =>
  [false, true].map((isPhone) => ({ language, isPhone, form: isPhone ? 'phone' : 'desktop' })),
);

describe('looks', { timeout: 120_000 }, () => {
  let shared: SharedServer;
  let places: Record<Language, Places>;
  beforeAll(async () => {
    shared = await startSharedServer({ maySetUp: () => true });
    const [en, zh] = await Promise.all([fillTalks(shared, 'en'), fillTalks(shared, 'zh')]);
    places = { en, zh };
    // The environment wins over it, and the page says so.
    const body = { provider: 'openai', baseUrl: shared.model.server.url, model: 'north-2', apiKey: 'sk-saved-0123' };
    await shared.server.call('POST', '/setup', { body });
  });
  afterAll(async () => {
    await closeBrowser();
    await shared?.[Symbol.asyncDispose]();
  });

  async function look(
    device: Device,
    page: Page,
    { state, language, form }: { state: State; language: Language; form: string },
  ) {
    await page.goto(new URL(state.path(places[language]), page.url()).href);
    await state.ready(page);
    for (const theme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: theme });
      const isDark = () => page.evaluate(() => document.documentElement.classList.contains('dark'));
      await expect.poll(isDark).toBe(theme === 'dark');
      await page.evaluate(() => document.fonts.ready.then(() => undefined));
      await takePicture(page, `${state.name}-${form}-${language}-${theme}`);
      const found = (await violationsOf(page)).map((text) => `${state.name} ${theme} ${text}`);
      expect.soft(found).toEqual([]);
    }
    const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect.soft([state.name, Math.max(0, width)]).toEqual([state.name, 0]);
    expect.soft(device.problems.splice(0)).toEqual([]);
  }

  it('language and theme change at once and stay chosen', async () => {
    await using device = await openDevice(shared.site('ann'));
    const page = await device.open('/settings');
    await page.getByRole('button', { name: '中文' }).first().click();
    await page.getByRole('heading', { name: '语言' }).waitFor();
    await page.getByRole('group', { name: '主题' }).getByRole('button', { name: '深色' }).click();
    for (const isReloaded of [false, true]) {
      if (isReloaded) await page.goto(new URL('/c/new', page.url()).href);
      await page
        .getByRole('heading', { name: '今天要做点什么？' })
        .or(page.getByRole('heading', { name: '语言' }))
        .waitFor();
      expect(await page.locator('html').getAttribute('lang')).toBe('zh-CN');
      expect(await page.locator('html').getAttribute('class')).toContain('dark');
    }
    expect(device.problems).toEqual([]);
  });

  it.each(looks)('no fault is found in any state in $language on a $form', async ({ language, isPhone, form }) => {
    const user = language === 'en' ? 'ann' : 'bob';
    await using device = await openDevice(shared.site(user), { language, isPhone }, /status of 4(?:04|22)/);
    const page = await device.open('/c/new');
    expect(await page.locator('html').getAttribute('lang')).toBe(language === 'zh' ? 'zh-CN' : 'en');
    for (const state of states.filter((one) => !one.form || one.form === form)) {
      await look(device, page, { state, language, form });
    }
  });
});
