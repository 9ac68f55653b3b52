import * as z from 'zod';
import { defineTool } from '../kernel/index.ts';

const MAX_ZONES = 100;
/** A formatter takes half a millisecond to make, and a microsecond to use. */
const formats = new Map<string, Intl.DateTimeFormat>();

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
    const format = formatOf(zone ?? '');
    return { utc: now.toISOString(), zone: zone ?? zoneOf(format), local: format.format(now) };
  },
});

/** `''` is the zone of the process. */
function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    try {
      format = new Intl.DateTimeFormat('en-GB', {
        ...(zone && { timeZone: zone }),
        dateStyle: 'full',
        timeStyle: 'long',
      });
    } catch (error) {
      throw new Error(`"${zone}" is not an IANA time zone`, { cause: error });
    }
    if (formats.size >= MAX_ZONES) formats.clear();
    formats.set(zone, format);
  }
  return format;
}

let ownZone: string | undefined;

const zoneOf = (format: Intl.DateTimeFormat): string => (ownZone ??= format.resolvedOptions().timeZone);
