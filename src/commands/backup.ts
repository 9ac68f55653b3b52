// homard backup: one file with everything, from the running server or, where there is none, from the database itself.
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { AgentError, defineErrors, messageOf } from '../kernel/index.ts';
import { manualName, packArchive, saveBackup } from '../store/backup-file.ts';
import { openDatabase } from '../store/open.ts';
import { inspectDirectory, toRealPath } from '../store/pglite/directory.ts';

export const careError = defineErrors('care', {
  invalid_arguments: { status: 400, hint: 'See "homard --help".' },
  server_unknown: {
    status: 500,
    hint: 'Another process has the database. Stop it, or start it with "homard start", which says where it listens.',
  },
  server_refused: { status: 502, hint: 'Look at the log of the server; or stop it, and make the backup then.' },
});

export interface BackupPlan {
  /** What follows `backup` on the command line. */
  arguments: string[];
  /** Data directory. */
  directory: string;
  databaseUrl: string | undefined;
  version: string;
  /** The server that runs on this data directory, if one says so. */
  findServer: () => Promise<{ address: string; token: string | undefined } | undefined>;
}

export async function backup(plan: BackupPlan): Promise<void> {
  const { values, positionals } = parseArguments(plan.arguments, { 'with-secrets': { type: 'boolean' } });
  const path = resolve(positionals[0] ?? join(process.cwd(), manualName(new Date())));
  const hasSecrets = values['with-secrets'] === true;
  if (!plan.databaseUrl && inspectDirectory(toRealPath(join(plan.directory, 'db'))) === 'fresh') {
    throw careError('invalid_arguments', `There is no database in ${plan.directory}.`, {
      hint: 'HOMARD_DATA names the data directory, HOMARD_DATABASE_URL a PostgreSQL.',
    });
  }
  const began = performance.now();
  const { header, total, bytes } = await saveFrom(plan, { path, hasSecrets });
  const rows = header.tables.reduce((sum, table) => sum + table.rows, 0);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`${path}: ${rows} rows and ${total.files} files, ${toSize(bytes)}, checked, in ${seconds} s.`);
  if (total.missingFiles) {
    console.warn(
      `Warning: ${total.missingFiles} files are not in ${join(plan.directory, 'files')}, so not in the backup.`,
    );
  }
  if (!hasSecrets) console.log('Token and keys are not in it: --with-secrets puts them there.');
}

async function saveFrom(plan: BackupPlan, { path, hasSecrets }: { path: string; hasSecrets: boolean }) {
  const { directory, databaseUrl, version } = plan;
  try {
    await using database = await openDatabase({ directory, url: databaseUrl });
    return await saveBackup(await packArchive(database, { directory, version, hasSecrets, isAlone: true }), path);
  } catch (error) {
    // The lock proves that a server lives; who it is it told itself.
    if (!(error instanceof AgentError) || error.code !== 'store.locked') throw error;
    const server = await plan.findServer();
    if (!server) throw careError('server_unknown', `${error.message} It does not say where it listens.`);
    return await saveBackup(await askServer(server, hasSecrets), path);
  }
}

async function askServer(
  { address, token }: { address: string; token: string | undefined },
  hasSecrets: boolean,
): Promise<ReadableStream<Uint8Array>> {
  const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }) };
  const response = await fetch(`${address}/backup?secrets=${hasSecrets ? 1 : 0}`, { method: 'POST', headers }).catch(
    (error: unknown) => {
      throw careError('server_refused', `The server at ${address} cannot be reached: ${messageOf(error)}`, {
        cause: error,
      });
    },
  );
  if (response.ok && response.body) return response.body;
  throw careError('server_refused', `The server at ${address} refused: ${(await response.text()).slice(0, 300)}`);
}

export function parseArguments(given: string[], options: NonNullable<Parameters<typeof parseArgs>[0]>['options'] = {}) {
  try {
    return parseArgs({ args: given, allowPositionals: true, options });
  } catch (error) {
    throw careError('invalid_arguments', messageOf(error).split('. ')[0] ?? '', { cause: error });
  }
}

export function toSize(bytes: number): string {
  if (bytes < 1_000_000) return `${Math.ceil(bytes / 1000)} kB`;
  return bytes < 1_000_000_000 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
