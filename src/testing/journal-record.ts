// Journal suite: what is written is what is read.
import assert from 'node:assert/strict';
import type { EntryBody } from '../kernel/index.ts';
import { noUsage } from '../kernel/index.ts';
import type { Cases } from './journal-bench.ts';
import { assistant, done, newId, result, step, usage } from './journal-bench.ts';

const strings = [
  ['', ' ', '\0', 'a\0b', '\ud800', '\udfff', 'x\udc00\ud800y', '\ud83d\ude00', '\ufffd', '\ufeffbom', 'a\r\nb\rc\nd'],
  [
    '\u2028\u2029',
    '\u0085',
    '\u001b[31m',
    '\u007f',
    '\\u0000',
    '\\',
    '"',
    "'",
    '$1',
    '{{x}}',
    '---',
    'yes',
    '123',
    'null',
  ],
  ['e\u0301', 'é', '今天北京天气怎么样', '👩‍👩‍👧', ' lead', 'trail ', '\ttab\t', '__proto__'],
].flat();
const megabyte = 'a中\0😀\n'.repeat(2 ** 20 / 12);

export const recordCases: Cases = {
  'any string survives in text, results, requests and outcomes (MEM-03)': async ({
    begin,
    key,
    write,
    entries,
    journal,
  }) => {
    for (const text of strings) {
      const web = key();
      const request = { agent: text, model: text, option: { [text]: [text] } };
      const message = {
        parts: [
          { type: 'text' as const, text },
          { type: 'file' as const, id: 'f', name: text, mime: 'x/y', bytes: 1 },
        ],
      };
      const claim = await begin(web, text, { request, message });
      assert.deepEqual(claim.request, request);
      const bodies: EntryBody[] = [
        {
          kind: 'assistant',
          body: {
            parts: [
              { type: 'reasoning', text, metadata: { [text]: text } },
              { type: 'text', text },
            ],
            model: text,
            usage,
          },
        },
        { kind: 'tool_result', body: { call: 'c1', name: text, result: { [text]: [text, { deep: text }] }, ms: 1 } },
        { kind: 'tool_result', body: { call: 'c2', name: text, result: text, isError: true, ms: 1 } },
        { kind: 'summary', body: { text } },
        { kind: 'notice', body: { code: text, message: text, hint: text } },
      ];
      await write(claim, { entries: bodies, steps: [step(1, 'awaiting', 'c1')] });
      const answer = { effect: 'allow' as const, by: text, comment: text, args: { [text]: text } };
      await journal.answer(web, claim.run, 1, answer);
      const outcome = { type: 'error' as const, code: text, message: text, hint: text, usage, ms: 1 };
      await write(claim, { status: 'failed', outcome });
      const read = (await entries(web)).map(({ kind, body }) => ({ kind, body }));
      assert.deepEqual(read, [{ kind: 'user', body: message }, ...bodies]);
      const record = await journal.load(web, claim.run, -1);
      assert.deepEqual([record?.request, record?.outcome, record?.steps[0]?.answer], [request, outcome, answer]);
      assert.deepEqual(
        record?.entries.map(({ kind, body }) => ({ kind, body })),
        read,
      );
    }
  },

  'a megabyte survives in text, results and requests (MEM-03)': async ({ begin, key, write, entries, journal }) => {
    const web = key();
    const claim = await begin(web, megabyte, { request: { agent: 'a', model: 'm', option: megabyte } });
    await write(claim, { entries: [result('c1', megabyte)] });
    const [user, found] = await entries(web);
    assert(user?.kind === 'user' && found?.kind === 'tool_result');
    assert(user.body.parts[0]?.type === 'text' && user.body.parts[0].text === megabyte);
    assert(found.body.result === megabyte);
    assert((await journal.load(web, claim.run, -1))?.request.option === megabyte);
  },

  'a message keeps every string while it waits in the queue': async ({
    begin,
    key,
    submit,
    finish,
    journal,
    entries,
  }) => {
    const web = key();
    let claim = await begin(web, 'first');
    for (const text of strings) {
      const { run } = await submit(web, text, { request: { agent: text, model: 'm' } });
      assert.deepEqual((await journal.load(web, run, -1))?.message?.parts, [{ type: 'text', text }]);
      claim = (await finish(claim))!;
      assert.deepEqual([claim.run, claim.request.agent], [run, text]);
      assert.deepEqual((await entries(web)).at(-1)?.body, { parts: [{ type: 'text', text }] });
    }
  },

  'entries are numbered without a gap and their bytes add up': async ({
    begin,
    key,
    write,
    queue,
    entries,
    finish,
  }) => {
    const web = key();
    const claim = await begin(web, '中文😀');
    await queue(web, 'second');
    const first = await write(claim, { entries: [assistant('a', ['c1', 'c2']), result('c2', '中')], steps: [] });
    const second = await write(claim, { entries: [] });
    const third = await write(claim, { entries: [result('c1', 'x'.repeat(1000))] });
    const next = (await finish(claim))!;
    const all = await entries(web);
    assert.deepEqual(
      all.map(({ seq }) => seq),
      [1, 2, 3, 4, 5, 6],
    );
    assert.deepEqual(
      all.map(({ commit }) => commit),
      [0, 1, 1, 3, 4, 0],
    );
    assert.deepEqual(
      all.map(({ epoch }) => epoch),
      [1, 1, 1, 1, 1, 1],
    );
    assert.deepEqual(
      all.map(({ run }) => run),
      [...Array<string>(5).fill(claim.run), next.run],
    );
    let total = 0;
    for (const entry of all) {
      total += entry.bytes;
      assert.equal(entry.bytesTo, total);
      assert.equal(entry.bytes, new TextEncoder().encode(JSON.stringify(entry.body)).length);
      assert.match(entry.at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
    assert.deepEqual(first, { outcome: 'done', version: 3, bytes: all[2]!.bytesTo, next: null });
    assert.deepEqual(second, { outcome: 'done', version: 3, bytes: all[2]!.bytesTo, next: null });
    assert.deepEqual(third, { outcome: 'done', version: 4, bytes: all[3]!.bytesTo, next: null });
    assert.equal(next.bytes, total);
  },

  'history is cut by number and by bytes': async ({ begin, key, finish, journal, entries }) => {
    const web = key();
    for (let i = 0; i < 5; i++) await finish(await begin(web, `question ${'x'.repeat(i)}`), `answer ${i}`);
    const all = await entries(web);
    const seqs = async (seq: number, bytes: number) => (await journal.history(web, { seq, bytes })).map((e) => e.seq);
    // A turn that is cut comes with the message that opened it.
    const from = (index: number) => [...(index % 2 ? [index] : []), ...all.slice(index).map(({ seq }) => seq)];
    for (const [i, { bytesTo, bytes }] of all.entries()) {
      const rest = i + 1 < all.length ? from(i + 1) : [];
      assert.deepEqual(await seqs(i + 1, 0), rest);
      assert.deepEqual(await seqs(0, bytesTo), rest);
      assert.deepEqual(await seqs(0, bytesTo - 1), from(i));
      assert.deepEqual(await seqs(0, bytesTo - bytes), from(i));
      assert.deepEqual(await seqs(3, bytesTo), i + 1 < all.length ? from(Math.max(3, i + 1)) : []);
    }
    assert.deepEqual(await seqs(99, 0), []);
    assert.deepEqual(await journal.history(key(), { seq: 0, bytes: 0 }), []);
  },

  'history that is cut in a turn of many steps has its opening message and the step before the cut': async (bench) => {
    const { begin, key, write, finish, journal, entries } = bench;
    const web = key();
    await finish(await begin(web, 'one'), 'answer');
    const claim = await begin(web, 'two');
    await write(claim, { entries: [assistant('', ['c1', 'c2']), result('c2')] });
    await write(claim, { entries: [result('c1')] });
    await write(claim, { entries: [assistant('', ['c3']), result('c3')] });
    await finish(claim, 'answer');
    await finish(await begin(web, 'three'), 'answer');
    // 1 one, 2 answer, 3 two, 4 step, 5 and 6 results, 7 step, 8 result, 9 answer, 10 three, 11 answer
    const expected = [
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
      [3, 4, 5, 6, 7, 8, 9, 10, 11],
      [3, 4, 5, 6, 7, 8, 9, 10, 11],
      [3, 4, 5, 6, 7, 8, 9, 10, 11],
      [3, 4, 5, 6, 7, 8, 9, 10, 11],
      [3, 4, 5, 6, 7, 8, 9, 10, 11],
      [3, 7, 8, 9, 10, 11],
      [3, 7, 8, 9, 10, 11],
      [10, 11],
      [10, 11],
      [],
    ];
    const all = await entries(web);
    for (const [cut, seqs] of expected.entries()) {
      const bytes = all[cut - 1]?.bytesTo ?? 0;
      for (const after of [
        { seq: cut, bytes: 0 },
        { seq: 0, bytes },
      ]) {
        const read = await journal.history(web, after);
        assert.deepEqual(
          read.map(({ seq }) => seq),
          seqs,
          `cut at ${cut}`,
        );
        assert.deepEqual(
          read,
          all.filter(({ seq }) => seqs.includes(seq)),
        );
      }
    }
  },

  'a run is loaded with its own entries, after a commit if asked': async ({
    begin,
    key,
    write,
    journal,
    finish,
    queue,
  }) => {
    const web = key();
    await finish(await begin(web, 'before'));
    const claim = await begin(web, 'mine');
    await queue(web, 'after');
    await write(claim, { entries: [assistant('', ['c1'])], steps: [step(0, 'done', null), step(1, 'started')] });
    await write(claim, { entries: [result('c1')], steps: [step(1, 'done')] });
    await write(claim, { status: 'done', outcome: done, entries: [assistant('ok')], steps: [step(2, 'done', null)] });
    for (const after of [-1, 0, 1, 2, 3]) {
      const record = await journal.load(web, claim.run, after);
      const commits = [0, 1, 2, 3].filter((commit) => commit > after);
      assert.deepEqual(
        record?.entries.map(({ commit }) => commit),
        commits,
      );
      assert(record.entries.every(({ run }) => run === claim.run));
      const { tenant, owner, conversation, run, status, epoch, commits: count, outcome } = record;
      assert.deepEqual({ tenant, owner, conversation }, web);
      assert.deepEqual(
        { run, status, epoch, count, outcome },
        { run: claim.run, status: 'done', epoch: 1, count: 3, outcome: done },
      );
      assert.deepEqual(
        record.steps.map(({ n }) => n),
        [0, 1, 2],
      );
      assert(record.createdAt <= record.startedAt! && record.startedAt! <= record.endedAt!);
    }
    assert.equal(await journal.load(web, newId(), -1), undefined);
  },

  'steps keep state, usage and when they ended': async ({ begin, key, write, journal }) => {
    const web = key();
    const claim = await begin(web, 'one');
    const model = { ...step(0, 'done', null), usage };
    await write(claim, { entries: [assistant('', ['c1'])], steps: [step(10, 'started'), step(2, 'ready'), model] });
    let record = await journal.load(web, claim.run, -1);
    const short = () => record?.steps.map(({ n, kind, call, state, usage: used }) => [n, kind, call, state, used]);
    assert.deepEqual(short(), [
      [0, 'model', null, 'done', usage],
      [2, 'tool', 'c2', 'ready', undefined],
      [10, 'tool', 'c10', 'started', undefined],
    ]);
    assert.deepEqual(
      record?.steps.map(({ endedAt }) => endedAt === null),
      [false, true, true],
    );
    const startedAt = record?.steps[2]?.startedAt;
    await write(claim, { steps: [{ ...step(10, 'done'), usage: noUsage }, step(2, 'started')] });
    record = await journal.load(web, claim.run, -1);
    assert.deepEqual(short(), [
      [0, 'model', null, 'done', usage],
      [2, 'tool', 'c2', 'started', undefined],
      [10, 'tool', 'c10', 'done', noUsage],
    ]);
    assert.equal(record?.steps[2]?.startedAt, startedAt);
    assert(record!.steps[2]!.endedAt! >= startedAt!);
  },

  'what a caller does to its values later does not reach the record': async ({
    begin,
    key,
    write,
    entries,
    journal,
  }) => {
    const web = key();
    const request = { agent: 'a', model: 'm', list: ['x'] };
    const claim = await begin(web, 'one', { request });
    request.list.push('y');
    claim.request.agent = 'changed';
    const entry = assistant('before');
    await write(claim, { entries: [entry], steps: [step(1, 'started')] });
    if (entry.kind === 'assistant') entry.body.parts.length = 0;
    (await entries(web))[1]!.body = { code: 'changed', message: '' };
    const record = await journal.load(web, claim.run, -1);
    assert.deepEqual(record?.request, { agent: 'a', model: 'm', list: ['x'] });
    assert.deepEqual((await entries(web))[1]?.body, assistant('before').body);
  },
};
