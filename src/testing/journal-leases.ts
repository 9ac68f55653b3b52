// Journal suite: leases, fencing, repeated commits and taking over.
import assert from 'node:assert/strict';
import type { Cases } from './journal-bench.ts';
import { assistant, done, newId, result, step } from './journal-bench.ts';

export const leaseCases: Cases = {
  'nobody claims a run whose lease lasts': async ({ begin, key, take, wait, leaseMs, write, journal }) => {
    const claim = await begin(key(), 'one', { worker: 'w-lasts' });
    assert.deepEqual(await take('w2', [claim.run]), []);
    for (let i = 0; i < 3; i++) {
      await wait(leaseMs * 0.6);
      if (i === 1) await write(claim, { entries: [assistant('a commit renews')], worker: 'w-lasts' });
      else await journal.renew('w-lasts', [claim.run]);
      assert.deepEqual(await take('w2', [claim.run]), []);
    }
  },

  'a worker does not take over what it holds, however late its renewals are; others do': async (bench) => {
    const { begin, key, journal, lapse } = bench;
    const claim = await begin(key(), 'one', { worker: 'w-late' });
    await lapse();
    const mine = async (worker: string, held: string[]) =>
      (await journal.claim(worker, { limit: 100, held })).filter(({ run }) => run === claim.run);
    assert.deepEqual(await mine('w-late', [claim.run]), []);
    assert.equal((await journal.renew('w-late', [claim.run])).length, 1);
    assert.deepEqual(await mine('w2', [claim.run]), []);
    await lapse();
    assert.equal((await mine('w2', [claim.run])).length, 1);
    await lapse();
    assert.equal((await mine('w-late', [claim.run])).length, 1);
  },

  'a lease that ran out is taken over with the next epoch': async ({
    begin,
    key,
    lapse,
    take,
    write,
    leaseMs,
    entries,
  }) => {
    const web = key();
    const request = { agent: 'a', model: 'm', extra: ['x'] };
    const claim = await begin(web, 'one', { request });
    await write(claim, { entries: [assistant('', ['c1'])], steps: [step(1, 'started')] });
    await lapse();
    const [second, ...more] = await take('w2', [claim.run]);
    assert.equal(more.length, 0);
    const { ageMs, bytes, ...rest } = second!;
    const { run, startedAt, incarnation } = claim;
    const known = { ...web, run, startedAt, incarnation, request, messageSeq: 1, message: null, cancelled: false };
    assert.deepEqual(rest, { ...known, epoch: 2, commits: 1, version: 2, attempts: 1 });
    assert.equal(bytes, (await entries(web))[1]!.bytesTo);
    assert(ageMs >= leaseMs, `age goes on over a take-over, but is ${ageMs}`);
    await lapse();
    const [third] = await take('w3', [run]);
    assert.deepEqual([claim.attempts, second!.attempts, third!.attempts], [0, 1, 2]);
    await write(third!, { worker: 'w3' });
    await lapse();
    assert.equal((await take('w4', [run]))[0]?.attempts, 1, 'a commit is progress');
  },

  "a zombie's commit is lost and changes nothing (GOV-77)": async (bench) => {
    const { begin, key, lapse, take, write, told, journal, queue } = bench;
    const web = key();
    const zombie = await begin(web, 'one');
    await write(zombie, { entries: [assistant('', ['c1'])], steps: [step(1, 'started')] });
    await queue(web, 'two');
    await lapse();
    const [claim] = await take('w2', [zombie.run]);
    const before = [await told(web), await journal.load(web, zombie.run, -1)];
    const late = { entries: [result('c1', 'false')], steps: [step(1, 'done')] };
    assert.deepEqual(await write(zombie, late), { outcome: 'lost' });
    assert.deepEqual(await write(zombie, { ...late, status: 'done', outcome: done }), { outcome: 'lost' });
    assert.deepEqual(await write(zombie, { status: 'waiting' }), { outcome: 'lost' });
    assert.deepEqual([await told(web), await journal.load(web, zombie.run, -1)], before);
    const true1 = { entries: [result('c1', 'true')], steps: [step(1, 'done')], worker: 'w2' };
    assert.equal((await write(claim!, true1)).outcome, 'done');
    assert.deepEqual(await write(zombie, late), { outcome: 'lost' });
    const [record] = [await journal.load(web, zombie.run, 1)];
    assert.deepEqual(
      record?.entries.map(({ body }) => 'result' in body && body.result),
      ['true'],
    );
    assert.deepEqual([record.epoch, record.commits, record.steps[0]?.epoch], [2, 2, 2]);
  },

  'a commit that is repeated is applied once': async ({ begin, key, write, entries, journal, queue, told }) => {
    const web = key();
    const claim = await begin(web, 'one');
    const first = { ...claim };
    const change = { entries: [assistant('', ['c1'])], steps: [step(1, 'started')] };
    const written = await write(claim, change);
    const again = await write(first, change);
    assert.deepEqual(again, { ...written, outcome: 'repeated' });
    assert.equal((await entries(web)).length, 2);
    const last = { status: 'done' as const, outcome: done, entries: [result('c1')], steps: [step(1, 'done')] };
    const before = { ...claim };
    const second = await queue(web, 'two');
    await write(claim, last);
    assert.equal((await write(before, last)).outcome, 'repeated');
    assert.equal((await write({ ...claim, commits: 0 }, change)).outcome, 'lost', 'older than the last one');
    assert.equal((await write({ ...claim, commits: 9 }, change)).outcome, 'lost', 'from the future');
    assert.deepEqual(await told(web), ['user: one', 'assistant: ', 'call: c1', 'result: c1', 'user: two']);
    assert.equal((await journal.load(web, second, -1))?.status, 'running');
  },

  'a commit that is not the next one is lost': async ({ begin, key, write, told }) => {
    const web = key();
    const claim = await begin(web, 'one');
    await write(claim, { entries: [assistant('a')] });
    await write(claim, { entries: [assistant('b')] });
    for (const commits of [0, 3, 99]) {
      assert.deepEqual(await write({ ...claim, commits }, { entries: [assistant('wrong')] }), { outcome: 'lost' });
    }
    await write(claim, { entries: [assistant('c')] });
    assert.deepEqual(await told(web), ['user: one', 'assistant: a', 'assistant: b', 'assistant: c']);
  },

  'a commit of a run that nobody knows is lost': async ({ begin, key, write }) => {
    const claim = await begin(key(), 'one');
    assert.deepEqual(await write({ ...claim, run: newId() }), { outcome: 'lost' });
  },

  'a run that has ended takes no commit and is never claimed': async ({
    begin,
    key,
    write,
    lapse,
    take,
    finish,
    told,
  }) => {
    const web = key();
    const claim = await begin(web, 'one');
    await finish(claim);
    assert.equal((await write(claim, { entries: [assistant('more')] })).outcome, 'lost');
    await lapse();
    assert.deepEqual(await take('w2', [claim.run]), []);
    assert.deepEqual(await told(web), ['user: one', 'assistant: ok']);
  },

  'release lets another worker go on at once': async ({ begin, key, journal, take }) => {
    const worker = newId();
    const claims = [await begin(key(), 'one', { worker }), await begin(key(), 'two', { worker })];
    const other = await begin(key(), 'three', { worker: newId() });
    await journal.release(worker);
    const runs = claims.map(({ run }) => run);
    assert.deepEqual(await journal.renew(worker, runs), [], 'what was given up is not taken back');
    const taken = await take('w2', [...runs, other.run]);
    assert.deepEqual(new Set(taken.map(({ run }) => run)), new Set(runs));
    assert(taken.every(({ epoch, attempts }) => epoch === 2 && attempts === 0));
  },

  'only the runs that are named are renewed': async ({ begin, key, journal, wait, leaseMs, take }) => {
    const worker = newId();
    const kept = await begin(key(), 'kept', { worker });
    const forgotten = await begin(key(), 'forgotten', { worker });
    for (let i = 0; i < 2; i++) {
      await wait(leaseMs * 0.6);
      const leases = await journal.renew(worker, [kept.run]);
      assert.deepEqual(leases, [{ run: kept.run, epoch: 1, cancelled: false }]);
    }
    const taken = await take('w2', [kept.run, forgotten.run]);
    assert.deepEqual(
      taken.map(({ run }) => run),
      [forgotten.run],
    );
  },

  'renew tells which runs are still held': async ({ begin, key, journal, lapse, take, finish, write }) => {
    const worker = newId();
    const held = await begin(key(), 'held', { worker });
    const lost = await begin(key(), 'lost', { worker });
    const ended = await begin(key(), 'ended', { worker });
    const asks = await begin(key(), 'asks', { worker });
    const cancelKey = key();
    const cancelled = await begin(cancelKey, 'cancelled', { worker });
    await finish(ended);
    await write(asks, { worker, status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
    await lapse();
    await write(held, { worker });
    await write(cancelled, { worker });
    assert.equal((await take('w2', [lost.run, held.run])).length, 1);
    await journal.cancel(cancelKey, cancelled.run);
    const all = [held, lost, ended, asks, cancelled].map(({ run }) => run);
    const leases = new Map((await journal.renew(worker, all)).map((lease) => [lease.run, lease]));
    assert.deepEqual(leases.get(held.run), { run: held.run, epoch: 1, cancelled: false });
    assert.deepEqual(leases.get(cancelled.run), { run: cancelled.run, epoch: 1, cancelled: true });
    assert.equal(leases.size, 2);
  },

  'a commit after the lease ran out counts while nobody took over': async ({ begin, key, lapse, write, take }) => {
    const claim = await begin(key(), 'one');
    await lapse();
    assert.equal((await write(claim, { entries: [assistant('slow')] })).outcome, 'done');
    assert.deepEqual(await take('w2', [claim.run]), []);
  },

  'claim takes no more than it is asked for': async ({ begin, key, journal, write, lapse, take }) => {
    const runs: string[] = [];
    for (let i = 0; i < 3; i++) {
      const web = key();
      const asks = await begin(web, 'asks');
      await write(asks, { status: 'waiting', entries: [assistant('', ['c1'])], steps: [step(1, 'awaiting')] });
      await journal.answer(web, asks.run, 1, { effect: 'allow', by: 'me' });
      runs.push(asks.run, (await begin(key(), 'dies')).run);
    }
    await lapse();
    const first = await journal.claim('w2', { limit: 2, held: [] });
    assert(first.length <= 2, `${first.length} claims instead of 2`);
    const rest = await take('w2', runs);
    assert.equal(rest.length + first.filter(({ run }) => runs.includes(run)).length, runs.length);
  },

  'two workers that claim from one pool get each run once': async ({ begin, key, journal, lapse, finish }) => {
    const runs = new Set<string>();
    for (let i = 0; i < 20; i++) runs.add((await begin(key(), `m${i}`)).run);
    await lapse();
    const taken: string[] = [];
    const work = async (worker: string) => {
      for (;;) {
        const claims = await journal.claim(worker, { limit: 3, held: [] });
        if (!claims.length) return;
        for (const claim of claims) {
          if (!runs.has(claim.run)) continue;
          taken.push(claim.run);
          assert.equal(claim.epoch, 2);
          await finish(claim);
        }
      }
    };
    await Promise.all([work('w2'), work('w3')]);
    // Rows locked by one worker are skipped by the other, so both may see nothing free once; who comes again gets them.
    await work('w4');
    assert.equal(taken.length, 20);
    assert.deepEqual(new Set(taken), runs);
  },
};
