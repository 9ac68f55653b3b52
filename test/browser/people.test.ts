// Several people on one server, and what only they can decide.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answersOf, closeBrowser, composerOf, idOf, openDevice, say, untilAnswered } from './browser.ts';
import { createGate } from './model.ts';
import type { SharedServer } from './shared-server.ts';
import { startSharedServer } from './shared-server.ts';

describe('people', { timeout: 60_000 }, () => {
  let shared: SharedServer;
  beforeAll(async () => {
    shared = await startSharedServer();
  });
  afterAll(async () => {
    await closeBrowser();
    await shared?.[Symbol.asyncDispose]();
  });

  it('CHAN-06 two tabs and two users: each gets only its own stream', async () => {
    const { model, site } = shared;
    const gate = createGate();
    for (const who of ['Ann one', 'Ann two', 'Bob one']) {
      model.on(`${who}?`, [{ text: `${who} begins, ` }, ...gate.steps, { text: `${who} ends.` }]);
    }
    await using ann = await openDevice(site('ann'));
    await using bob = await openDevice(site('bob'), {}, /status of 404/);
    const pages = {
      'Ann one': await ann.open('/c/new'),
      'Ann two': await ann.open('/c/new'),
      'Bob one': await bob.open('/c/new'),
    };
    for (const [who, page] of Object.entries(pages)) await say(page, `${who}?`);
    for (const [who, page] of Object.entries(pages)) await answersOf(page).getByText(`${who} begins`).waitFor();
    gate.open();
    for (const [who, page] of Object.entries(pages)) {
      await untilAnswered(page);
      const text = await page.getByRole('main').textContent();
      expect(text).toContain(`${who} begins, ${who} ends.`);
      for (const other of Object.keys(pages)) if (other !== who) expect(text).not.toContain(other);
    }
    const listed = (page: (typeof pages)['Ann one']) => page.getByRole('navigation').getByRole('link');
    for (const tab of [pages['Ann one'], pages['Ann two']]) {
      await expect.poll(async () => (await listed(tab).allTextContents()).toSorted()).toEqual(['Ann one?', 'Ann two?']);
    }
    expect(await listed(pages['Bob one']).allTextContents()).toEqual(['Bob one?']);
    // By its address neither.
    const spy = await bob.open(`/c/${idOf(pages['Ann one'])}`);
    await spy.getByText('This chat does not exist, or was deleted.').waitFor();
    expect([...ann.problems, ...bob.problems]).toEqual([]);
  });

  it('a call that asks waits for its answer over a reload, and runs as it was changed', async () => {
    const { model, site } = shared;
    const mail = { to: 'all@example.org', subject: 'Closing early', text: 'We close at three.' };
    model.on('Write to everybody', [{ call: 'send_mail', args: mail }], [{ text: 'It is on its way.' }]);
    await using device = await openDevice(site('ann'));
    const page = await device.open('/c/new');
    await say(page, 'Write to everybody');
    const card = page.getByRole('group', { name: /^Needs your approval/ });
    await card.waitFor();
    await page.getByRole('banner').getByText('Waiting for you').waitFor();
    await page.reload();
    await card.getByRole('button', { name: 'Edit' }).click();
    await card.getByRole('textbox', { name: 'to' }).fill('team@example.org');
    // Not behind the composer.
    const [button, field] = [card.getByRole('button', { name: 'Approve with changes' }), composerOf(page)];
    const bottom = await button.boundingBox().then((box) => box!.y + box!.height);
    expect(bottom).toBeLessThan((await field.boundingBox())!.y);
    await button.click();
    await answersOf(page).getByText('It is on its way.').waitFor();
    await untilAnswered(page);
    const said = JSON.stringify(model.server.requests.at(-1)!.body.messages);
    expect(said).toContain('Sent to team@example.org.');
    await page.reload();
    await page.getByText(/^\s*Approved · Send mail/).waitFor();
    expect(device.problems).toEqual([]);
  });

  it('a tool that works shows as running, and its result when it is done', async () => {
    const { model, site, finish } = shared;
    model.on('Bake', [{ call: 'watch_oven', args: { dish: 'bread' } }], [{ text: 'Ready to eat.' }]);
    await using device = await openDevice(site('bob'));
    const page = await device.open('/c/new');
    await say(page, 'Bake');
    const row = page.getByTestId('tool-row');
    await row.getByRole('img', { name: 'Running' }).waitFor();
    expect(await row.textContent()).toContain('Watch the oven');
    await page.reload();
    await row.getByRole('img', { name: 'Running' }).waitFor();
    finish();
    await answersOf(page).getByText('Ready to eat.').waitFor();
    await untilAnswered(page);
    await page.getByRole('button', { name: /1 step/ }).click();
    expect(await row.getAttribute('data-state')).toBe('done');
    expect(device.problems).toEqual([]);
  });

  it('who may not choose the model is told so', async () => {
    await using device = await openDevice(shared.site('bob'), {}, /status of 404/);
    const page = await device.open('/setup');
    await page.getByText('Only whoever runs this server can choose the model.').waitFor();
    expect(await page.getByRole('radio').count()).toBe(0);
    expect(device.problems).toEqual([]);
  });
});
