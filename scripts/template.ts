// Packs an empty embedded database with the schema, of which first starts get a copy: see src/store/pglite/template.ts.
// One that is there already is right, for its name says what it is made of; it only becomes younger than the schema's files.
import { existsSync, globSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { migrate } from '../src/store/migrations/index.ts';
import { openPglite } from '../src/store/pglite/open.ts';
import { packTemplate, templatePath } from '../src/store/pglite/template.ts';

const file = await templatePath();
if (existsSync(file)) utimesSync(file, new Date(), new Date());
else await makeTemplate();

async function makeTemplate(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'homard-template-'));
  try {
    const directory = join(folder, 'db');
    const database = await openPglite(directory);
    await migrate(database.kysely);
    await database[Symbol.asyncDispose]();
    mkdirSync(dirname(file), { recursive: true });
    packTemplate(directory, file);
    const old = globSync('pglite-*.template', { cwd: dirname(file) }).filter((name) => name !== basename(file));
    for (const name of old) rmSync(join(dirname(file), name), { force: true });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
