import { describe, expect, it } from 'vitest';
import { currentTime } from '../../src/tools/clock.ts';

const run = currentTime.run as unknown as (args: { zone?: string }, context: object) => unknown;
const look = (args: { zone?: string }) => run(args, {}) as { zone: string; local: string; utc: string };

describe('the clock', () => {
  it('tells the time of any zone, and its own where none is given', () => {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    expect(look({})).toMatchObject({ zone: own });
    expect(look({ zone: 'Asia/Shanghai' })).toMatchObject({
      zone: 'Asia/Shanghai',
      local: expect.stringMatching(/GMT\+8|CST/),
    });
    expect(look({ zone: 'America/New_York' }).local).not.toBe(look({ zone: 'Asia/Shanghai' }).local);
    expect(Date.parse(look({}).utc)).toBeGreaterThan(Date.now() - 5000);
  });

  it('says what is no zone, also the second time, and takes more zones than it keeps', () => {
    for (let i = 0; i < 2; i++) expect(() => look({ zone: 'Mars/Base' })).toThrow('not an IANA time zone');
    for (const zone of Intl.supportedValuesOf('timeZone').slice(0, 150)) expect(look({ zone }).zone).toBe(zone);
  });
});
