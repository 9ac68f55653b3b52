// A process that moves a data directory to PostgreSQL and prints a line before each batch; a test kills it.
import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { growDatabase } from '../../src/store/grow.ts';
import { openDatabase } from '../../src/store/open.ts';
import { openPglite } from '../../src/store/pglite/open.ts';

const [directory = '', url = ''] = process.argv.slice(2);
const source = await openPglite(join(directory, 'db'));
const target = await openDatabase({ directory, url });
const began = performance.now();
await growDatabase({
  source,
  target,
  onTable: ({ name }) => void writeSync(1, `${name}\n`),
  onBatch: ({ name }) => void writeSync(1, `${name} batch\n`),
});
writeSync(1, `moved ${Math.round(performance.now() - began)}\n`);
await source[Symbol.asyncDispose]();
await target[Symbol.asyncDispose]();
