// Streams that nobody wrote: well formed, but mixed and cut at random. Every reader must agree on them.
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { cutEverywhere } from './streams/cuts.ts';
import { parse, theirReading } from './streams/reading.ts';
import { calls, delta, toBody } from './streams.ts';

/** Where to cut and what to take next: numbers that are read over and over. */
const choices = fc.array(fc.nat(1000), { minLength: 1, maxLength: 30 });
const call = fc.record({
  name: fc.constantFrom('time', 'weather', 'time_zone'),
  args: fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
});
const answer = fc.record({
  text: fc.string({ unit: 'binary', maxLength: 40 }),
  reasoning: fc.string({ unit: 'grapheme', maxLength: 40 }),
  made: fc.array(call, { maxLength: 3 }),
  isNamedAgain: fc.boolean(),
  laterId: fc.constantFrom(undefined, '', null, 'same'),
  finish: fc.constantFrom('stop', 'tool_calls', 'length', 'content_filter'),
  usage: fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat() }),
  choices,
});
type Answer = (typeof answer extends fc.Arbitrary<infer T> ? T : never) & object;

function createChoice(choices: readonly number[]): (below: number) => number {
  let at = 0;
  return (below) => choices[at++ % choices.length]! % below;
}

function split(units: readonly string[], choose: (below: number) => number): string[] {
  const pieces: string[] = [];
  for (let from = 0; from < units.length;) {
    const size = 1 + choose(7);
    pieces.push(units.slice(from, from + size).join(''));
    from += size;
  }
  return pieces;
}

function toChunks({ text, reasoning, made, isNamedAgain, laterId, choices }: Answer): object[] {
  const choose = createChoice(choices);
  const queues = [
    split(Array.from(reasoning), choose).map((reasoning_content) => delta({ reasoning_content, content: null })),
    split(Array.from(text), choose).map((content) => delta({ content })),
    ...made.map(({ name, args }, index) => {
      const id = `call_${index}`;
      const later = laterId === 'same' ? id : laterId;
      // Cut anywhere, also inside a character.
      return split(JSON.stringify(args).split(''), choose).map((piece, i) =>
        i === 0
          ? calls({ index, id, type: 'function', function: { name, arguments: piece } })
          : calls({ index, id: later, function: { ...(isNamedAgain && { name }), arguments: piece } }),
      );
    }),
  ];
  const chunks: object[] = [];
  let open = 1;
  for (;;) {
    // Calls begin in order.
    const picked = queues[choose(Math.min(open + 1, queues.length))]!;
    const queue = picked.length ? picked : queues.find(({ length }) => length);
    if (!queue) break;
    open = Math.max(open, queues.indexOf(queue));
    chunks.push(queue.shift()!);
  }
  return chunks;
}

it('a stream that is well formed is read alike by everybody', async () => {
  await fc.assert(
    fc.asyncProperty(answer, async (made) => {
      const usage = { ...made.usage, prompt_tokens_details: {}, total_tokens: 1 };
      const body = toBody([...toChunks(made), delta({}, made.finish), { choices: [], usage }]);
      const [chunks] = cutEverywhere(Buffer.from(body)).slice(1);
      const { lines } = await parse(body, chunks!);
      expect(await theirReading('compatible', body, chunks!)).toEqual(lines);
      expect(await theirReading('deepseek', body, chunks!)).toEqual(lines);
    }),
    { numRuns: 100 },
  );
});
