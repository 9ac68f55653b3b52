// The sandboxes of a server: one for each run that needs one, made at its first use and closed when the run is left.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConversationKey, Log, Owner } from '../kernel/index.ts';
import { AgentError, messageOf } from '../kernel/index.ts';
import { sandboxError } from './errors.ts';
import { createWorkspaceFiles } from './files.ts';
import type { FilesAnywhere } from './files-anywhere.ts';
import { createFilesAnywhere } from './files-anywhere.ts';
import { BEAT_MS, createFolders } from './folders.ts';
import { createPlaces } from './places.ts';
import { withQuota } from './quota.ts';
import type { Backend, Execution, Sandbox, SandboxFiles, Slot } from './sandbox.ts';
import { createWarmSlots } from './warm-slots.ts';
import type { WarmSlot } from './warm-slots.ts';
import type { Workspace } from './workspace.ts';

export interface RunKey extends ConversationKey {
  run: string;
}

export interface Equipment {
  env?: Readonly<Record<string, string>>;
  /** Their values are shown nowhere. */
  secrets?: Readonly<Record<string, string>>;
}

export interface Sandboxes extends AsyncDisposable {
  readonly backend: Pick<Backend, 'kind' | 'capabilities' | 'description' | 'advice'>;
  /**
   * A run may need a sandbox: what its commands get in their environment beside what all get. Returns its end, which
   * closes what the run had; idempotent, never rejects.
   */
  expect(run: string, equipment: Equipment): () => Promise<void>;
  /**
   * The sandbox of a run, the same at each call, made at the first, over the files of its conversation, which no other run
   * has meanwhile. Waits for a place; `onWait` is told once how many are before it. Rejects with `sandbox.too_many`,
   * `sandbox.workspace_busy`, `sandbox.failed`, or the signal's reason.
   */
  of(key: RunKey, options: { signal: AbortSignal; onWait?: (ahead: number) => void }): Promise<Sandbox>;
  /**
   * The files of a conversation, whether a run has them or not, also when that changes between two calls. A write rejects
   * with `sandbox.disk_full` beyond `diskBytes`; all reject with `sandbox.workspace_busy` where another server has them.
   */
  filesOf(key: ConversationKey): FilesAnywhere;
  /** A conversation was deleted; a run that has its files loses them at its end. */
  remove(key: ConversationKey): Promise<void>;
  removeAll(owner: Owner): Promise<void>;
  /** Removes files that are older than `before` and of conversations that are not known. */
  sweep(before: Date, isKnown: (key: ConversationKey) => Promise<boolean>): Promise<number>;
  stats(): { live: number; waiting: number; warm: number };
}

export interface SandboxesConfig {
  backend: Backend;
  /** Below it lie the files of all conversations. */
  directory: string;
  /** No other server uses the directory. */
  isAlone: boolean;
  perUser: number;
  total: number;
  waitMs: number;
  warm: number;
  fileBytes: number;
  /** Of a conversation's files. */
  diskBytes: number;
  /** What every command gets. */
  equipment: Equipment;
  log: Log;
}

interface Run {
  equipment: Equipment;
  controller: AbortController;
  opened?: Promise<Opened>;
}

interface Opened {
  sandbox: Sandbox;
  isClosing: boolean;
  /** Resolves when the files are back in their place. */
  closed: Promise<void>;
  close(): Promise<void>;
}

/** A server that died may hold the files of a conversation until its slot is found to be left over. */
const BUSY_MS = 10_000;

