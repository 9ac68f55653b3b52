// Where the server of a data directory listens, for the other commands of the same machine: <data>/server.json.
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { openDraft } from './files/atomic.ts';

const serverFile = z.object({ pid: z.int(), address: z.url({ protocol: /^https?$/ }) });
export type ServerFile = z.infer<typeof serverFile>;

const fileIn = (directory: string) => join(directory, 'server.json');

export async function saveServerFile(directory: string, server: ServerFile): Promise<void> {
  await using draft = await openDraft(directory);
  await draft.write(Buffer.from(`${JSON.stringify(server)}\n`));
  await draft.keepAs(fileIn(directory));
}

/** Undefined where no server runs: none was started, or its process is gone. */
export async function loadServerFile(directory: string): Promise<ServerFile | undefined> {
  const text = await readFile(fileIn(directory), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}';
    throw error;
  });
  const { success, data } = serverFile.safeParse(toJson(text));
  return success && isAlive(data.pid) ? data : undefined;
}

/** Only this process's own: another one may have come after it. */
export async function removeServerFile(directory: string): Promise<void> {
  const found = await loadServerFile(directory);
  if (found?.pid === process.pid) await rm(fileIn(directory), { force: true });
}

function toJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // not written by a server
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // it lives, as another user
  }
}
