import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createFeed } from '../../src/server/feed.ts';
import type { Change } from '../../src/store/changes.ts';
import type { Model } from '../../src/kernel/index.ts';
import { noUsage, textOf } from '../../src/kernel/index.ts';
import type { Frame, TestServer } from './harness.ts';
import { backends, createTestServer } from './harness.ts';

/** Says ok, and to "hang" nothing until it is stopped. */
const model: Model = {
  name: 'patient',
  async call({ messages }, signal, on) {
    const last = messages.at(-1);
    if (last?.role === 'user' && textOf(last.parts) === 'hang') {
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    }
    on({ type: 'text', text: 'ok' });
    return { reason: 'stop', usage: noUsage };
  },
};

interface Summary {
  id: string;
  title: string;
  version: number;
}

describe.each(backends)('renaming, searching and deleting conversations on %s', (backend) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await createTestServer(backend, { model });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  type User = 'ann' | 'bob';
  const say = (conversationId: string, query: string, user: User = 'ann') =>
    server.call('POST', '/chat', { body: { conversationId, query }, user });
  const rename = (id: string, title: unknown, user: User = 'ann') =>
    server.call('PATCH', `/conversations/${encodeURIComponent(id)}`, { body: { title }, user });
  const list = async (query = '', user: User = 'ann') => {
    const { body } = await server.call('GET', `/conversations?limit=500${query}`, { user });
    return body.conversations as unknown as Summary[];
  };
  const titlesOf = async (search: string, user: User = 'ann') =>
    (await list(`&search=${encodeURIComponent(search)}`, user)).map(({ title }) => title);
  /** What the feed tells from now on, until `count` events that count have come. */
  const follow = (user: User, count: number, counts: (frame: Frame) => boolean = () => true) => {
    const headers = { 'last-event-id': new Date(Date.now() + 5000).toISOString() };
    let seen = 0;
    const until = (frame: Frame) => counts(frame) && ++seen === count;
    return server.stream('/events', { user, headers, until, signal: AbortSignal.timeout(8000) });
  };

  it("a new feed begins by the database's clock, and before what is not visible yet", async () => {
    await say('just before', 'one', 'bob');
    await rename('just before', 'Renamed', 'bob');
    const isTold = ({ data }: Frame) => data.title === 'Renamed';
    const frames = await server.stream('/events', { user: 'bob', until: isTold, signal: AbortSignal.timeout(3000) });
    expect(frames.some(isTold)).toBe(true);
    await server.call('DELETE', '/conversations/just%20before', { user: 'bob' });
  });

  it('a title changes, the version and the place in the list do not', async () => {
    await say('first', 'one');
    await say('second', 'two');
    const before = await list();
    const renamed = await rename('first', '  Orders of\n\tNovember ');
    expect(renamed).toMatchObject({ status: 200, body: { id: 'first', title: 'Orders of November', version: 2 } });
    expect((await list()).map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    await say('first', 'three', 'ann');
    expect((await server.call('GET', '/conversations/first')).body).toMatchObject({ title: 'Orders of November' });
  });

  it.each([
    ['controls and marks of direction', 'in\u202evoice\u2066\u0007.\u200fpdf\u061c', 'invoice.pdf'],
    ['a lone surrogate', 'a\ud800b', 'a\ufffdb'],
    ['lines', 'a\r\nb\u2028c', 'a b c'],
    ['an emoji of several characters', '👩‍👩‍👧 한국 中文', '👩‍👩‍👧 한국 中文'],
    ['what looks like an escape', '100%0041 %', '100%0041 %'],
    ['200 characters beyond the first plane', '𠮷'.repeat(200), '𠮷'.repeat(200)],
  ])('I4 a title with %s', async (_, title, shown) => {
    await say('i4', 'x');
    expect((await rename('i4', title)).body.title).toBe(shown);
    expect((await server.call('GET', '/conversations/i4')).body.title).toBe(shown);
  });

  it.each([[''], ['  \n '], ['\u202e\u200f'], ['\u200d\u200b'], ['x'.repeat(201)], [7], [null], [undefined]])(
    'the title %j is refused',
    async (title) => {
      await say('refuse', 'kept');
      expect(await rename('refuse', title)).toMatchObject({
        status: 400,
        body: { error: { code: 'server.invalid_request' } },
      });
      expect((await server.call('GET', '/conversations/refuse')).body.title).toBe('kept');
    },
  );

  it('I4 the title that a first message gives has no marks of direction, and of files alone it is the name', async () => {
    await say('marks', '\u202e\n\u202eevil\u2066 title\nmore');
    expect((await server.call('GET', '/conversations/marks')).body.title).toBe('evil title');
    const headers = { 'content-type': 'image/png', 'x-file-name': encodeURIComponent('季度 report\u202e.png') };
    const file = await server.call('POST', '/files', { body: 'png', headers });
    await server.call('POST', '/chat', { body: { conversationId: 'filed', files: [{ id: file.body.id }] } });
    expect((await server.call('GET', '/conversations/filed')).body.title).toBe('季度 report.png');
  });

  it('a search finds parts of titles in any case and script, page by page, and nothing of anybody else', async () => {
    for (const [i, title] of [
      'ÄPFEL und Birnen',
      'Straße',
      'ДЕНЬГИ',
      'ΟΔΟΣ',
      '100% sure',
      '中文标题',
      'ﬁle',
    ].entries()) {
      await say(`search ${i}`, title);
    }
    await say('search bob', 'äpfel of bob', 'bob');
    expect(await titlesOf('äpfel')).toEqual(['ÄPFEL und Birnen']);
    expect(await titlesOf('STRASSE')).toEqual(['Straße']);
    expect(await titlesOf('деньги')).toEqual(['ДЕНЬГИ']);
    expect(await titlesOf('οδος')).toEqual(['ΟΔΟΣ']);
    expect(await titlesOf('文标')).toEqual(['中文标题']);
    expect(await titlesOf('0%')).toEqual(['100% sure']);
    expect(await titlesOf('FILE')).toEqual(['ﬁle']);
    expect(await titlesOf('_')).toEqual([]);
    expect(await titlesOf(' ')).toHaveLength((await list()).length);
    expect(await titlesOf('äpfel', 'bob')).toEqual(['äpfel of bob']);
    for (let i = 0; i < 5; i++) await say(`many ${i}`, `Needle ${i}`);
    const found: string[] = [];
    for (let before = ''; ;) {
      const { body } = await server.call('GET', `/conversations?limit=2&search=needle${before && `&before=${before}`}`);
      found.push(...(body.conversations as unknown as Summary[]).map(({ title }) => title));
      if (body.next === null) break;
      before = String(body.next);
    }
    expect(found).toEqual([4, 3, 2, 1, 0].map((i) => `Needle ${i}`));
  });

  it('CHAN-06 a second tab hears of renames, forks and deletions, and another user of none of them', async () => {
    await say('told', 'first title');
    const isOfConversation = ({ event }: Frame) => event === 'conversation';
    const [second, foreign] = [follow('ann', 3, isOfConversation), follow('bob', 1)];
    await rename('told', 'second title');
    await server.call('POST', '/conversations/told/fork', { body: { id: 'told too', after: 1 } });
    await server.call('DELETE', '/conversations/told');
    const frames = (await second).filter(isOfConversation);
    expect(frames.map(({ data }) => [data.id, data.title, data.deleted])).toEqual([
      ['told', 'second title', undefined],
      ['told too', 'second title', undefined],
      ['told', undefined, true],
    ]);
    for (const { id, data } of frames) expect(id).toBe(data.changedAt);
    await say('mine', 'hello', 'bob');
    expect((await foreign).map(({ data }) => data.conversation)).toEqual(['mine']);
  });

  it('CHAN-06 two tabs see the same run whole, and a user who knows its id sees nothing', async () => {
    const [one, two, foreign] = [follow('ann', 1), follow('ann', 1), follow('bob', 1)];
    const { body } = await say('tabs', 'hello');
    const run = String(body.run);
    expect((await one)[0]!.data).toMatchObject({ conversation: 'tabs', run });
    expect((await two)[0]!.data).toMatchObject({ conversation: 'tabs', run });
    const [left, right] = await Promise.all([1, 2].map(() => server.stream(`/runs/${run}/events`)));
    expect(left).toEqual(right);
    expect(left!.at(-1)!.event).toBe('run_end');
    for (const path of [`/runs/${run}`, `/runs/${run}/events`, '/conversations/tabs']) {
      expect((await server.call('GET', path, { user: 'bob' })).status).toBe(404);
      expect((await server.call('GET', path, { user: null })).status).toBe(401);
    }
    await say('other', 'x', 'bob');
    expect((await foreign).map(({ data }) => data.conversation)).toEqual(['other']);
  });

  it("MEM-23 another user's conversation is not there: not to rename, not to find, not to delete with all", async () => {
    await say('private', 'a secret of ann');
    expect((await rename('private', 'mine', 'bob')).body.error?.code).toBe('server.conversation_not_found');
    expect((await rename('nobody has it', 'x')).status).toBe(404);
    expect(await titlesOf('secret', 'bob')).toEqual([]);
    expect((await server.call('DELETE', '/conversations?confirm=all', { user: 'bob' })).status).toBe(200);
    expect(await list('', 'bob')).toEqual([]);
    expect(await titlesOf('secret')).toEqual(['a secret of ann']);
  });

  it('MEM-16 all of a caller are listed and deleted at once, forks and runs under way too, and again is nothing', async () => {
    expect((await server.call('DELETE', '/conversations')).status).toBe(400);
    expect((await server.call('DELETE', '/conversations?confirm=yes')).status).toBe(400);
    await Promise.all(Array.from({ length: 130 }, (_, i) => say(`all ${i}`, 'x')));
    await say('kept by bob', 'x', 'bob');
    for (const [parent, id] of [
      ['all 0', 'fork'],
      ['fork', 'fork of it'],
      ['all 1', 'other fork'],
    ] as const) {
      const made = await server.call('POST', `/conversations/${encodeURIComponent(parent)}/fork`, {
        body: { id, after: 1 },
      });
      expect(made.status).toBe(201);
    }
    await server.send('under way', 'hang');
    const before = await list();
    expect(before.length).toBeGreaterThan(134);
    const deletions = follow('ann', before.length, ({ data }) => data.deleted === true);
    const first = await server.call('DELETE', '/conversations?confirm=all');
    expect(first.body).toEqual({ deleted: before.length });
    expect(await list()).toEqual([]);
    expect((await server.call('DELETE', '/conversations?confirm=all')).body).toEqual({ deleted: 0 });
    expect((await list('', 'bob')).map(({ id }) => id)).toEqual(['kept by bob']);
    const told = (await deletions).filter(({ data }) => data.deleted).map(({ data }) => data.id);
    expect(told.toSorted()).toEqual(before.map(({ id }) => id).toSorted());
    await expect.poll(async () => (await server.call('GET', '/health')).body.activeRuns, { timeout: 5000 }).toBe(0);
    await say('all 0', 'anew');
    expect((await server.call('GET', '/conversations/all%200/messages')).body.messages).toHaveLength(2);
  });
});

it('a feed gets through more changes of one instant than it reads at once', async () => {
  const changedAt = new Date(Date.now() + 1000).toISOString();
  const rows = Array.from({ length: 1000 }, (_, i): Change => ({
    event: 'conversation',
    data: { id: `c${i}`, deleted: true, changedAt },
  }));
  let looks = 0;
  const feed = createFeed({
    changes: async (_, { after, limit }) => {
      looks++;
      return rows.filter(({ data }) => data.changedAt > after).slice(0, limit);
    },
  });
  const leave = new AbortController();
  const seen = new Set<string>();
  const owner = { tenant: 't', owner: 'o' };
  await feed.follow(owner, { after: new Date(), signal: leave.signal }, ({ data }) => {
    seen.add('id' in data ? data.id : '');
    if (seen.size === rows.length) leave.abort();
  });
  expect(seen.size).toBe(1000);
  expect(looks).toBeLessThan(10);
});
