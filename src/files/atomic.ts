// A file that is either not there or whole: written beside its place, flushed, then renamed.
import { mkdir, open, rm, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

export interface Draft extends AsyncDisposable {
  write(chunk: Uint8Array): Promise<void>;
  /** Flushes it and puts it there, over whatever is there; on the same file system. What is not kept is removed on disposal. */
  keepAs(path: string): Promise<void>;
}

/** Opens an empty draft in `folder`, which is made where it is missing. Only the owner of the process may read it. */
export async function openDraft(folder: string): Promise<Draft> {
  await makeFolder(folder);
  const draft = join(folder, `${crypto.randomUUID()}.draft`);
  const file = await open(draft, 'wx', 0o600);
  let isOpen = true;
  const close = async () => {
    if (isOpen) await file.close();
    isOpen = false;
  };
  return {
    async write(chunk) {
      for (let at = 0; at < chunk.byteLength;) at += (await file.write(chunk, at)).bytesWritten;
    },
    async keepAs(path) {
      await file.sync();
      await close();
      await makeFolder(dirname(path));
      await rename(draft, path);
      await flush(dirname(path));
    },
    async [Symbol.asyncDispose]() {
      await close();
      await rm(draft, { force: true });
    },
  };
}

/** With the entries of new folders on disk, too. */
async function makeFolder(folder: string): Promise<void> {
  const path = resolve(folder);
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) await flush(dirname(made));
}

/** The names in a folder are on disk. Some systems cannot open folders: there the rename has to do. */
async function flush(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
