// Journal suite: messages that wait while a run is active, and cancelling.
import assert from 'node:assert/strict';
import { noUsage } from '../kernel/index.ts';
import type { Claim } from '../kernel/index.ts';
import type { Cases } from './journal-bench.ts';
import { assistant, done, newId, result, step } from './journal-bench.ts';

export const queueCases: Cases = {
  'messages during a run are claimed one after another, in order (B11)': async (bench) => {
    const { begin, key, queue, finish, told, journal, take } = bench;
    const web = key();
    let claim: Claim | null = await begin(web, 'm0');
    const runs = [claim.run];
    for (const text of ['m1', 'm2', 'm3', 'm4', 'm5']) runs.push(await queue(web, text));
    assert.deepEqual(await take('w2', runs), [], 'nobody else may claim what waits behind an active run');
    const order: string[] = [];
    while (claim) {
      order.push(claim.run);
      assert.equal(claim.epoch, 1);
      assert.equal(claim.messageSeq, claim.version);
      for (const run of runs) {
        const status = (await journal.load(web, run, -1))?.status;
        const expected: string = order.includes(run) ? (run === claim.run ? 'running' : 'done') : 'queued';
        assert.equal(status, expected);
      }
      claim = await finish(claim, `a${order.length - 1}`);
    }
    assert.deepEqual(order, runs);
    const turns = runs.flatMap((_, i) => [`user: m${i}`, `assistant: a${i}`]);
    assert.deepEqual(await told(web), turns);
    await begin(web, 'idle again');
  },

  'a queued text enters the journal when its run is claimed, never between call and result': async (bench) => {
    const { begin, key, queue, write, told, journal } = bench;
    const web = key();
    const claim = await begin(web, 'go');
    await write(claim, { entries: [assistant('', ['c1', 'c2'])], steps: [step(1, 'started'), step(2, 'started')] });
    const run = await queue(web, 'wait');
    await write(claim, { entries: [result('c2')], steps: [step(2, 'done')] });
    const waiting = await journal.load(web, run, -1);
    assert.deepEqual(waiting?.message, { parts: [{ type: 'text', text: 'wait' }] });
    assert.equal(waiting.startedAt, null);
    assert.deepEqual(waiting.entries, []);
    assert.deepEqual(await told(web), ['user: go', 'assistant: ', 'call: c1', 'call: c2', 'result: c2']);
    const ended = { status: 'done' as const, outcome: done, entries: [result('c1'), assistant('done')] };
    const committed = await write(claim, { ...ended, steps: [step(1, 'done')] });
    assert(committed.outcome === 'done');
    const calls = ['assistant: ', 'call: c1', 'call: c2', 'result: c2', 'result: c1'];
    assert.deepEqual(await told(web), ['user: go', ...calls, 'assistant: done', 'user: wait']);
    const begun = await journal.load(web, run, -1);
    assert.equal(begun?.message, null);
    assert.notEqual(begun.startedAt, null);
  },

  'the end of a run claims the next one in the same commit, for the same worker': async (bench) => {
    const { begin, key, queue, write, journal, entries, lapse, take } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    const run = await queue(web, 'two');
    const committed = await write(claim, { status: 'done', outcome: done, entries: [assistant('ok')], worker: 'w7' });
    assert(committed.outcome === 'done');
    const { next } = committed;
    const all = await entries(web);
    assert.deepEqual([next?.run, next?.epoch, next?.commits, next?.messageSeq, next?.version], [run, 1, 0, 3, 3]);
    assert.deepEqual(next?.message, { parts: [{ type: 'text', text: 'two' }] });
    assert.equal(next?.incarnation, claim.incarnation);
    assert.equal(next?.bytes, all[2]!.bytesTo);
    assert.deepEqual([committed.version, committed.bytes], [2, all[1]!.bytesTo], 'of the commit itself');
    const held = await journal.renew('w7', [run]);
    assert.deepEqual(
      held.filter((lease) => lease.run === run),
      [{ run, epoch: 1, cancelled: false }],
    );
    await lapse();
    assert.equal((await take('w8', [run])).length, 1);
  },

  'a failed and a cancelled run claim the next one too': async ({ begin, key, queue, write }) => {
    const web = key();
    const first = await begin(web, 'one');
    const second = await queue(web, 'two');
    const third = await queue(web, 'three');
    const error = { type: 'error' as const, code: 'x.y', message: 'm', hint: 'h', usage: noUsage, ms: 1 };
    const failed = await write(first, { status: 'failed', outcome: error });
    assert(failed.outcome === 'done');
    assert.equal(failed.next?.run, second);
    const outcome = { ...done, reason: 'cancelled' as const };
    const cancelled = await write(failed.next, { status: 'cancelled', outcome });
    assert(cancelled.outcome === 'done');
    assert.equal(cancelled.next?.run, third);
  },

  'of 50 parallel messages one is claimed, the others follow one by one (MEM-07)': async (bench) => {
    const { submit, key, told, finish } = bench;
    const web = key();
    const all = await Promise.all(Array.from({ length: 50 }, (_, i) => submit(web, `m${i}`)));
    const [first, ...others] = all.filter(({ outcome }) => outcome === 'claimed');
    assert(first?.outcome === 'claimed');
    assert.equal(others.length, 0);
    assert.equal(all.filter(({ outcome }) => outcome === 'queued').length, 49);
    const textOfRun = new Map(all.map(({ run }, i) => [run, `m${i}`]));
    const expected: string[] = [];
    for (let claim: Claim | null = first.claim; claim; claim = await finish(claim)) {
      assert.equal(claim.version, expected.length + 1);
      expected.push(`user: ${textOfRun.get(claim.run)!}`, 'assistant: ok');
    }
    assert.deepEqual(await told(web), expected);
    assert.equal(new Set(expected).size, 51);
  },

  'a queued run that is cancelled ends at once and never enters the journal': async (bench) => {
    const { begin, key, queue, journal, told, finish } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    const second = await queue(web, 'two');
    const third = await queue(web, 'three');
    assert.equal(await journal.cancel(web, second), 'cancelled');
    const record = await journal.load(web, second, -1);
    assert.equal(record?.status, 'cancelled');
    assert.deepEqual([record.outcome?.type, record.startedAt, record.entries], ['run_end', null, []]);
    assert.notEqual(record.endedAt, null);
    const next = await finish(claim);
    assert.equal(next?.run, third);
    assert.equal(await finish(next), null);
    assert.deepEqual(await told(web), ['user: one', 'assistant: ok', 'user: three', 'assistant: ok']);
  },

  'cancelling a running run tells its worker, whose commits still count': async (bench) => {
    const { begin, key, journal, write, told, queue } = bench;
    const web = key();
    const claim = await begin(web, 'one', { worker: 'w-cancel' });
    await queue(web, 'two');
    assert.equal(await journal.cancel(web, claim.run), 'running');
    assert.equal(await journal.cancel(web, claim.run), 'running');
    const held = await journal.renew('w-cancel', [claim.run]);
    assert.deepEqual(
      held.filter(({ run }) => run === claim.run),
      [{ run: claim.run, epoch: 1, cancelled: true }],
    );
    assert.equal((await journal.load(web, claim.run, -1))?.cancelled, true);
    assert.equal(
      (await write(claim, { entries: [assistant('', ['c1'])], steps: [step(1, 'started')] })).outcome,
      'done',
    );
    const outcome = { ...done, reason: 'cancelled' as const };
    const last = { status: 'cancelled' as const, outcome, entries: [result('c1')], steps: [step(1, 'done')] };
    assert.equal((await write(claim, last)).outcome, 'done');
    assert.equal((await write(claim, { entries: [assistant('late')] })).outcome, 'lost');
    assert.deepEqual(await told(web), ['user: one', 'assistant: ', 'call: c1', 'result: c1', 'user: two']);
  },

  'a waiting run that is cancelled is claimed to be ended, and takes no answer': async (bench) => {
    const { begin, key, journal, write, take } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    await write(claim, { status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    assert.equal(await journal.cancel(web, claim.run), 'queued');
    await assert.rejects(journal.answer(web, claim.run, 1, { effect: 'allow', by: 'me' }));
    assert.equal((await write(claim, { entries: [assistant('late')] })).outcome, 'lost');
    const [again] = await take('w2', [claim.run]);
    assert.deepEqual([again?.cancelled, again?.epoch, again?.commits], [true, 2, 1]);
  },

  'a run that is cancelled just before it would wait is claimable, to be ended': async (bench) => {
    const { begin, key, journal, write, take } = bench;
    const web = key();
    const claim = await begin(web, 'one');
    assert.equal(await journal.cancel(web, claim.run), 'running');
    await write(claim, { status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    const [again] = await take('w2', [claim.run]);
    assert.equal(again?.cancelled, true);
  },

  'cancelling what has ended changes nothing': async ({ begin, key, journal, write, finish }) => {
    const web = key();
    const ended = await begin(web, 'one');
    await finish(ended);
    assert.equal(await journal.cancel(web, ended.run), 'done');
    const failed = await begin(web, 'two');
    const error = { type: 'error' as const, code: 'x.y', message: 'm', hint: 'h', usage: noUsage, ms: 1 };
    await write(failed, { status: 'failed', outcome: error });
    assert.equal(await journal.cancel(web, failed.run), 'failed');
    const record = await journal.load(web, failed.run, -1);
    assert.deepEqual(record?.outcome, error);
    assert.equal(record?.cancelled, false);
    const cancelled = await begin(web, 'three');
    await write(cancelled, { status: 'cancelled', outcome: { ...done, reason: 'cancelled' } });
    assert.equal(await journal.cancel(web, cancelled.run), 'cancelled');
    assert.equal(await journal.cancel(web, newId()), undefined);
  },
};
