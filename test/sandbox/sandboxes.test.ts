import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createFolders } from '../../src/sandbox/folders.ts';
import type { Backend } from '../../src/sandbox/sandbox.ts';
import { createSandboxes } from '../../src/sandbox/sandboxes.ts';

const log = { warn: () => undefined, error: () => undefined };
const capabilities: Backend['capabilities'] = {
  isolation: 'container',
  hasPrograms: false,
  hasNetwork: false,
  keepsBackground: true,
  killsAll: true,
  memoryLimit: 'total',
  diskLimit: 'total',
  hasProcessLimit: true,
};

/** A server that was killed while a run had files. */
async function dead(directory: string, conversation: string): Promise<void> {
  const folders = await createFolders(directory, { hasUser: false, isAlone: false, log });
  const slot = await folders.makeSlot();
  const workspace = await folders.take(slot, { tenant: 't', owner: 'ann', conversation });
  await writeFile(join(workspace!.root, 'a.txt'), 'kept');
  const owner = join(directory, 'slots', slot.id, 'owner.json');
  await writeFile(owner, JSON.stringify({ ...(JSON.parse(await readFile(owner, 'utf8')) as object), pid: 0 }));
}

test('SBX-13: containers of dead servers are removed before their files are taken, at the start and later', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'homard-sandboxes-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const folders = await createFolders(directory, { hasUser: false, isAlone: false, log });
  const found: unknown[] = [];
  let conversation = 'first';
  const backend: Backend = {
    kind: 'docker',
    capabilities,
    description: '',
    advice: '',
    opensEmpty: false,
    open: () => Promise.resolve({ exec: () => Promise.reject(new Error('unused')), close: () => Promise.resolve() }),
    async reap() {
      found.push(await folders.find({ tenant: 't', owner: 'ann', conversation }));
      return 0;
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  await dead(directory, conversation);
  const places = { isAlone: false, perUser: 1, total: 1, waitMs: 100, warm: 0 };
  const sizes = { fileBytes: 1e6, diskBytes: 1e6 };
  await using sandboxes = await createSandboxes({ backend, directory, ...places, ...sizes, equipment: {}, log });
  expect(new Set(found)).toEqual(new Set(['taken']));
  conversation = 'second';
  await dead(directory, conversation);
  found.length = 0;
  const leave = sandboxes.expect('r', {});
  const key = { tenant: 't', owner: 'ann', conversation, run: 'r' };
  const { files } = await sandboxes.of(key, { signal: new AbortController().signal });
  expect(Buffer.from(await files.read('a.txt')).toString()).toBe('kept');
  expect(found).toEqual(['taken']);
  await leave();
});
