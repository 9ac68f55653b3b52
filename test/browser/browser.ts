// Headless Chromium on a real page. Whatever the page must never do is collected on the way: errors on the console, requests
// to another host, things that the content security policy stopped.
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import { chromium } from 'playwright-core';

export interface Looks {
  theme?: 'light' | 'dark';
  language?: 'en' | 'zh';
  /** 390 pixels wide, by touch. */
  isPhone?: boolean;
}

export interface Device extends AsyncDisposable {
  readonly context: BrowserContext;
  /** What went wrong so far, in words. Empty at the end of a test. */
  readonly problems: string[];
  /** Another tab of the same browser. */
  open(path: string): Promise<Page>;
}

export interface Site {
  address: string;
  /** `name=value` of a signed-in browser; absent: it is not signed in. */
  cookie?: string;
}

const DESKTOP = { width: 1360, height: 860 };
const PHONE = { width: 390, height: 800 };
const path = process.env.HOMARD_CHROMIUM ?? '/usr/bin/chromium';
let launched: Promise<Browser> | undefined;

function launch(): Promise<Browser> {
  if (!existsSync(path)) throw new Error(`There is no Chromium at ${path}; HOMARD_CHROMIUM names another one.`);
  launched ??= chromium.launch({
    executablePath: path,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--font-render-hinting=none', '--enable-precise-memory-info'],
  });
  return launched;
}

export async function closeBrowser(): Promise<void> {
  const browser = await launched;
  launched = undefined;
  await browser?.close();
}

/** A browser of its own, with its own storage. `expected` are problems that the test brings about. */
export async function openDevice(site: Site, looks: Looks = {}, expected?: RegExp): Promise<Device> {
  const { theme = 'light', language = 'en', isPhone = false } = looks;
  const browser = await launch();
  const context = await browser.newContext({
    viewport: isPhone ? PHONE : DESKTOP,
    hasTouch: isPhone,
    isMobile: isPhone,
    colorScheme: theme,
    locale: language === 'zh' ? 'zh-CN' : 'en-GB',
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  context.setDefaultTimeout(20_000);
  const problems: string[] = [];
  const note = (text: string) => {
    if (!expected?.test(text)) problems.push(text);
  };
  if (site.cookie) {
    const [name = '', value = ''] = site.cookie.split(/=(.*)/s);
    await context.addCookies([{ name, value, url: site.address }]);
  }
  context.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${site.address}/`) && !/^(?:data|blob):/.test(url)) note(`outside: ${url}`);
  });
  // Also what the content security policy stopped.
  context.on('console', (message) => {
    if (message.type() === 'error') note(`console: ${message.text()} ${message.location().url}`);
  });
  context.on('weberror', (error) => note(`error: ${String(error.error())}`));
  context.on('dialog', (dialog) => {
    note(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return {
    context,
    problems,
    async open(path) {
      const page = await context.newPage();
      await page.goto(site.address + path);
      return page;
    },
    [Symbol.asyncDispose]: () => context.close(),
  };
}

export const composerOf = (page: Page): Locator =>
  page.getByRole('textbox', { name: /^(?:Message Homard…|.*发.*)/ }).last();

/** Types a message and sends it with Enter. */
export async function say(page: Page, text: string): Promise<void> {
  const field = composerOf(page);
  await field.fill(text);
  await field.press('Enter');
}

export const answersOf = (page: Page): Locator => page.locator('article[aria-label="Homard"]');
export const saidOf = (page: Page): Locator => page.getByRole('article', { name: /^(?:You|你|您)$/ });
export const stopButton = (page: Page): Locator => page.getByRole('button', { name: /^(?:Stop|停止)$/ });

/** Until no run is under way and the answer has its last line. */
export async function untilAnswered(page: Page): Promise<void> {
  await page.locator('article[aria-label="Homard"][aria-busy="false"]').last().locator('time').waitFor();
  await page.locator('article[aria-label="Homard"][aria-busy="true"]').waitFor({ state: 'detached' });
}

export const idOf = (page: Page): string => decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1)!);

/** Below test/screenshots, which git does not keep. */
export async function takePicture(page: Page, name: string): Promise<void> {
  await mkdir('test/screenshots', { recursive: true });
  await page.screenshot({ path: `test/screenshots/${name}.png` });
}
