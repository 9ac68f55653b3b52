import * as z from 'zod';
import { defineTool } from '../kernel/index.ts';

export const currentTime = defineTool({
  name: 'current_time',
  title: 'Current time',
  icon: 'clock',
  description:
    'The current date, weekday and time. Give an IANA time zone such as "Asia/Shanghai"; default: the server\'s.',
  parameters: z.object({ zone: z.string().max(100).optional().describe('IANA time zone') }),
  effect: 'read',
  run({ zone }) {
    const now = new Date();
    const timeZone = zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
    let format: Intl.DateTimeFormat;
    try {
      format = new Intl.DateTimeFormat('en-GB', { timeZone, dateStyle: 'full', timeStyle: 'long' });
    } catch (error) {
      throw new Error(`"${timeZone}" is not an IANA time zone`, { cause: error });
    }
    return { utc: now.toISOString(), zone: timeZone, local: format.format(now) };
  },
});
