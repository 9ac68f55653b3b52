// Journal suite: steps that wait for people.
import assert from 'node:assert/strict';
import type { Cases } from './journal-bench.ts';
import { assistant, done, hasCode, newId, result, step } from './journal-bench.ts';

export const answerCases: Cases = {
  'an answered run is claimable, its wait does not age it, and its step keeps the answer': async (bench) => {
    const { begin, key, journal, write, take, wait, lapse, leaseMs } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    await wait(leaseMs * 0.5);
    await write(claim, { status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    await lapse();
    assert.deepEqual(await take('w2', [claim.run]), [], 'who waits for a person holds no lease');
    const answer = { effect: 'allow' as const, by: 'me', comment: 'fine \0', args: { amount: 3, note: '\ud800' } };
    await journal.answer(web, claim.run, 1, answer);
    assert.equal((await journal.load(web, claim.run, -1))?.status, 'queued');
    const [again] = await take('w2', [claim.run]);
    assert.deepEqual([again?.epoch, again?.commits, again?.startedAt], [2, 1, claim.startedAt]);
    const { ageMs } = again!;
    assert(ageMs >= leaseMs * 0.5 && ageMs < leaseMs, `its work ages a run, its wait does not; it is ${ageMs} ms old`);
    const record = await journal.load(web, claim.run, -1);
    assert.deepEqual([record?.status, record?.steps[0]?.state], ['running', 'ready']);
    assert.deepEqual(record?.steps[0]?.answer, answer);
    await write(again!, { steps: [step(1, 'started')], worker: 'w2' });
    const started = (await journal.load(web, claim.run, -1))?.steps[0];
    assert.deepEqual([started?.state, started?.answer, started?.epoch], ['started', answer, 2]);
  },

  'a run with several questions waits until all are answered, in any order': async (bench) => {
    const { begin, key, journal, write, take } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    const steps = [step(1, 'awaiting'), step(2, 'awaiting'), step(3, 'awaiting')];
    await write(claim, { status: 'waiting', entries: [assistant('', ['c1', 'c2', 'c3'])], steps });
    for (const n of [3, 1]) {
      await journal.answer(web, claim.run, n, { effect: 'deny', by: `${n}` });
      assert.equal((await journal.load(web, claim.run, -1))?.status, 'waiting');
      assert.deepEqual(await take('w2', [claim.run]), []);
    }
    await journal.answer(web, claim.run, 2, { effect: 'allow', by: '2' });
    assert.equal((await take('w2', [claim.run])).length, 1);
    const record = await journal.load(web, claim.run, -1);
    const answers = record?.steps.map(({ n, state, answer }) => [n, state, answer?.by]);
    assert.deepEqual(answers, [
      [1, 'ready', '1'],
      [2, 'ready', '2'],
      [3, 'ready', '3'],
    ]);
  },

  'a mixed batch runs on, and waits once its allowed calls are done': async ({
    begin,
    key,
    journal,
    write,
    take,
    lapse,
  }) => {
    const web = key();
    const claim = await begin(web, 'one');
    await write(claim, { entries: [assistant('', ['c1', 'c2'])], steps: [step(1, 'started'), step(2, 'awaiting')] });
    assert.equal((await journal.load(web, claim.run, -1))?.status, 'running');
    await write(claim, { status: 'waiting', entries: [result('c1')], steps: [step(1, 'done')] });
    assert.equal((await journal.load(web, claim.run, -1))?.status, 'waiting');
    await lapse();
    assert.deepEqual(await take('w2', [claim.run]), []);
    await journal.answer(web, claim.run, 2, { effect: 'allow', by: 'me' });
    assert.equal((await take('w2', [claim.run]))[0]?.commits, 2);
  },

  'an answer that comes while a mixed batch still runs makes it claimable when it would wait': async (bench) => {
    const { begin, key, journal, write, take } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    await write(claim, { entries: [assistant('', ['c1', 'c2'])], steps: [step(1, 'started'), step(2, 'awaiting')] });
    await journal.answer(web, claim.run, 2, { effect: 'allow', by: 'me' });
    assert.equal((await journal.load(web, claim.run, -1))?.status, 'running');
    assert.deepEqual(await take('w2', [claim.run]), [], 'its worker still has it');
    const waits = await write(claim, { status: 'waiting', entries: [result('c1')], steps: [step(1, 'done')] });
    assert.equal(waits.outcome, 'done');
    const [again] = await take('w2', [claim.run]);
    assert.equal(again?.epoch, 2);
    const record = await journal.load(web, claim.run, -1);
    assert.deepEqual(
      record?.steps.map(({ state }) => state),
      ['done', 'ready'],
    );
  },

  'a question is answered once, by its owner, and only while it waits': async ({
    begin,
    key,
    journal,
    write,
    finish,
  }) => {
    const web = key();
    const refused = hasCode('journal.not_awaiting');
    const yes = { effect: 'allow' as const, by: 'me' };
    const claim = await begin(web, 'one');
    const { run } = claim;
    await write(claim, {
      status: 'waiting',
      entries: [assistant('', ['c1', 'c2', 'c3'])],
      steps: [step(0, 'done', null), step(1, 'awaiting'), step(2, 'awaiting'), step(3, 'done')],
    });
    for (const n of [0, 3, 4, -1]) await assert.rejects(journal.answer(web, run, n, yes), refused);
    await assert.rejects(journal.answer({ ...web, owner: newId() }, run, 1, yes), refused);
    await assert.rejects(journal.answer({ ...web, tenant: newId() }, run, 1, yes), refused);
    await assert.rejects(journal.answer(web, newId(), 1, yes), refused);
    await journal.answer(web, run, 1, { effect: 'deny', by: 'first' });
    await assert.rejects(journal.answer(web, run, 1, yes), refused);
    const record = await journal.load(web, run, -1);
    assert.deepEqual(record?.steps[1]?.answer, { effect: 'deny', by: 'first' });
    const other = key();
    const ended = await begin(other, 'two');
    await write(ended, { entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    await finish(ended);
    await assert.rejects(journal.answer(other, ended.run, 1, yes), refused);
  },

  'of many answers at the same instant one wins (GOV-73)': async ({ begin, key, journal, write }) => {
    const web = key();
    const claim = await begin(web, 'one');
    await write(claim, { status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    const all = Array.from({ length: 10 }, (_, i) =>
      journal.answer(web, claim.run, 1, { effect: 'allow', by: `${i}` }),
    );
    const settled = await Promise.allSettled(all);
    const winners = settled.flatMap(({ status }, i) => (status === 'fulfilled' ? [`${i}`] : []));
    assert.equal(winners.length, 1);
    assert.equal((await journal.load(web, claim.run, -1))?.steps[0]?.answer?.by, winners[0]);
  },

  'messages wait behind a run that waits for a person': async ({ begin, key, journal, write, queue, take, told }) => {
    const web = key();
    const claim = await begin(web, 'one');
    await write(claim, { status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    const second = await queue(web, 'two');
    assert.deepEqual(await take('w2', [second]), []);
    await journal.answer(web, claim.run, 1, { effect: 'allow', by: 'me' });
    const [again] = await take('w2', [claim.run, second]);
    assert.equal(again?.run, claim.run);
    const ended = { status: 'done' as const, outcome: done, entries: [result('c1')], steps: [step(1, 'done')] };
    const committed = await write(again, { ...ended, worker: 'w2' });
    assert(committed.outcome === 'done');
    assert.equal(committed.next?.run, second);
    assert.deepEqual(await told(web), ['user: one', 'assistant: ', 'call: c1', 'result: c1', 'user: two']);
  },
};
