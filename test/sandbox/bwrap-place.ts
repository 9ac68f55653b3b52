// What tests of sandboxes of bubblewrap share: slots in a folder of their own, and what a command wrote.
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBwrapBackend } from '../../src/sandbox/bwrap.ts';
import type { Backend, ExecResult, Execution, SandboxLimits, Slot } from '../../src/sandbox/sandbox.ts';

export const limits: SandboxLimits = {
  memoryBytes: 268_435_456,
  diskBytes: 50_000_000,
  fileBytes: 20_000_000,
  processes: 64,
  cpuSeconds: 60,
  outputBytes: 67_108_864,
};
export const user = process.getuid?.() === 0 ? { uid: 64_000, gid: 64_000 } : undefined;
export const never = new AbortController().signal;

export function createBackend(changed: Partial<SandboxLimits> = {}): Promise<Backend> {
  const log = { warn: () => undefined, error: () => undefined };
  return createBwrapBackend({ limits: { ...limits, ...changed }, network: 'none', docker: {}, e2b: {}, log });
}

export interface Place extends AsyncDisposable {
  root: string;
  backend: Backend;
  makeFolder(path: string): Promise<void>;
  makeSlot(options?: { isEmpty?: boolean; parent?: string }): Promise<Slot>;
  /** A sandbox over a slot of its own. */
  open(options?: {
    isEmpty?: boolean;
    parent?: string;
    from?: Backend;
  }): Promise<Execution & AsyncDisposable & { slot: Slot }>;
}

export async function createPlace(): Promise<Place> {
  const root = await mkdtemp(join(tmpdir(), 'homard-bwrap-test-'));
  await chmod(root, 0o755);
  const backend = await createBackend();
  let slots = 0;
  const makeFolder = async (path: string) => {
    await mkdir(path);
    if (user) await chown(path, user.uid, user.gid);
  };
  const makeSlot: Place['makeSlot'] = async ({ isEmpty = false, parent = root } = {}) => {
    const id = `slot-${slots++}`;
    const slot: Slot = { id, directory: join(parent, id), ...(user && { user }) };
    await makeFolder(slot.directory);
    await makeFolder(join(slot.directory, 'tmp'));
    if (!isEmpty) await makeFolder(join(slot.directory, 'ws'));
    return slot;
  };
  return {
    root,
    backend,
    makeFolder,
    makeSlot,
    async open({ from = backend, ...options } = {}) {
      const slot = await makeSlot(options);
      const execution = await from.open(slot, never);
      return Object.assign(execution, { slot, [Symbol.asyncDispose]: () => execution.close() });
    },
    async [Symbol.asyncDispose]() {
      await backend[Symbol.asyncDispose]();
      await rm(root, { recursive: true, force: true });
    },
  };
}

export const textOf = ({ stdout }: ExecResult) => Buffer.concat([stdout.head, stdout.tail]).toString();
export const errorOf = ({ stderr }: ExecResult) => Buffer.concat([stderr.head, stderr.tail]).toString();
export const bash = (script: string, ...args: string[]) => ['bash', '-c', script, 'bash', ...args] as const;

/** Processes of the host whose arguments contain a text; those that ended and only wait to be reaped have none. */
export function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(text);
      } catch {
        return false; // It ended meanwhile.
      }
    })
    .map(Number);
}
