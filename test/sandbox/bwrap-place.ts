// What tests of sandboxes of bubblewrap and of unshare share: slots in a folder of their own, and what a command wrote.
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createBwrapBackend } from '../../src/sandbox/bwrap.ts';
import type { Backend, CreateBackend, ExecResult, Execution, SandboxLimits, Slot } from '../../src/sandbox/sandbox.ts';

export const limits: SandboxLimits = {
  memoryBytes: 268_435_456,
  diskBytes: 50_000_000,
  fileBytes: 20_000_000,
  processes: 64,
  cpuSeconds: 60,
  outputBytes: 67_108_864,
};
export const user = process.getuid?.() === 0 ? { uid: 64_000, gid: 64_000 } : undefined;
/** CAP_SYS_RESOURCE: not every container gives it to root. */
export const mayHoldOomScore =
  user && ((BigInt(`0x${/^CapEff:\t(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]}`) >> 24n) & 1n) === 1n;
export const never = new AbortController().signal;

export function createBackend(
  changed: Partial<SandboxLimits> = {},
  { create = createBwrapBackend, hidden = [] }: { create?: CreateBackend; hidden?: string[] } = {},
): Promise<Backend> {
  const log = { warn: () => undefined, error: () => undefined };
  return create({ limits: { ...limits, ...changed }, network: 'none', hidden, docker: {}, e2b: {}, log });
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

export async function createPlace(create?: CreateBackend): Promise<Place> {
  const root = await mkdtemp(join(tmpdir(), 'homard-bwrap-test-'));
  await chmod(root, 0o755);
  const backend = await createBackend({}, { ...(create && { create }) });
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

/** A server that is installed below /usr, with the folders that commands must not see; "key" is what they must not read. */
export interface Installed extends AsyncDisposable {
  hidden: string[];
  /** Files with "key" in them. */
  secrets: string[];
  /** One that commands may see. */
  program: string;
}

export async function installServer(): Promise<Installed> {
  const root = await mkdtemp('/usr/local/homard-test-');
  await chmod(root, 0o755);
  const [working, data] = [join(root, `it's "an" app\\`), join(root, 'closed/data')];
  const secrets = [join(working, '.env'), join(working, '.homard/key'), join(data, 'key')];
  for (const path of secrets) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, 'the-key');
  }
  await chmod(join(root, 'closed'), 0o700);
  await writeFile(join(root, 'program'), 'seen');
  await symlink(working, join(root, 'link'));
  return {
    hidden: [join(root, 'link'), join(working, '.homard'), data, '/', tmpdir(), join(root, 'not-there-yet')],
    secrets,
    program: join(root, 'program'),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true }),
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
