// Data directories for tests. Making an embedded database takes seconds, copying one a fraction: a template is made once
// a machine, and each test gets a copy.
import { constants, cpSync, existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Database } from '../store/database.ts';
import { openPglite } from '../store/pglite/open.ts';

export interface TemporaryDirectory extends AsyncDisposable {
  path: string;
}

export interface TemplateConfig {
  /** Names what `prepare` does; another key gives another template. */
  key?: string;
  /** Fills the template once, for example with the schema. */
  prepare?: (database: Database) => Promise<unknown>;
}

const templates = new Map<string, Promise<string>>();

/** An empty directory of its own, removed with all that is in it on disposal. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), 'homard-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** The path of a closed, empty embedded database, made at the first call of all processes of this user. */
export function preparePgliteTemplate({ key = 'empty', prepare }: TemplateConfig = {}): Promise<string> {
  let template = templates.get(key);
  if (!template) {
    template = makeTemplate(key, prepare);
    templates.set(key, template);
  }
  return template;
}

/** Copies the template to `directory`, which must not exist: the database then opens in well under a second. */
export async function copyTemplate(directory: string, config?: TemplateConfig): Promise<void> {
  const template = await preparePgliteTemplate(config);
  await mkdir(dirname(directory), { recursive: true });
  // The synchronous one copies in native code: a third of the time for a thousand small files.
  cpSync(template, directory, { recursive: true, errorOnExist: true, mode: constants.COPYFILE_FICLONE });
}

async function makeTemplate(key: string, prepare?: TemplateConfig['prepare']): Promise<string> {
  const place = `homard-pglite-${await pgliteVersion()}-${key}-${process.getuid?.() ?? 'user'}`;
  const template = join(tmpdir(), place);
  if (existsSync(join(template, 'PG_VERSION'))) return template;
  await using work = await temporaryDirectory();
  const draft = join(work.path, 'db');
  {
    await using database = await openPglite(draft);
    await prepare?.(database);
  }
  try {
    await rename(draft, template);
  } catch (error) {
    // Another process was first: its template is as good.
    if (!existsSync(join(template, 'PG_VERSION'))) throw error;
  }
  return template;
}

async function pgliteVersion(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  const manifest: unknown = JSON.parse(await readFile(join(dirname(entry), '../package.json'), 'utf8'));
  return String((manifest as { version?: unknown }).version);
}
