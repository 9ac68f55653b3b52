import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Emitted } from '../../src/kernel/index.ts';
import { parseEventId, toEventId } from '../../src/kernel/index.ts';
import type { Plan } from './play.ts';
import { anyPlan, play } from './play.ts';
import { watch } from './rig.ts';

/** What a client shows in the end: a restart makes void what is shown of the open step; live-only events do not count. */
function shown(seen: readonly Emitted[]): string[] {
  const lines: string[] = [];
  let open: { type: string; text: string }[] = [];
  for (const { event, position } of seen) {
    if (event.type === 'step_restart') open = [];
    else if (event.type === 'token' || event.type === 'reasoning') {
      if (open.at(-1)?.type === event.type) open.at(-1)!.text += event.text;
      else open.push({ ...event });
    } else if (position) {
      lines.push(...open.map((part) => JSON.stringify(part)), JSON.stringify(event));
      open = [];
    }
  }
  return [...lines, ...open.map((part) => JSON.stringify(part))];
}

/** All that a client may have seen when it left: up to each event, and up to each character of what was streamed. */
function* departures(seen: readonly Emitted[]): Generator<Emitted[]> {
  for (const [i, { event, position }] of seen.entries()) {
    if (position && (event.type === 'token' || event.type === 'reasoning')) {
      for (let cut = 1; cut < event.text.length; cut++) {
        const k = position.k - event.text.length + cut;
        yield [
          ...seen.slice(0, i),
          { event: { ...event, text: event.text.slice(0, cut) }, position: { ...position, k } },
        ];
      }
    }
    yield seen.slice(0, i + 1);
  }
}

const positionOf = (seen: readonly Emitted[]) => seen.findLast(({ position }) => position)?.position ?? null;

/** Found before: characters that were void without a trace, and a restart that hid the event behind it. */
const examples: [Plan][] = [
  [{ attempts: [{ parts: [{ text: 'ab' }, 'restart'], end: 'fail' }], clients: [[]] }],
  [
    {
      attempts: [
        { parts: [{ text: 'ab' }], end: 'die' },
        { parts: [{ call: 'quick' }], end: 'finish' },
      ],
      clients: [[]],
    },
  ],
];

describe('a client that comes back', () => {
  it('has seen, at the end of any run, what one saw that never left (OBS-07)', async () => {
    const property = fc.asyncProperty(anyPlan, (plan) =>
      play(plan, async ({ run, always, clients, observer }) => {
        const expected = shown(always);
        for (const seen of clients) expect(shown(seen)).toEqual(expected);
        expect(shown(await watch(observer.runner, run))).toEqual(expected);
        for (const before of departures(always)) {
          const rest = await watch(observer.runner, run, positionOf(before));
          expect(shown([...before, ...rest])).toEqual(expected);
        }
      }),
    );
    await fc.assert(property, { numRuns: 250, examples });
  });
});

describe('an event id', () => {
  it('is read back as it was written, for its own run only', () => {
    const position = { commit: 3, epoch: 2, k: 1_000_017 };
    for (const run of ['r', 'a:b', 'a:1:2:3', '中文']) {
      expect(parseEventId(run, toEventId(run, position))).toEqual(position);
      expect(parseEventId(`${run}x`, toEventId(run, position))).toBeUndefined();
    }
  });

  it.each(['', 'r', 'r:1:2', 'r:1:2:x', 'r:-1:2:3', 'r:1:2:3:4', 'r:1e3:2:3', 'r:1:2:9999999999999999'])(
    'is refused when it is %j',
    (id) => {
      expect(parseEventId('r', id)).toBeUndefined();
    },
  );
});
