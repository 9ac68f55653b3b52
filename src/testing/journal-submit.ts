// Journal suite: submits, versions, idempotency and whose is what.
import assert from 'node:assert/strict';
import type { Cases } from './journal-bench.ts';
import { assistant, done, hasCode, newId, result, step } from './journal-bench.ts';

const isConflictAt = (version: number) => (error: unknown) => {
  assert.equal((error as { code?: unknown }).code, 'journal.version_conflict');
  assert.deepEqual((error as { data?: unknown }).data, { version });
  return true;
};

/** Ids that other stores mix up: escapes of each other, normal forms, lone surrogates, case, blanks, prefixes. */
const hostileIds = [
  ['', 'web', 'Web', 'web ', ' web', 'web\n', 'web\0', 'web%00', 'web\\0', 'web\\u0000', '\0', '\0\0', '%00', '%2500'],
  [
    '/',
    '\\',
    'a/b',
    'a\\b',
    '../a',
    '..',
    '.',
    ':',
    'a:b',
    '#',
    '%',
    '%23',
    '%25',
    '?',
    '*',
    "'",
    '"',
    '`',
    '$1',
    '{}',
  ],
  [
    '中文',
    '中',
    '中文\0',
    'é',
    'e\u0301',
    'ﬁ',
    'fi',
    '\u212b',
    'Å',
    'ß',
    'ss',
    '\u200b',
    '\ufeff',
    '\u0001',
    '\u0001\u0001',
  ],
  ['\ud800', '\udfff', '\udc00\ud800', '\ufffd', '\ud83d\ude00', '\\ud800', '\ufffd\ufffd', 'a\ud800', 'a\ud801'],
  ['__anon__', '__proto__', 'constructor', 'null', 'undefined', '0', '00', '1e3', '1000', 'true'],
  ['x'.repeat(200), 'x'.repeat(199), `${'x'.repeat(199)}y`, '文'.repeat(200)],
].flat();

