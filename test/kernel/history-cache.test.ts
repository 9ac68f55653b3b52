import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultWindow, project, windowStart } from '../../src/kernel/index.ts';
import { createHistoryCache } from '../../src/kernel/history-cache.ts';
import { createRig, owner, submission, web } from './rig.ts';
import { anything, call, say, scripted } from './scripted.ts';
import { defineTool } from '../../src/kernel/index.ts';

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  parameters: anything,
  schema: {},
  effect: 'read',
  run: () => 'seen',
});

describe('the cache of windows', () => {
  it('never changes what a model is asked, whichever of two processes a conversation comes to', async () => {
    const window = { ...defaultWindow, messages: 8 };
    const property = fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(1), fc.nat(1)), { minLength: 4, maxLength: 16 }),
      async (turns) => {
        const rig = createRig();
        const models = [0, 1].map(() =>
          scripted(...Array.from({ length: 60 }, (_, i) => (i % 3 ? [say('ok')] : [call('a', 'look')]))),
        );
        const workers = models.map((model) => rig.worker({ model, tools: [look], assembly: { window } }));
        for (const [which, conversation] of turns) {
          const key = `c${conversation}`;
          const before = models[which]!.requests.length;
          const viewer = { on: () => undefined, signal: new AbortController().signal };
          const sent = submission(`turn ${which}`, { conversation: key });
          await (
            await workers[which]!.runner.submit(sent, viewer)
          ).watched;
          const all = await rig.journal.history({ ...web, conversation: key }, { seq: 0, bytes: 0 });
          for (const [i, { messages }] of models[which]!.requests.slice(before).entries()) {
            const own = all.filter((entry) => entry.run === sent.run && entry.commit > 2 * i); // a tool round is two commits
            expect(messages).toEqual(project(all.slice(0, all.length - own.length), window));
          }
        }
        for (const worker of workers) await worker[Symbol.asyncDispose]();
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });

  it('holds no more than it may, forgets what is idle, and knows another conversation of the same name', async () => {
    const rig = createRig();
    await using worker = rig.worker({ model: scripted([say('x'.repeat(1000))]) });
    await (
      await worker.runner.submit(submission('hi'), { on: () => undefined, signal: new AbortController().signal })
    ).watched;
    const entries = await rig.entries();
    const { bytesTo: bytes } = entries.at(-1)!;
    const start = windowStart({ seq: 2, bytes }, defaultWindow);
    const cache = createHistoryCache({ limitBytes: 2.5 * (bytes + 2 * 2000), idleMs: 60_000 });
    const key = (conversation: string) => ({ ...owner, conversation });
    const claim = (conversation: string, incarnation = 'one') => ({
      ...key(conversation),
      incarnation,
      version: 3,
      run: 'r',
      epoch: 1,
      commits: 0,
      request: { agent: '', model: '' },
      bytes,
      messageSeq: 3,
      startedAt: '',
      ageMs: 0,
      attempts: 0,
      cancelled: false,
      message: null,
    });
    for (const name of ['a', 'b', 'c']) cache.put(key(name), { incarnation: 'one', version: 2, bytes, start, entries });
    expect(['a', 'b', 'c'].map((name) => cache.take(claim(name), start)?.length)).toEqual([undefined, 2, 2]);
    cache.put(key('d'), { incarnation: 'one', version: 2, bytes, start, entries });
    expect(cache.take(claim('d', 'another'), start)).toBeUndefined();
    const forgetful = createHistoryCache({ limitBytes: 1e6, idleMs: 20 });
    for (const name of ['a', 'b']) forgetful.put(key(name), { incarnation: 'one', version: 2, bytes, start, entries });
    forgetful.trim();
    expect(forgetful.take(claim('a'), start)).toHaveLength(2);
    await sleep(30);
    forgetful.trim();
    expect(forgetful.take(claim('b'), start)).toBeUndefined();
  });
});
