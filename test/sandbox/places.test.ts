import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPlaces } from '../../src/sandbox/places.ts';

const signal = new AbortController().signal;

test('SBX-23: more than a user may have wait, in order, while others are let in', async () => {
  const places = createPlaces({ total: 3, perUser: 1, waitMs: 5000 });
  const leaveAnn = await places.enter('ann', { signal });
  const ahead: number[] = [];
  const order: string[] = [];
  const second = places
    .enter('ann', { signal, onWait: (n) => ahead.push(n) })
    .then((leave) => (order.push('second'), leave));
  const third = places
    .enter('ann', { signal, onWait: (n) => ahead.push(n) })
    .then((leave) => (order.push('third'), leave));
  const leaveBob = await places.enter('bob', { signal });
  expect(ahead).toEqual([0, 1]);
  expect(places.waiting()).toBe(2);
  leaveAnn();
  (await second)();
  (await third)();
  expect(order).toEqual(['second', 'third']);
  leaveBob();
  expect(places.waiting()).toBe(0);
});

test('SBX-23: who waited too long is told to come again, with 429', async () => {
  const places = createPlaces({ total: 1, perUser: 1, waitMs: 20 });
  await places.enter('ann', { signal });
  const refusal = expect.objectContaining({ code: 'sandbox.too_many', status: 429, retryable: true });
  await expect(places.enter('bob', { signal })).rejects.toEqual(refusal);
  await expect(places.enter('ann', { signal })).rejects.toEqual(refusal);
  expect(places.waiting()).toBe(0);
});

test('who stops waiting leaves the line', async () => {
  const places = createPlaces({ total: 1, perUser: 1, waitMs: 5000 });
  const leave = await places.enter('ann', { signal });
  const controller = new AbortController();
  const waiting = places.enter('bob', { signal: controller.signal });
  controller.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  leave();
  leave();
  await places.enter('cyd', { signal });
  expect(places.waiting()).toBe(0);
});

test('SBX-23: never more than allowed, whoever comes and goes, and nobody is left waiting for nothing', async () => {
  const step = fc.record({ user: fc.constantFrom('a', 'b', 'c'), leaves: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const places = createPlaces({ total: 3, perUser: 2, waitMs: 60_000 });
      const inside: { user: string; leave: () => void }[] = [];
      const controller = new AbortController();
      let entered = 0;
      const entering: Promise<void>[] = [];
      for (const { user, leaves } of steps) {
        if (leaves) inside.shift()?.leave();
        else {
          entered++;
          const enter = places.enter(user, { signal: controller.signal }).then(
            (leave) => void inside.push({ user, leave }),
            () => undefined,
          );
          entering.push(enter);
        }
        await new Promise((resolve) => setImmediate(resolve));
        expect(inside.length).toBeLessThanOrEqual(3);
        for (const name of ['a', 'b', 'c'])
          expect(inside.filter((one) => one.user === name).length).toBeLessThanOrEqual(2);
      }
      while (inside.length) {
        inside.shift()!.leave();
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(places.waiting()).toBe(0);
      await Promise.all(entering);
      expect(entering.length).toBe(entered);
    }),
    { numRuns: 50 },
  );
});
