// What the set-up saved: choice and key in one file, <data>/model.json, which is the old one or the new one and never half.
import { lstat, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { openDraft } from '../files/atomic.ts';
import { defineErrors } from '../kernel/errors.ts';
import { known } from './config.ts';
import type { SavedHost } from './hosts.ts';
import { isRecord, parseJson } from './json.ts';

export const setupError = defineErrors('setup', {
  invalid: { status: 400, hint: 'Correct the named field and try again.' },
  busy: { status: 429, hint: 'Wait until it is done; it takes at most 20 seconds.', retryable: true },
  unreadable: { status: 500, hint: 'Set up the model again: the file is written anew.' },
});

const settings = z.object({
  provider: z.string().refine((name) => Object.hasOwn(known, name)),
  model: z.string().min(1),
  baseUrl: z.url({ protocol: /^https?$/ }),
  apiKey: z.string().min(1).optional(),
});

const fileIn = (directory: string) => join(directory, 'model.json');

/** Undefined where nothing was saved. Throws `setup.unreadable`, which shows nothing of the file. */
export async function loadSettings(directory: string): Promise<SavedHost | undefined> {
  let text: string;
  try {
    text = await readFile(fileIn(directory), 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw setupError('unreadable', `${fileIn(directory)} cannot be read (${code}).`, { cause: error });
  }
  const value = parseJson(text);
  const { data } = settings.safeParse(value);
  if (data) return data;
  const what = isRecord(value) ? 'does not name a provider, a base URL and a model' : 'is not JSON';
  throw setupError('unreadable', `${fileIn(directory)} ${what}.`);
}

/** Readable by this user only, on disk when it resolves. */
export async function saveSettings(directory: string, saved: SavedHost): Promise<void> {
  await using draft = await openDraft(directory);
  await draft.write(Buffer.from(`${JSON.stringify(saved, null, 2)}\n`));
  await draft.keepAs(fileIn(directory));
}

export async function removeSettings(directory: string): Promise<void> {
  await rm(fileIn(directory), { force: true });
  await removeDrafts(directory);
}

const MOST_BYTES = 64_000;
const LONGEST_MS = 60 * 60_000;

/** What a crash left half-way to its place: it may hold a key. Large ones are of backups, which may be under way. */
export async function removeDrafts(directory: string): Promise<void> {
  const files = await readdir(directory, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const file of files) {
    if (!file.isFile() || !file.name.endsWith('.draft')) continue;
    const draft = join(directory, file.name);
    const { size, mtimeMs } = await lstat(draft);
    if (size <= MOST_BYTES || mtimeMs < Date.now() - LONGEST_MS) await rm(draft, { force: true });
  }
}
