// The files of a conversation beside it, and commands as they run.
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allowAll } from '../../src/kernel/index.ts';
import type { Device } from './browser.ts';
import { answersOf, closeBrowser, composerOf, idOf, openDevice, say, untilAnswered } from './browser.ts';
import { createPng } from './picture.ts';
import type { SharedServer } from './shared-server.ts';
import { startSharedServer } from './shared-server.ts';

const filesButton = (page: Page): Locator => page.getByRole('banner').getByRole('button', { name: 'Files' });
const panelOf = (page: Page): Locator => page.getByRole('complementary', { name: 'Files' });
const rowOf = (page: Page, name: string): Locator => panelOf(page).getByRole('listitem').filter({ hasText: name });
/** Not that of the message. */
const inputOf = (page: Page): Locator => panelOf(page).locator('input[type="file"]');
const toolOf = (page: Page): Locator => page.getByTestId('tool-row').last();
const stateOf = (page: Page) => toolOf(page).getAttribute('data-state');

describe('commands and their files', { timeout: 60_000 }, () => {
  let shared: SharedServer;
  let device: Device;
  beforeAll(async () => {
    shared = await startSharedServer({ policy: allowAll });
    device = await openDevice(shared.site('ann'));
  });
  afterAll(async () => {
    await closeBrowser();
    await shared?.[Symbol.asyncDispose]();
  });

  /** A conversation in which the assistant ran `command`. */
  async function withCommand(question: string, command: string, work: (page: Page) => Promise<void>): Promise<void> {
    shared.model.on(question, [{ call: 'Bash', args: { command } }], [{ text: 'That is done.' }]);
    const page = await device.open('/c/new');
    try {
      await composerOf(page).waitFor();
      expect(await filesButton(page).count()).toBe(0);
      await say(page, question);
      await work(page);
      expect(device.problems.splice(0)).toEqual([]);
    } finally {
      await page.evaluate(() => localStorage.clear());
      await page.close();
    }
  }

  it('SBX-16 what a command prints is seen before it ends, and its result after that', () => {
    const command =
      'for n in 1 2 3; do echo "step $n"; sleep 0.1; done; until [ -e go ]; do sleep 0.1; done; echo last; echo oops >&2; exit 3';
    return withCommand('Wait for me', command, async (page) => {
      await toolOf(page).getByRole('group', { name: 'Output', exact: true }).getByText('step 3').waitFor();
      expect(await stateOf(page)).toBe('running');
      await expect.poll(() => toolOf(page).getByRole('button').first().textContent()).toContain('for n in 1 2 3');
      // Brought by the person while it runs, and found by the command.
      await filesButton(page).click();
      await inputOf(page).setInputFiles({ name: 'go', mimeType: '', buffer: Buffer.from('x') });
      await rowOf(page, 'go').waitFor();
      await untilAnswered(page);
      await answersOf(page)
        .getByRole('button', { name: /1 step/ })
        .click();
      const head = toolOf(page).getByRole('button').first();
      await expect.poll(() => head.textContent()).toContain('Exit code 3');
      expect(await stateOf(page)).toBe('done');
      await head.click();
      expect(await toolOf(page).getByRole('group', { name: 'Output', exact: true }).count()).toBe(0);
      expect(await toolOf(page).getByRole('group', { name: 'Result' }).textContent()).toMatch(/step 3\nlast$/);
      expect(await toolOf(page).getByRole('group', { name: 'Error output' }).textContent()).toBe('oops');
    });
  });

  it('stands still for who reads further up while more is printed', () => {
    const command =
      'seq 1 400; until [ -e more ]; do sleep 0.1; done; seq 401 500; until [ -e go ]; do sleep 0.1; done';
    return withCommand('Print numbers', command, async (page) => {
      const output = toolOf(page).getByRole('group', { name: 'Output', exact: true });
      const bring = (path: string) => shared.bring('ann', { conversation: idOf(page), path, content: 'x' });
      await output.getByText('400').waitFor();
      const fromEnd = () => output.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
      await expect.poll(fromEnd).toBeLessThan(8);
      // Only the end is drawn, and the rest on demand.
      expect((await output.textContent())!.split('\n').at(0)).toBe('201');
      await output.hover();
      await page.mouse.wheel(0, -600);
      const latest = toolOf(page).getByRole('button', { name: 'Jump to latest' });
      await latest.waitFor();
      await bring('more');
      await expect.poll(() => stateOf(page)).toBe('running');
      await page.waitForTimeout(500);
      expect(await output.textContent()).not.toContain('500');
      await latest.click();
      await output.getByText('500').waitFor();
      await expect.poll(fromEnd).toBeLessThan(8);
      await toolOf(page).getByRole('button', { name: 'Show earlier output' }).click();
      expect((await output.textContent())!.split('\n').at(0)).toBe('1');
      await bring('go');
      await untilAnswered(page);
    });
  });

  it('a run that writes files shows them; each can be looked at, downloaded and deleted', () => {
    const command =
      'mkdir -p deep/er; printf "one\\ntwo\\n" > notes.txt; touch deep/er/x "$(printf "bad\\nname")"; ln -s / out';
    return withCommand('Write files', command, async (page) => {
      await untilAnswered(page);
      await filesButton(page).click();
      await rowOf(page, 'notes.txt').waitFor();
      const names = () => panelOf(page).locator('li bdi').allTextContents();
      expect(await names()).toEqual(['deep', 'er', 'x', 'bad⟨U+000A⟩name', 'notes.txt', 'out']);
      await rowOf(page, 'out').getByText('Link, not followed').waitFor();
      await rowOf(page, 'deep').getByRole('button', { name: 'deep', exact: false }).first().click();
      expect(await names()).toEqual(['deep', 'bad⟨U+000A⟩name', 'notes.txt', 'out']);

      await rowOf(page, 'notes.txt')
        .getByRole('button', { name: /^notes/ })
        .click();
      expect(await page.getByRole('dialog').locator('pre').textContent()).toBe('one\ntwo\n');
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('dialog').getByRole('link', { name: 'Download' }).click(),
      ]);
      expect(download.suggestedFilename()).toBe('notes.txt');
      expect(await readFile(await download.path(), 'utf8')).toBe('one\ntwo\n');
      await page.keyboard.press('Escape');

      await rowOf(page, 'notes.txt').getByRole('button', { name: 'Delete notes.txt' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await rowOf(page, 'notes.txt').waitFor({ state: 'detached' });
      // Closed by its key, the button has the focus again.
      await panelOf(page).getByRole('heading').focus();
      await page.keyboard.press('Escape');
      await expect.poll(() => panelOf(page).count()).toBe(0);
      await expect.poll(() => filesButton(page).evaluate((button) => button === document.activeElement)).toBe(true);
    });
  });

  it('what a person brings arrives byte for byte, is shown as a picture, and is replaced only when that is said', () =>
    withCommand('Begin with nothing', 'true', async (page) => {
      await untilAnswered(page);
      await filesButton(page).click();
      await panelOf(page).getByText('No files yet').waitFor();
      const picture = createPng(300, 200);
      const input = inputOf(page);
      await input.setInputFiles([
        { name: 'chart.png', mimeType: 'image/png', buffer: picture },
        { name: 'Größe #1 %.bin', mimeType: '', buffer: Buffer.from([0, 1, 2, 255]) },
      ]);
      await rowOf(page, 'chart.png')
        .getByRole('button', { name: /^chart/ })
        .click();
      const image = page.getByRole('dialog').getByRole('img', { name: 'chart.png' });
      await expect.poll(() => image.evaluate((it: HTMLImageElement) => it.naturalWidth)).toBe(300);
      await page.keyboard.press('Escape');
      const bytes = rowOf(page, 'Größe #1 %.bin');
      await bytes.getByRole('button', { name: /^Größe/ }).click();
      await page.getByRole('dialog').getByText('not text and no picture').waitFor();
      await page.keyboard.press('Escape');
      await bytes.hover();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        bytes.getByRole('link', { name: 'Download' }).click(),
      ]);
      expect(download.suggestedFilename()).toBe('Größe #1 %.bin');
      expect([...(await readFile(await download.path()))]).toEqual([0, 1, 2, 255]);

      await input.setInputFiles({ name: 'chart.png', mimeType: '', buffer: Buffer.from('now it is text') });
      await page.getByRole('dialog').getByText('There already is: chart.png').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Replace' }).click();
      await rowOf(page, 'chart.png').getByText('14 B').waitFor();
      await panelOf(page).getByText('Commands are not isolated').waitFor();
    }));

  it('OBS-11 a long result is shown by its ends, and all of it when that is asked for', async () => {
    shared.model.on('The archive', [{ call: 'read_archive', args: { lines: 9000 } }], [{ text: 'It is long.' }]);
    const page = await device.open('/c/new');
    await say(page, 'The archive');
    await untilAnswered(page);
    for (const isReloaded of [false, true]) {
      if (isReloaded) await page.reload();
      await answersOf(page)
        .getByRole('button', { name: /1 step/ })
        .click();
      await toolOf(page).getByRole('button').first().click();
      const result = toolOf(page).getByRole('group', { name: 'Result' });
      const lines = async () =>
        ((await result.textContent()) ?? '').split('\n').filter((line) => line.startsWith('Line'));
      expect((await lines()).length).toBeLessThan(4000);
      expect((await lines()).at(-1)).toBe('Line 8999 of the archive.');
      await toolOf(page).getByRole('button', { name: 'Show all' }).click();
      await expect.poll(async () => (await lines()).length).toBe(9000);
      expect(await toolOf(page).getByRole('button', { name: 'Show all' }).count()).toBe(0);
    }
    expect(device.problems.splice(0)).toEqual([]);
    await page.close();
  });

  it('a server without a sandbox has no files, and says that it runs no commands', async () => {
    await using bare = await startSharedServer({ config: { sandbox: { kind: 'off' } } });
    await using device = await openDevice(bare.site('ann'));
    bare.model.on('Hello', [{ text: 'Hello there.' }]);
    const page = await device.open('/c/new');
    await say(page, 'Hello');
    await untilAnswered(page);
    expect(await filesButton(page).count()).toBe(0);
    await page.goto(`${bare.server.address}/settings`);
    await page.getByText('This server runs no commands.').waitFor();
    expect(device.problems).toEqual([]);
  });
});
