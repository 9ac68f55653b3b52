// A process that holds a data directory: prints "ready", then writes rows one by one and prints each acknowledged number.
import { writeSync } from 'node:fs';
import { AgentError } from '../../src/kernel/index.ts';
import { openPglite } from '../../src/store/pglite/open.ts';

const [directory = '', mode = 'hold', template] = process.argv.slice(2);
try {
  const database = await openPglite(directory, {
    template: template === undefined ? undefined : () => Promise.resolve(template),
  });
  writeSync(1, 'ready\n');
  if (mode === 'write') {
    const insert = 'insert into row_of_crash (body) values ($1) returning id';
    for (;;) {
      const [row] = await database.exec('write', insert, ['x'.repeat(500)]);
      writeSync(1, `${row?.[0]}\n`);
    }
  }
  setInterval(() => undefined, 60_000);
} catch (error) {
  writeSync(1, `${error instanceof AgentError ? error.code : String(error)}\n`);
}
