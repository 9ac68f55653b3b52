// Choosing the model in the page, from a start without any key.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ModelServerScript } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import type { Device } from './browser.ts';
import { answersOf, closeBrowser, openDevice, say, untilAnswered } from './browser.ts';
import type { CliServer } from './cli-server.ts';
import { startCliServer } from './cli-server.ts';

const withKey =
  (key: string): ModelServerScript =>
  ({ headers, body }) =>
    headers.authorization === `Bearer ${key}`
      ? [{ text: `ok from ${body.model}` }]
      : { status: 401, json: { error: { message: `Incorrect API key provided: ${headers.authorization}.` } } };

const [RIGHT, OTHER, WRONG] = ['sk-right-0123456789abcdef', 'sk-other-fedcba9876543210', 'sk-wrong-00000000000000'];

describe('set-up in the page', { timeout: 60_000 }, () => {
  let server: CliServer;
  let device: Device;
  beforeAll(async () => {
    server = await startCliServer();
    device = await openDevice(server, {}, /status of 422/);
  });
  afterAll(async () => {
    await closeBrowser();
    await server?.[Symbol.asyncDispose]();
  });

  it('MODEL-11 without any key the demo answers, with two tool calls, and says how to get a real model', async () => {
    const page = await device.open('/c/new');
    await page.getByText('A scripted demo answers.').waitFor();
    await page.getByRole('button', { name: 'What time is it, and roll two dice for me' }).click();
    await untilAnswered(page);
    await page.getByRole('button', { name: /2 steps/ }).click();
    await expect.poll(() => page.locator('[data-testid="tool-row"][data-state="done"]').count()).toBe(2);
    expect(await answersOf(page).textContent()).toContain('OPENAI_API_KEY');
    expect(device.problems).toEqual([]);
    await page.close();
  });

  it('CHAN-14 a wrong key is told at its field, a right one is saved and answers at once', async () => {
    await using model = await createModelServer(withKey(RIGHT));
    const page = await device.open('/c/new');
    await page.getByRole('link', { name: 'Choose a model' }).click();
    await page.getByText('A scripted demo', { exact: true }).waitFor();
    await page.getByRole('radio', { name: /^DeepSeek/ }).check();
    const key = page.getByLabel('API key');
    const submit = page.getByRole('button', { name: 'Test and save' });
    await submit.click();
    await page.getByText('This provider needs a key.').waitFor();
    await expect.poll(() => key.evaluate((field) => field === document.activeElement)).toBe(true);
    await page.getByRole('button', { name: 'Use another address' }).click();
    await page.getByLabel('Base URL').fill(model.url);
    await page.getByRole('combobox', { name: 'Model' }).fill('deep-1');
    await key.fill(WRONG);
    await submit.click();
    const refusal = page.getByRole('alert').filter({ hasText: 'nothing was saved' });
    await refusal.waitFor();
    expect(await refusal.textContent()).toMatch(/Incorrect API key.*Check the API key.*models\.auth/);
    expect(await page.locator('body').innerText()).not.toContain(WRONG);
    expect(await key.getAttribute('aria-invalid')).toBe('true');
    const described = (await key.getAttribute('aria-describedby')) ?? '';
    const words = await page.evaluate(
      (ids) => ids.map((id) => document.querySelector(`#${CSS.escape(id)}`)?.textContent ?? ''),
      described.split(' '),
    );
    expect(words.join(' ')).toContain('Incorrect API key');
    expect(await key.getAttribute('type')).toBe('password');
    expect(await key.getAttribute('autocomplete')).toBe('off');
    await key.fill(RIGHT);
    await submit.click();
    const done = page.getByRole('status').filter({ hasText: 'deep-1 answered in' });
    await done.waitFor();
    await page.getByText('deep-1 of DeepSeek').waitFor();
    expect(await key.inputValue()).toBe('');
    expect(await page.locator('body').innerText()).not.toContain(RIGHT);
    await done.getByRole('link', { name: 'Start a chat' }).click();
    await say(page, 'hello');
    await answersOf(page).getByText('ok from deep-1').waitFor();
    await untilAnswered(page);
    expect(await page.getByText('A scripted demo answers.').count()).toBe(0);
    expect(device.problems).toEqual([]);
    await page.close();
  });

  it('CHAN-15 another provider drops the old key and model; Remove drops them all', async () => {
    await using one = await createModelServer(withKey(RIGHT));
    await using two = await createModelServer(withKey(OTHER));
    await server.call('POST', '/setup', { provider: 'deepseek', baseUrl: one.url, model: 'm-one', apiKey: RIGHT });
    const page = await device.open('/setup');
    await page.getByText('m-one of DeepSeek').waitFor();
    const submit = page.getByRole('button', { name: 'Test and save' });
    const modelField = page.getByRole('combobox', { name: 'Model' });
    expect(await modelField.inputValue()).toBe('m-one');
    // Another model of the same one needs its key no more.
    await modelField.fill('m-two');
    await submit.click();
    await page.getByText('m-two of DeepSeek').waitFor();
    await page.getByRole('radio', { name: /^OpenAI-compatible/ }).check();
    expect(await modelField.inputValue()).toBe('');
    await submit.click();
    await page.getByText('This provider needs an address.').waitFor();
    await page.getByLabel('Base URL').fill(two.url);
    await modelField.fill('own-1');
    await page.getByLabel('API key').fill(OTHER);
    await submit.click();
    await page.getByText('own-1 of OpenAI-compatible').waitFor();
    const { saved, providers } = (await server.call('GET', '/setup')) as unknown as {
      saved: { provider: string };
      providers: { id: string; hasKey: boolean }[];
    };
    expect(saved.provider).toBe('openai-compatible');
    expect(providers.filter(({ hasKey }) => hasKey).map(({ id }) => id)).toEqual(['openai-compatible']);
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('The choice and its key are gone.').waitFor();
    await page.getByText('A scripted demo', { exact: true }).waitFor();
    expect(await server.call('GET', '/setup')).toMatchObject({ saved: null, isDemo: true });
    expect(device.problems).toEqual([]);
    await page.close();
  });

  it('an address that does not answer is told at its field', async () => {
    const page = await device.open('/setup');
    await page.getByRole('radio', { name: /^OpenAI-compatible/ }).check();
    await page.getByLabel('Base URL').fill('http://127.0.0.1:1/v1');
    await page.getByRole('combobox', { name: 'Model' }).fill('nobody');
    await page.getByRole('button', { name: 'Test and save' }).click();
    await page.getByText('models.network').waitFor();
    expect(await page.getByLabel('Base URL').getAttribute('aria-invalid')).toBe('true');
    expect(device.problems).toEqual([]);
    await page.close();
  });

  it('says where the environment wins', async () => {
    await using model = await createModelServer(withKey(RIGHT));
    await using strict = await startCliServer({
      OPENAI_API_KEY: RIGHT,
      OPENAI_BASE_URL: model.url,
      OPENAI_MODEL: 'of-env',
    });
    await strict.call('POST', '/setup', { provider: 'openai', baseUrl: model.url, model: 'chosen', apiKey: RIGHT });
    await using own = await openDevice(strict);
    const page = await own.open('/setup');
    await page.getByText('of-env of OpenAI').waitFor();
    await page.getByText('OPENAI_MODEL wins over the model that was chosen here.').waitFor();
    await page.getByText('The key that was given here is not used: OPENAI_API_KEY wins.').waitFor();
    await page.getByText('The key in OPENAI_API_KEY is used.').waitFor();
    await page.getByRole('button', { name: 'Test and save' }).click();
    await page.getByText('It is saved, but what is set outside of this page wins.').waitFor();
    expect(own.problems).toEqual([]);
  });
});
