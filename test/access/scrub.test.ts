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
