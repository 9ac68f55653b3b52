// A conversation of 1,000 messages: how soon it is there, and what it weighs while it is scrolled.
import type { CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from '../server/harness.ts';
import { createTestServer } from '../server/harness.ts';
import { closeBrowser, openDevice } from './browser.ts';

const MESSAGES = 1000;
/** On a quiet machine it is 1.2 s; this holds on a busy one too. */
const READY_MS = 2500;

const answer = (n: number) => `Answer ${n}: the **figures** of day ${n} are in \`report-${n}.csv\`.

- ${n * 3} orders, ${n % 7} of them returned
- see [the report](https://example.org/${n})

| part | count |
|---|---|
| first | ${n} |
`;

/** In the page: `readyAt` is when the message `last` had been painted. */
function noteReady(last: string): void {
  const look = () => {
    const said = [...document.querySelectorAll('article')].at(-1);
    const box = said?.textContent?.includes(last) ? said.getBoundingClientRect() : undefined;
    if (!box || box.bottom > innerHeight || box.bottom < 0) return requestAnimationFrame(look);
    return requestAnimationFrame(() => Object.assign(globalThis, { readyAt: performance.now() }));
  };
  requestAnimationFrame(look);
}

describe('a conversation of 1,000 messages', { timeout: 120_000 }, () => {
  let server: TestServer;
  const site = () => ({ address: server.address, cookie: 'user=ann' });
  beforeAll(async () => {
    server = await createTestServer('embedded', {
      identity: (request) =>
        /ann/.test(`${request.headers.get('cookie')} ${request.headers.get('authorization')}`)
          ? { tenant: 'default', owner: 'ann' }
          : null,
      model: createScriptedModel((_, turn) => answer(turn)),
      config: { transcripts: false },
    });
    for (let n = 0; n < MESSAGES / 2; n++) {
      await server.call('POST', '/chat', { body: { conversationId: 'long', query: `Question ${n}` } });
    }
  }, 120_000);
  afterAll(async () => {
    await closeBrowser();
    await server?.[Symbol.asyncDispose]();
  });

  /** Milliseconds from the navigation. */
  async function readyMs(page: Page): Promise<number> {
    await page.waitForFunction(() => (globalThis as { readyAt?: number }).readyAt !== undefined);
    return await page.evaluate(() => (globalThis as unknown as { readyAt: number }).readyAt);
  }

  it('is there in time, at its last message', async () => {
    const [cold, warm]: [number[], number[]] = [[], []];
    for (let visit = 0; visit < 3; visit++) {
      // With nothing in its cache.
      await using device = await openDevice(site());
      await device.context.addInitScript(noteReady, `Answer ${MESSAGES / 2 - 1}:`);
      const page = await device.open('/c/long');
      cold.push(await readyMs(page));
      await page.reload();
      warm.push(await readyMs(page));
      expect(device.problems).toEqual([]);
    }
    const list = (times: number[]) => times.map((ms) => Math.round(ms)).join(', ');
    console.log(`1,000 messages: ready in ${list(cold)} ms at a first visit, ${list(warm)} ms at the next one`);
    expect(Math.min(...cold)).toBeLessThanOrEqual(READY_MS);
  });

  const heapMb = async (session: CDPSession) => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize / 1e6;
  };

  /** From end to end once; the most elements that were there. */
  const scroll = (page: Page, down: boolean) =>
    page.getByRole('log').evaluate(async (log, isDown) => {
      let most = 0;
      log.dispatchEvent(new WheelEvent('wheel'));
      for (;;) {
        const before = log.scrollTop;
        log.scrollTop += isDown ? 1400 : -1400;
        await new Promise((done) => requestAnimationFrame(done));
        most = Math.max(most, document.querySelectorAll('*').length);
        log.dispatchEvent(new WheelEvent('wheel'));
        if (log.scrollTop === before) return most;
      }
    }, down);

  it('holds few elements and the same memory, however far it is scrolled', async () => {
    await using device = await openDevice(site());
    const page = await device.open('/c/long');
    await page.getByText(`Answer ${MESSAGES / 2 - 1}:`).waitFor();
    const session = await device.context.newCDPSession(page);
    const elements: number[] = [];
    const heaps: number[] = [await heapMb(session)];
    for (const isDown of [false, true, false]) {
      elements.push(await scroll(page, isDown));
      const edge = isDown ? `Answer ${MESSAGES / 2 - 1}:` : 'Question 0';
      await page.getByRole('log').getByText(edge, { exact: !isDown }).waitFor();
      heaps.push(await heapMb(session));
    }
    console.log(
      `scrolled: at most ${Math.max(...elements)} elements; heap ${heaps.map((mb) => mb.toFixed(1)).join(', ')} MB`,
    );
    expect(Math.max(...elements)).toBeLessThan(1500);
    // The first way fills what is measured once; after that nothing may grow.
    expect(heaps[3]! - heaps[1]!).toBeLessThan(1.5);
    expect(device.problems).toEqual([]);
  });
});
