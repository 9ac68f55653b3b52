// A conversation in the page, from the first message on, against `homard start` and a scripted model server.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from './browser.ts';
import {
  answersOf,
  closeBrowser,
  composerOf,
  idOf,
  openDevice,
  saidOf,
  say,
  stopButton,
  untilAnswered,
} from './browser.ts';
import type { CliServer } from './cli-server.ts';
import { startCliServer } from './cli-server.ts';
import type { TalkModel } from './model.ts';
import { createGate, startTalkModel } from './model.ts';

const count = (text: string | null, part: string) => (text ?? '').split(part).length - 1;

describe('a conversation', { timeout: 60_000 }, () => {
  let model: TalkModel;
  let server: CliServer;
  let device: Device;
  beforeAll(async () => {
    model = await startTalkModel();
    server = await startCliServer(model.environment);
    device = await openDevice(server, {}, /status of 50\d/);
  });
  afterAll(async () => {
    await closeBrowser();
    await server?.[Symbol.asyncDispose]();
    await model?.[Symbol.asyncDispose]();
  });

  async function withPage(work: (page: Page) => Promise<void>, path = '/c/new'): Promise<void> {
    const page = await device.open(path);
    try {
      await work(page);
      expect(device.problems.splice(0)).toEqual([]);
    } finally {
      await page.close();
    }
  }
  const textOf = (page: Page) => answersOf(page).last().textContent();
  const rowOf = (page: Page, title: string) => page.getByRole('navigation').getByRole('link', { name: title });

  it('the printed link signs a browser in, once', async () => {
    await using fresh = await openDevice({ address: server.address }, {}, /status of 401|Failed to load resource/);
    const page = await fresh.open('/c/new');
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await server.kill();
    await server.start();
    await page.goto(server.link);
    await composerOf(page).waitFor();
    await expect.poll(() => page.url()).toBe(`${server.address}/c/new`);
    expect(fresh.problems).toEqual([]);
  });

  it('CHAN-12 shows the message at once, the answer word by word, and gives the conversation an address', () =>
    withPage(async (page) => {
      const gate = createGate();
      model.on('Plan my day', [{ text: 'First the **letters**, ' }, ...gate.steps, { text: 'then the garden.' }]);
      await say(page, 'Plan my day');
      await saidOf(page).getByText('Plan my day').waitFor();
      await expect.poll(() => textOf(page)).toContain('First the letters');
      expect(await textOf(page)).not.toContain('garden');
      await page.getByRole('banner').getByText('Running').waitFor();
      gate.open();
      await untilAnswered(page);
      expect(await textOf(page)).toContain('First the letters, then the garden.');
      expect(await answersOf(page).locator('strong').textContent()).toBe('letters');
      expect(idOf(page)).toMatch(/^c-/);
      await rowOf(page, 'Plan my day').waitFor();
      await expect.poll(() => composerOf(page).inputValue()).toBe('');
    }));

  it('CHAN-12 a tool call is a row: running, then done, with its arguments and its result', () =>
    withPage(async (page) => {
      const gate = createGate();
      model.on(
        'Time over there',
        [{ reasoning: 'A clock is asked for.' }, { call: 'current_time', args: { zone: 'Asia/Shanghai' } }],
        [...gate.steps, { text: 'It is late there.' }],
      );
      await say(page, 'Time over there');
      const row = page.getByTestId('tool-row');
      await row.waitFor();
      await expect.poll(() => row.getAttribute('data-state')).toBe('done');
      await row.getByRole('button').click();
      expect(await row.getByRole('group', { name: 'Arguments' }).textContent()).toMatch(/zone\s*Asia\/Shanghai/);
      expect(await row.getByRole('group', { name: 'Result' }).textContent()).toMatch(/"utc": "\d{4}-/);
      gate.open();
      await untilAnswered(page);
      await page.getByRole('button', { name: /1 step/ }).waitFor();
      // Reloaded, it tells the same.
      await page.reload();
      await page.getByRole('button', { name: /1 step/ }).click();
      expect(await row.textContent()).toContain('Asia/Shanghai');
      await page.getByRole('button', { name: 'Thought' }).click();
      await page.getByText('A clock is asked for.').last().waitFor();
    }));

  it('Stop ends the run, keeps what was said, and says so', () =>
    withPage(async (page) => {
      model.on('Never end', [{ text: 'Once upon a time' }, { hang: true }]);
      await say(page, 'Never end');
      await answersOf(page).getByText('Once upon').waitFor();
      await stopButton(page).click();
      await answersOf(page).getByText('Stopped', { exact: true }).waitFor();
      expect(await textOf(page)).toContain('Once upon a time');
      await expect.poll(() => model.server.requests.at(-1)!.isAborted).toBe(true);
      await stopButton(page).waitFor({ state: 'detached' });
    }));

  it('a second message waits behind the run, can be taken back, and is answered after it', () =>
    withPage(async (page) => {
      const gate = createGate();
      model.on('Number one', [{ text: 'One is ' }, ...gate.steps, { text: 'done.' }]);
      model.on('Number two', [{ text: 'Two is done.' }]);
      model.on('Number three', [{ text: 'This is never said.' }]);
      model.on('Number four', [{ text: 'Four is done.' }]);
      await say(page, 'Number one');
      await answersOf(page).getByText('One is').waitFor();
      await say(page, 'Number two');
      await say(page, 'Number three');
      await say(page, 'Number four');
      const waiting = page.getByRole('listitem').filter({ hasText: 'Sent after this run' });
      const named = ['two', 'three', 'four'].map((n) => expect.stringContaining(`Number ${n}`) as string);
      await expect.poll(() => waiting.allTextContents()).toEqual(named);
      await waiting.filter({ hasText: 'Number three' }).getByRole('button').click();
      await expect.poll(() => waiting.count()).toBe(2);
      gate.open();
      await answersOf(page).getByText('Four is done.').waitFor();
      await untilAnswered(page);
      await expect.poll(() => waiting.count()).toBe(0);
      expect(await saidOf(page).allTextContents()).toEqual([
        expect.stringContaining('Number one'),
        expect.stringContaining('Number two'),
        expect.stringContaining('Number four'),
      ]);
      expect(await page.getByText('This is never said.').count()).toBe(0);
    }));

  it('two messages sent at once are answered in their order', () =>
    withPage(async (page) => {
      model.on('Quick one', [{ text: 'Quick one is done.' }]);
      model.on('Quick two', [{ text: 'Quick two is done.' }]);
      await say(page, 'Quick one');
      await say(page, 'Quick two');
      await answersOf(page).getByText('Quick two is done.').waitFor();
      await untilAnswered(page);
      const said = () => page.getByRole('article').allTextContents();
      const order = ['Quick one', 'Quick one is done.', 'Quick two', 'Quick two is done.'];
      await expect.poll(said).toEqual(order.map((text) => expect.stringContaining(text) as string));
    }));

  it('who reads further up is left there while more comes, and can jump to the latest', () =>
    withPage(async (page) => {
      const [one, two] = [createGate(), createGate()];
      const lines = (name: string) => Array.from({ length: 60 }, (_, n) => `${name} line ${n}.`).join('\n\n');
      model.on('Long list', [{ text: lines('First') }, ...one.steps, { text: `\n\n${lines('Second')}` }, ...two.steps]);
      await say(page, 'Long list');
      await answersOf(page).getByText('First line 59.').waitFor();
      const log = page.getByRole('log');
      await log.hover();
      await page.mouse.wheel(0, -900);
      const latest = page.getByRole('button', { name: 'Jump to latest' });
      await latest.waitFor();
      const place = () => answersOf(page).getByText('First line 30.').boundingBox();
      const before = await place();
      one.open();
      await answersOf(page).getByText('Second line 59.').waitFor();
      expect(await place()).toEqual(before);
      await latest.click();
      await expect
        .poll(() => log.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight))
        .toBeLessThan(8);
      two.open();
      await untilAnswered(page);
    }));

  it('a page reloaded in mid-run goes on at the same place, each word once', () =>
    withPage(async (page) => {
      const [one, two] = [createGate(), createGate()];
      model.on(
        'Read to me',
        [{ text: 'Alpha comes first. ' }, { call: 'current_time', args: {} }],
        [{ text: 'Beta follows, ' }, ...one.steps, { text: 'gamma then, ' }, ...two.steps, { text: 'omega last.' }],
      );
      await say(page, 'Read to me');
      await answersOf(page).getByText('Beta follows').waitFor();
      await expect.poll(() => idOf(page)).toMatch(/^c-/);
      await page.reload();
      await answersOf(page).getByText('Beta follows').waitFor();
      expect(await page.getByTestId('tool-row').getAttribute('data-state')).toBe('done');
      one.open();
      await answersOf(page).getByText('gamma then').waitFor();
      await page.reload();
      await answersOf(page).getByText('gamma then').waitFor();
      two.open();
      await untilAnswered(page);
      const text = await textOf(page);
      for (const word of ['Alpha', 'Beta', 'gamma', 'omega']) expect([word, count(text, word)]).toEqual([word, 1]);
      expect(model.server.requests.filter(({ body }) => JSON.stringify(body).includes('Read to me'))).toHaveLength(2);
    }));

  it('a second tab and a second device see it live', () =>
    withPage(async (page) => {
      const gate = createGate();
      model.on('Everywhere', [{ text: 'Seen here ' }, ...gate.steps, { text: 'and there.' }]);
      await using other = await openDevice(server);
      const [tab, far] = await Promise.all([device.open('/c/new'), other.open('/c/new')]);
      await Promise.all([composerOf(tab).waitFor(), composerOf(far).waitFor()]);
      await say(page, 'Everywhere');
      for (const each of [tab, far]) {
        await rowOf(each, 'Everywhere').click();
        await answersOf(each).getByText('Seen here').waitFor();
      }
      gate.open();
      for (const each of [page, tab, far]) {
        await untilAnswered(each);
        expect(count(await textOf(each), 'Seen here and there.')).toBe(1);
      }
      // What one says next appears in the others, which are open at the same conversation.
      model.on('And now', [{ text: 'Still together.' }]);
      await say(far, 'And now');
      for (const each of [page, tab]) await answersOf(each).getByText('Still together.').waitFor();
      expect(other.problems).toEqual([]);
      await tab.close();
    }));

  it('a branch goes on from an answer, and from a changed message', () =>
    withPage(async (page) => {
      model.on('Name a bird', [{ text: 'A wren.' }]);
      model.on('Name a fish', [{ text: 'A bream.' }]);
      model.on('Name a tree', [{ text: 'An elm.' }]);
      await say(page, 'Name a bird');
      await untilAnswered(page);
      await say(page, 'Name a fish');
      await answersOf(page).getByText('A bream.').waitFor();
      await untilAnswered(page);
      const first = idOf(page);
      await answersOf(page).first().hover();
      await answersOf(page).first().getByRole('button', { name: 'Continue from here in a new chat' }).click();
      await expect.poll(() => idOf(page)).not.toBe(first);
      await answersOf(page).getByText('A wren.').waitFor();
      await expect.poll(() => answersOf(page).count()).toBe(1);
      await page.goto(`${server.address}/c/${first}`);
      await saidOf(page).getByText('Name a fish').hover();
      await saidOf(page).last().getByRole('button', { name: 'Edit and send again' }).click();
      await page.getByRole('textbox', { name: 'Edit and send again' }).fill('Name a tree');
      await page.getByRole('button', { name: 'Send as a new branch' }).click();
      await answersOf(page).getByText('An elm.').waitFor();
      expect(await saidOf(page).allTextContents()).toEqual([
        expect.stringContaining('Name a bird'),
        expect.stringContaining('Name a tree'),
      ]);
      const sent = model.server.requests.at(-1)!.body.messages.map(({ content }) => JSON.stringify(content));
      expect(sent.join()).toContain('A wren.');
      expect(sent.join()).not.toContain('fish');
    }));

  it('a conversation is renamed, found by its title, and deleted', () =>
    withPage(async (page) => {
      model.on('Orders please', [{ text: 'Here.' }]);
      await say(page, 'Orders please');
      await untilAnswered(page);
      await rowOf(page, 'Orders please').hover();
      const menu = () => page.getByRole('button', { name: /^Options of “(?:Orders please|November)”/ });
      await menu().click();
      await page.getByRole('menuitem', { name: 'Rename' }).click();
      const field = page.getByRole('textbox', { name: 'New title' });
      await field.fill('November');
      await field.press('Enter');
      await rowOf(page, 'November').waitFor();
      await page.getByRole('banner').getByText('November').waitFor();
      await page.getByRole('searchbox', { name: 'Search chats' }).fill('novem');
      await expect.poll(() => page.getByRole('navigation').getByRole('link').allTextContents()).toEqual(['November']);
      await page.getByRole('searchbox', { name: 'Search chats' }).fill('');
      await rowOf(page, 'November').hover();
      await menu().click();
      await page.getByRole('menuitem', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await rowOf(page, 'November').waitFor({ state: 'detached' });
      await expect.poll(() => idOf(page)).toBe('new');
    }));
});