/** Reaps what servers that are no more left behind, before it resolves. Disposes the back end with itself. */
export async function createSandboxes(config: SandboxesConfig): Promise<Sandboxes> {
  const { backend, log, fileBytes, diskBytes } = config;
  const { hasPrograms } = backend.capabilities;
  const reap = async () => await backend.reap?.();
  const options = { hasUser: hasPrograms, isAlone: config.isAlone, endLeft: reap, log };
  const folders = await createFolders(config.directory, options);
  // Before the files, to which it may write.
  await reap().catch((error: unknown) => warn('What servers that are no more left could not be removed', error));
  await folders.reap();
  const places = createPlaces({ total: config.total, perUser: config.perUser, waitMs: config.waitMs });
  const slots = createWarmSlots({ backend, folders, count: config.warm, log });
  const runs = new Map<string, Run>();
  const byConversation = new Map<string, Opened>();
  const beat = setInterval(() => {
    if (!byConversation.size && !slots.count()) return;
    folders.beat().catch((error: unknown) => warn('Keeping the sandboxes failed', error));
  }, BEAT_MS);
  beat.unref();

  function warn(what: string, error: unknown): void {
    log.warn({ err: error }, `${what}: ${messageOf(error)}`);
  }

  async function open(key: RunKey, run: Run, onWait?: (ahead: number) => void): Promise<Opened> {
    const { signal } = run.controller;
    const leavePlace = await places.enter(JSON.stringify([key.tenant, key.owner]), {
      signal,
      ...(onWait && { onWait }),
    });
    try {
      const parts = await openIn(key, signal);
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      const opened: Opened = {
        sandbox: toSandbox(parts, run.equipment),
        isClosing: false,
        closed,
        async close() {
          opened.isClosing = true;
          try {
            await closeAll(parts);
          } finally {
            if (byConversation.get(nameOf(key)) === opened) byConversation.delete(nameOf(key));
            leavePlace();
            resolve();
          }
        },
      };
      byConversation.set(nameOf(key), opened);
      return opened;
    } catch (error) {
      leavePlace();
      if (error instanceof AgentError || signal.aborted) throw error;
      log.error({ err: error }, `A sandbox could not be opened: ${messageOf(error)}`);
      throw sandboxError('failed', 'The sandbox could not be opened.', { cause: error });
    }
  }

  async function openIn(key: RunKey, signal: AbortSignal): Promise<Parts> {
    const warm = await slots.take(signal);
    let workspace: Workspace | undefined;
    try {
      workspace = await takeFiles(warm.slot, key, signal);
      warm.execution ??= await backend.open(warm.slot, signal);
      signal.throwIfAborted();
      return { slot: warm.slot, execution: warm.execution, workspace };
    } catch (error) {
      await closeAll({ ...warm, workspace }).catch((second: unknown) => warn('A sandbox could not be closed', second));
      throw error;
    }
  }

  async function closeAll({
    slot,
    execution,
    workspace,
  }: WarmSlot & { workspace?: Workspace | undefined }): Promise<void> {
    await execution?.close();
    await (workspace ? workspace.release() : folders.removeSlot(slot));
  }

  async function takeFiles(slot: Slot, key: RunKey, signal: AbortSignal): Promise<Workspace> {
    // The run before gives them back when its last process has ended.
    const before = byConversation.get(nameOf(key));
    if (before) await untilAborted(before.closed, signal);
    for (const until = Date.now() + BUSY_MS; ;) {
      const taken = await folders.take(slot, key);
      if (taken) return taken;
      if (Date.now() > until) throw busy();
      await sleep(200, undefined, { signal });
    }
  }

  function toSandbox({ slot, execution, workspace }: Parts, equipment: Equipment): Sandbox {
    const push = execution.push?.bind(execution);
    const given = [config.equipment, equipment].flatMap(({ env, secrets }) => [env, secrets]);
    const env = Object.assign({}, ...given) as Record<string, string>;
    const all = createWorkspaceFiles(workspace.root, { ...whose(slot.user), fileBytes, ...(push && { push }) });
    const files = withQuota(all, diskBytes);
    const exec: Sandbox['exec'] = (spec) => execution.exec({ ...spec, env: { ...env, ...spec.env } });
    const { kind, capabilities } = backend;
    return { id: slot.id, kind, capabilities, seen: workspace.seen, files, exec };
  }

  async function leave(name: string, run: Run): Promise<void> {
    // This process may have taken the run up again.
    if (runs.get(name) === run) runs.delete(name);
    run.controller.abort(sandboxError('closed', 'The run has ended.'));
    // One that never opened has told its reason already.
    const opened = await run.opened?.catch(() => undefined);
    await opened?.close().catch((error: unknown) => warn('A sandbox could not be closed', error));
  }

  /** Undefined: the conversation has no folder. */
  async function locate(key: ConversationKey): Promise<{ root: string; files: SandboxFiles } | undefined> {
    for (const until = Date.now() + BUSY_MS; ;) {
      const opened = byConversation.get(nameOf(key));
      if (opened?.isClosing) await opened.closed;
      else if (opened) return { root: opened.sandbox.id, files: opened.sandbox.files };
      const found = await folders.find(key);
      if (found === 'nowhere') return undefined;
      const files = found !== 'taken' && createFiles(found.root);
      if (files) return { root: found.root, files };
      // A run of this server takes or leaves it just now, or another server has it.
      if (Date.now() > until) throw busy();
      await sleep(50);
    }
  }

  /** Undefined where a run took the folder just now. */
  function createFiles(root: string): SandboxFiles | undefined {
    try {
      return createWorkspaceFiles(root, { ...whose(folders.user), fileBytes });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  return {
    backend,
    expect(run, equipment) {
      const entry = { equipment, controller: new AbortController() };
      runs.set(run, entry);
      slots.fill();
      let left: Promise<void> | undefined;
      return () => (left ??= leave(run, entry));
    },
    async of(key, { signal, onWait }) {
      signal.throwIfAborted();
      const run = runs.get(key.run);
      if (!run) throw sandboxError('closed', 'The run has ended.');
      run.opened ??= open(key, run, onWait).catch((error: unknown) => {
        // The next call of the run tries again.
        delete run.opened;
        throw error;
      });
      return (await untilAborted(run.opened, signal)).sandbox;
    },
    filesOf: (key) => createFilesAnywhere({ locate: () => locate(key), make: () => folders.make(key), diskBytes }),
    remove: (key) => folders.remove(key),
    removeAll: (owner) => folders.removeAll(owner),
    sweep: (before, isKnown) => folders.sweep(before, isKnown),
    stats: () => ({ live: byConversation.size, waiting: places.waiting(), warm: slots.count() }),
    async [Symbol.asyncDispose]() {
      clearInterval(beat);
      await using _ = backend;
      await Promise.all([...runs].map(([name, run]) => leave(name, run)));
      await slots.close();
    },
  };
}

interface Parts {
  slot: Slot;
  execution: Execution;
  workspace: Workspace;
}

const busy = () =>
  sandboxError('workspace_busy', 'Another run, on this server or another, has the files of this conversation.');

const nameOf = ({ tenant, owner, conversation }: ConversationKey) => JSON.stringify([tenant, owner, conversation]);

const whose = (user: { uid: number; gid: number } | undefined) => (user ? { user } : {});

/** Who waits no longer leaves the others waiting. */
async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason as Error);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
