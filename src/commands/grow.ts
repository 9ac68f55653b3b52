// homard grow: the embedded database moves to PostgreSQL; its server must be stopped.
import { join } from 'node:path';
import { growDatabase } from '../store/grow.ts';
import { openDatabase } from '../store/open.ts';
import { inspectDirectory, toRealPath } from '../store/pglite/directory.ts';
import { careError, parseArguments } from './backup.ts';

export interface GrowPlan {
  /** What follows `grow` on the command line. */
  arguments: string[];
  /** Data directory. */
  directory: string;
}

export async function grow({ arguments: given, directory }: GrowPlan): Promise<void> {
  const { positionals } = parseArguments(given);
  const [url] = positionals;
  const hint = 'homard grow postgres://user:password@host:5432/database';
  if (!url || positionals.length > 1) throw careError('invalid_arguments', 'One database is needed.', { hint });
  if (inspectDirectory(toRealPath(join(directory, 'db'))) === 'fresh') {
    throw careError('invalid_arguments', `There is no embedded database in ${directory}.`, {
      hint: 'HOMARD_DATA names the data directory.',
    });
  }
  const began = performance.now();
  await using source = await openDatabase({ directory });
  await using target = await openDatabase({ directory, url });
  const moved = await growDatabase({
    source,
    target,
    onTable({ name, rows, sha256, resumed }) {
      const before = resumed ? `, ${resumed} of them before` : '';
      console.log(
        `${name.padEnd(14)} ${String(rows).padStart(9)} rows  sha256 ${sha256.slice(0, 12)}  equal on both sides${before}`,
      );
    },
  });
  const rows = moved.reduce((sum, table) => sum + table.rows, 0);
  console.log(`${rows} rows are in PostgreSQL, in ${((performance.now() - began) / 1000).toFixed(1)} s. Now start with

  HOMARD_DATABASE_URL=postgres://...   the database that you named
  HOMARD_DATA=${directory}   as before: files and token are there

${join(directory, 'db')} is as it was; delete it when you are content.`);
}
