import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createScrub } from '../../src/access/scrub.ts';

const secret = `p@ss'w"rd\\1 密码 end`;

test('a secret is taken out of results, wherever it stands', () => {
  const { result } = createScrub([secret])!();
  expect(result({ text: `a ${secret} b ${secret}`, list: [secret], [secret]: 1 })).toEqual({
    text: 'a *** b ***',
    list: ['***'],
    '***': 1,
  });
});

test('a secret that comes in pieces is taken out of what is shown', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(200), { maxLength: 8 }), fc.string({ maxLength: 40 }), (cuts, around) => {
      const whole = `${around}${secret}${around}${secret}`;
      const scrubber = createScrub([secret])!();
      const places = [...new Set(cuts.map((cut) => cut % whole.length))].sort((a, b) => a - b);
      const pieces = [0, ...places].map((at, i, all) => whole.slice(at, all[i + 1] ?? whole.length));
      const shown = pieces.map((piece) => scrubber.output(piece)).join('');
      expect(shown).not.toContain(secret);
      // What is kept back at the end may only be the beginning of one.
      expect(whole.replaceAll(secret, '***').startsWith(shown)).toBe(true);
    }),
  );
});

test('of a secret of several lines each long line is taken out, as results may be numbered', () => {
  const key = ['-----BEGIN KEY-----', 'MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX', 'short', '-----END KEY-----'].join('\n');
  const { result } = createScrub([key])!();
  expect(result(key)).toBe('***');
  expect(result('  1\tMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX\n  2\tshort')).toBe('  1\t***\n  2\tshort');
});

test('a value that is too short to tell from other text is left alone', () => {
  expect(createScrub(['', 'on', '12345'])).toBeUndefined();
  expect(createScrub(['on', '123456'])!().result('on 123456')).toBe('on ***');
});

/** Few letters, so that parts of it come again in it. */
const repetitive = fc.array(fc.constantFrom('a', 'b'), { maxLength: 12 }).map((letters) => letters.join(''));

test('what is kept back is the longest end that may be the beginning of a secret', () => {
  const values = fc.array(
    repetitive.filter(({ length }) => length >= 6),
    { minLength: 1, maxLength: 3 },
  );
  fc.assert(
    fc.property(values, fc.array(repetitive, { maxLength: 4 }), (secrets, pieces) => {
      const longestFirst = secrets.toSorted((a, b) => b.length - a.length);
      const scrubber = createScrub(secrets)!();
      let held = '';
      for (const piece of pieces) {
        const known = longestFirst.reduce((left, value) => left.replaceAll(value, '***'), held + piece);
        const ends = Array.from(known, (_, i) => known.slice(i));
        held = ends.find((end) => secrets.some((value) => value !== end && value.startsWith(end))) ?? '';
        expect(scrubber.output(piece)).toBe(known.slice(0, known.length - held.length));
      }
    }),
  );
});

test('a long secret of few letters is taken out as a short one is', () => {
  const letters = fc.array(fc.constantFrom('a'.repeat(150), 'b', 'ab'.repeat(80)), { minLength: 2, maxLength: 5 });
  const long = letters.map((parts) => parts.join('')).filter(({ length }) => length > 200);
  fc.assert(
    fc.property(long, fc.array(repetitive, { maxLength: 6 }), (value, around) => {
      const text = around.join(value) + value.slice(1) + value + value.slice(0, -1) + value;
      expect(createScrub([value])!().result(text)).toBe(text.replaceAll(value, '***'));
    }),
  );
});

test('secrets of equal characters cost a time that grows with the text alone', () => {
  const equal = 'a'.repeat(90_000);
  const broken = `${'a'.repeat(5_000)}b${'a'.repeat(5_000)}`;
  const scrubber = createScrub([equal, broken])!();
  const before = performance.now();
  expect(scrubber.output(`${'a'.repeat(60_000)}b`)).toHaveLength(55_000);
  expect(scrubber.result('a'.repeat(80_000).concat('c').repeat(25))).toHaveLength(2_000_025);
  expect(performance.now() - before).toBeLessThan(3000);
});
