// homard restore: a backup to an empty place, or with --replace over an embedded database, which is kept aside.
import { resolve } from 'node:path';
import { restoreArchive } from '../store/restore.ts';
import { careError, parseArguments } from './backup.ts';

export interface RestorePlan {
  /** What follows `restore` on the command line. */
  arguments: string[];
  /** Data directory. */
  directory: string;
  databaseUrl: string | undefined;
}

export async function restore({ arguments: given, directory, databaseUrl }: RestorePlan): Promise<void> {
  const { values, positionals } = parseArguments(given, { replace: { type: 'boolean' } });
  const [file] = positionals;
  if (file === undefined || positionals.length > 1) {
    throw careError('invalid_arguments', 'One file is needed.', { hint: 'homard restore <file> [--replace]' });
  }
  const isReplacing = values.replace === true;
  if (isReplacing && databaseUrl) {
    throw careError('invalid_arguments', '--replace is for the embedded database.', {
      hint: 'Make an empty database in PostgreSQL, name it in HOMARD_DATABASE_URL, and restore into that.',
    });
  }
  const began = performance.now();
  const restored = await restoreArchive({ file: resolve(file), directory, url: databaseUrl, isReplacing });
  const { header, total, aside, hasSecrets } = restored;
  for (const { name, rows } of header.tables) {
    console.log(
      `${name.padEnd(14)} ${String(rows).padStart(9)} rows  sha256 ${total.tables[name]!.sha256.slice(0, 12)}  equal`,
    );
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    `The backup of ${header.createdAt} (Homard ${header.version}) is restored, in ${seconds} s, with ${total.files} files.`,
  );
  if (aside) console.log(`What was there before is in ${aside}.`);
  if (hasSecrets) console.log('Token and keys are those of the backup.');
}