export const submitCases: Cases = {
  'a message to an idle conversation is recorded and claimed at once': async ({
    begin,
    key,
    told,
    journal,
    entries,
  }) => {
    const web = key();
    const claim = await begin(web, 'hi', { request: { agent: 'a', model: 'm', deep: { list: [1, null, 'x'] } } });
    const { startedAt, ageMs, bytes, incarnation, message, ...rest } = claim;
    const request = { agent: 'a', model: 'm', deep: { list: [1, null, 'x'] } };
    const { run } = claim;
    assert.deepEqual(rest, {
      ...web,
      run,
      epoch: 1,
      commits: 0,
      request,
      version: 1,
      messageSeq: 1,
      cancelled: false,
      attempts: 0,
    });
    assert.deepEqual(message, { parts: [{ type: 'text', text: 'hi' }] });
    assert.notEqual(incarnation, '');
    assert.match(startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert(ageMs >= 0 && ageMs < 2000, `ageMs is ${ageMs}`);
    assert.deepEqual(await told(web), ['user: hi']);
    assert.equal((await entries(web))[0]!.bytesTo, bytes);
    const record = await journal.load(web, run, -1);
    assert.equal(record?.status, 'running');
    assert.equal(record.message, null);
    assert.deepEqual(record.request, request);
    assert.deepEqual(record.steps, []);
  },

  'expected 0 only creates (GOV-74)': async ({ begin, submit, key, told, journal, finish }) => {
    const web = key();
    await finish(await begin(web, 'one', { expected: 0 }));
    const run = newId();
    await assert.rejects(submit(web, 'two', { expected: 0, run }), isConflictAt(2));
    assert.deepEqual(await told(web), ['user: one', 'assistant: ok']);
    assert.equal(await journal.load(web, run, -1), undefined);
  },

  'expected n compares, and a conflict writes nothing and names the version (GOV-74)': async (bench) => {
    const { begin, submit, key, told, finish, queue, journal } = bench;
    const web = key();
    const run = newId();
    await assert.rejects(submit(web, 'none', { expected: 3, run }), isConflictAt(0));
    await finish(await begin(web, 'one', { expected: 0 }));
    await assert.rejects(submit(web, 'late', { expected: 1, run }), isConflictAt(2));
    await assert.rejects(submit(web, 'early', { expected: 3, run }), isConflictAt(2));
    assert.equal(await journal.load(web, run, -1), undefined);
    const claim = await begin(web, 'two', { expected: 2 });
    assert.equal(claim.version, 3);
    assert.equal((await submit(web, 'three', { expected: 3 })).outcome, 'queued');
    await assert.rejects(submit(web, 'late', { expected: 2 }), isConflictAt(3));
    await queue(web, 'four');
    assert.deepEqual(await told(web), ['user: one', 'assistant: ok', 'user: two']);
  },

  'of many that create at the same instant exactly one does (GOV-74)': async ({ submit, key, told }) => {
    const web = key();
    const all = Array.from({ length: 20 }, (_, i) => submit(web, `m${i}`, { expected: 0 }));
    const settled = await Promise.allSettled(all);
    const won = settled.filter((one) => one.status === 'fulfilled');
    assert.deepEqual(
      won.map(({ value }) => value.outcome),
      ['claimed'],
    );
    for (const one of settled) if (one.status === 'rejected') isConflictAt(1)(one.reason);
    assert.equal((await told(web)).length, 1);
  },

  'an unconditional write returns its own version, also among many (GOV-75)': async ({
    begin,
    key,
    entries,
    finish,
  }) => {
    const keys = Array.from({ length: 20 }, (_, i) => key({ conversation: `c${i}` }));
    await Promise.all(
      keys.map(async (web, i) => {
        for (let turn = 0; turn < 3; turn++) {
          const { version, messageSeq, bytes, ...claim } = await begin(web, `${i}.${turn}`);
          assert.equal(version, turn * 2 + 1);
          assert.equal(messageSeq, version);
          const entry = (await entries(web))[messageSeq - 1]!;
          assert.equal(entry.run, claim.run);
          assert.equal(entry.bytesTo, bytes);
          await finish({ version, messageSeq, bytes, ...claim });
        }
      }),
    );
  },

  'an idempotency key gives the same run again': async ({ begin, submit, key, told, finish }) => {
    const web = key();
    const idempotency = { key: 'k\0中', digest: 'd1' };
    const claim = await begin(web, 'hi', { idempotency, expected: 0 });
    const again = await submit(web, 'hi', { idempotency, run: newId() });
    assert.equal(again.outcome, 'duplicate');
    assert.equal(again.run, claim.run);
    await finish(claim);
    const stale = await submit(web, 'hi', { idempotency, expected: 0 });
    assert.equal(stale.outcome, 'duplicate', 'a repeat is not a conflict, whatever version it expects');
    assert.equal(stale.run, claim.run);
    assert.deepEqual(await told(web), ['user: hi', 'assistant: ok']);
  },

  'an idempotency key for another message is refused': async ({ begin, submit, key, told, journal }) => {
    const web = key();
    const run = newId();
    await begin(web, 'hi', { idempotency: { key: 'k', digest: 'd1' } });
    const other = submit(web, 'ho', { run, idempotency: { key: 'k', digest: 'd2' } });
    await assert.rejects(other, hasCode('journal.idempotency_key_reused'));
    assert.deepEqual(await told(web), ['user: hi']);
    assert.equal(await journal.load(web, run, -1), undefined);
  },

  'an idempotency key belongs to its owner and conversation': async ({ begin, key }) => {
    const web = key();
    await begin(web, 'hi', { idempotency: { key: 'k', digest: 'd1' } });
    await begin({ ...web, conversation: 'other' }, 'hi', { idempotency: { key: 'k', digest: 'd2' } });
    await begin({ ...web, owner: newId() }, 'hi', { idempotency: { key: 'k', digest: 'd3' } });
    await begin({ ...web, tenant: newId() }, 'hi', { idempotency: { key: 'k', digest: 'd4' } });
  },

  'of many submits with one idempotency key one is written': async ({ submit, key, told }) => {
    const web = key();
    const idempotency = { key: 'k', digest: 'd' };
    const all = await Promise.all(Array.from({ length: 10 }, () => submit(web, 'hi', { idempotency })));
    const claimed = all.filter(({ outcome }) => outcome === 'claimed');
    assert.equal(claimed.length, 1);
    assert.equal(all.filter(({ outcome }) => outcome === 'duplicate').length, 9);
    assert.deepEqual(
      new Set(all.filter(({ outcome }) => outcome === 'duplicate').map(({ run }) => run)),
      new Set([claimed[0]!.run]),
    );
    assert.deepEqual(await told(web), ['user: hi']);
  },

  'a run submitted twice is recorded once': async ({ begin, submit, queue, key, told, journal }) => {
    const web = key();
    const { run } = await begin(web, 'hi');
    const again = await submit(web, 'hi', { run });
    assert.equal(again.outcome, 'duplicate');
    const waiting = await queue(web, 'more');
    assert.equal((await submit(web, 'more', { run: waiting })).outcome, 'duplicate');
    assert.deepEqual(await told(web), ['user: hi']);
    assert.equal((await journal.load(web, waiting, -1))?.status, 'queued');
  },

  "two owners' conversations of the same name never meet (MEM-23)": async ({ begin, key, told, journal, write }) => {
    const mine = key();
    for (const theirs of [
      { ...mine, owner: newId() },
      { ...mine, tenant: newId() },
    ]) {
      const claim = await begin(theirs, 'secret', { expected: 0 });
      const asked = { status: 'waiting' as const, entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] };
      await write(claim, asked);
      assert.equal(await journal.load(mine, claim.run, -1), undefined);
      assert.equal(await journal.cancel(mine, claim.run), undefined);
      const answered = journal.answer(mine, claim.run, 1, { effect: 'allow', by: 'me' });
      await assert.rejects(answered, hasCode('journal.not_awaiting'));
      const record = await journal.load(theirs, claim.run, -1);
      assert.equal(record?.status, 'waiting');
      assert.equal(record.cancelled, false);
      assert.equal(record.steps[0]?.state, 'awaiting');
      assert.deepEqual(await told(mine), []);
    }
    await begin(mine, 'mine', { expected: 0 });
    assert.deepEqual(await told(mine), ['user: mine']);
  },

  'hostile ids never collide and come back as they were (GOV-79)': async ({ begin, key, told, finish, journal }) => {
    const base = key();
    assert.equal(new Set(hostileIds).size, hostileIds.length);
    const keys = [
      ...hostileIds.map((conversation) => ({ ...base, conversation })),
      ...hostileIds.map((owner) => ({ ...base, owner: `${base.owner}${owner}`, conversation: 'by owner' })),
      ...hostileIds.map((tenant) => ({ ...base, tenant: `${base.tenant}${tenant}`, conversation: 'by tenant' })),
      ...['/', ':', '\0', '\u0001', ',', '","'].flatMap((mark) => [
        { tenant: base.tenant, owner: `a${mark}b`, conversation: 'c' },
        { tenant: base.tenant, owner: 'a', conversation: `b${mark}c` },
        { tenant: `${base.tenant}${mark}a`, owner: 'b', conversation: 'c' },
      ]),
    ];
    const claims = await Promise.all(keys.map((name, i) => begin(name, `text ${i}`, { expected: 0 })));
    for (const [i, claim] of claims.entries()) {
      const { tenant, owner, conversation, run } = claim;
      assert.deepEqual({ tenant, owner, conversation }, keys[i]);
      const record = await journal.load({ tenant, owner }, run, -1);
      assert.equal(record?.conversation, conversation);
      await finish(claim, `answer ${i}`);
    }
    for (const [i, name] of keys.entries())
      assert.deepEqual(await told(name), [`user: text ${i}`, `assistant: answer ${i}`]);
  },

  'a hostile id works in queue, claim, cancel and answer too (GOV-79)': async (bench) => {
    const { begin, key, queue, write, journal, take } = bench;
    for (const id of ['\0', '\ud800', 'a/b', '中文 %00', "'; --"]) {
      const web = key({ conversation: id, owner: `${newId()}${id}` });
      const claim = await begin(web, 'one');
      const second = await queue(web, 'two');
      const asked = { status: 'waiting' as const, entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] };
      await write(claim, asked);
      await journal.answer(web, claim.run, 1, { effect: 'allow', by: id, comment: id });
      const [resumed] = await take('w2', [claim.run]);
      assert.deepEqual([resumed?.conversation, resumed?.owner], [web.conversation, web.owner]);
      const ended = { status: 'done' as const, outcome: done, entries: [result('c1')], steps: [step(1, 'done')] };
      const committed = await write(resumed!, { ...ended, worker: 'w2' });
      assert(committed.outcome === 'done');
      assert.equal(committed.next?.run, second);
      assert.equal(committed.next.conversation, id);
      assert.equal(await journal.cancel(web, second), 'running');
    }
  },
};
