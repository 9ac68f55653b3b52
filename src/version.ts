import { readFileSync } from 'node:fs';

/** Of the package, from its manifest. */
export const version = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
