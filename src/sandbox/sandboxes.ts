// The sandboxes of a server: one for each run that needs one, made at its first use and closed when the run is left.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConversationKey, Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import { sandboxError } from './errors.ts';
import { createWorkspaceFiles } from './files.ts';
import { withoutFolder } from './no-files.ts';
import { BEAT_MS, createFolders } from './folders.ts';
import type { Workspace } from './folders.ts';
import { createPlaces } from './places.ts';
import type { Backend, Execution, Sandbox, SandboxFiles, Slot } from './sandbox.ts';
import { createWarmSlots } from './warm-slots.ts';
import type { WarmSlot } from './warm-slots.ts';

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
   * The sandbox of a run, made at its first call, over the files of its conversation, which no other run has meanwhile.
   * Waits for a place; `onWait` is told once how many are before it. Rejects with `sandbox.too_many`,
   * `sandbox.workspace_busy`, `sandbox.failed`, or the signal's reason.
   */
  of(key: RunKey, options: { signal: AbortSignal; onWait?: (ahead: number) => void }): Promise<Sandbox>;
  /** The files of a conversation, whether a run has them now or not. Rejects with `sandbox.workspace_busy`. */
  filesOf(key: ConversationKey): Promise<SandboxFiles>;
  /** A conversation was deleted. */
  remove(key: ConversationKey): Promise<void>;
  removeAll(owner: Owner): Promise<void>;
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
  close(): Promise<void>;
}

/** A server that died may hold the files of a conversation until its slot is found to be left over. */
const BUSY_MS = 10_000;

/** Reaps what servers that are no more left behind, before it resolves. */
export async function createSandboxes(config: SandboxesConfig): Promise<Sandboxes> {
  const { backend, log, fileBytes } = config;
  const folders = await createFolders(config.directory, {
    hasUser: backend.capabilities.hasPrograms,
    isAlone: config.isAlone,
  });
  await folders.reap();
  await backend.reap?.();
  const places = createPlaces({ total: config.total, perUser: config.perUser, waitMs: config.waitMs });
  const slots = createWarmSlots({ backend, folders, count: config.warm, log });
  const runs = new Map<string, Run>();
  const byConversation = new Map<string, Opened>();
  const beat = setInterval(() => {
    if (byConversation.size || slots.count())
      folders.beat().catch((error: unknown) => warn('Keeping the sandboxes failed', error));
  }, BEAT_MS);
  beat.unref();

  function warn(what: string, error: unknown): void {
    log.warn({ err: error }, `${what}: ${messageOf(error)}`);
  }

  async function open(key: RunKey, { controller, equipment }: Run, onWait?: (ahead: number) => void): Promise<Opened> {
    const { signal } = controller;
    const leavePlace = await places.enter(JSON.stringify([key.tenant, key.owner]), {
      signal,
      ...(onWait && { onWait }),
    });
    let slot: WarmSlot | undefined;
    let workspace: Workspace | undefined;
    const close = async () => {
      if (opened) byConversation.delete(nameOf(key));
      try {
        await slot?.execution?.close();
        await (workspace ? workspace.release() : slot && folders.removeSlot(slot.slot));
      } finally {
        leavePlace();
      }
    };
    let opened: Opened | undefined;
    try {
      slot = await slots.take(signal);
      workspace = await takeFiles(slot.slot, key, signal);
      slot.execution ??= await backend.open(slot.slot, signal);
      signal.throwIfAborted();
      const { execution } = slot;
      const sandbox = toSandbox({ slot: slot.slot, execution, workspace, equipment: [config.equipment, equipment] });
      opened = { sandbox, close };
      byConversation.set(nameOf(key), opened);
      return opened;
    } catch (error) {
      await close();
      throw error;
    }
  }

  async function takeFiles(slot: Slot, key: ConversationKey, signal: AbortSignal): Promise<Workspace> {
    for (const until = Date.now() + BUSY_MS; ;) {
      const taken = await folders.take(slot, key);
      if (taken) return taken;
      if (Date.now() > until) {
        throw sandboxError(
          'workspace_busy',
          'Another run, on this server or another, has the files of this conversation.',
        );
      }
      await sleep(200, undefined, { signal });
    }
  }

  function toSandbox(parts: {
    slot: Slot;
    execution: Execution;
    workspace: Workspace;
    equipment: Equipment[];
  }): Sandbox {
    const { slot, execution, workspace, equipment } = parts;
    const push = execution.push?.bind(execution);
    const env = Object.assign({}, ...equipment.flatMap((given) => [given.env, given.secrets])) as Record<
      string,
      string
    >;
    return {
      id: slot.id,
      kind: backend.kind,
      capabilities: backend.capabilities,
      seen: workspace.seen,
      files: createWorkspaceFiles(workspace.root, {
        ...whose(slot.user),
        fileBytes,
        ...(push && { push }),
      }),
      exec: (spec) => execution.exec({ ...spec, env: { ...env, ...spec.env } }),
    };
  }

  async function filesOf(key: ConversationKey): Promise<SandboxFiles> {
    for (const until = Date.now() + BUSY_MS; ;) {
      const opened = byConversation.get(nameOf(key));
      if (opened) return opened.sandbox.files;
      const found = await folders.find(key);
      if (found === 'nowhere') return withoutFolder(() => folders.make(key).then(() => filesOf(key)));
      if (found !== 'taken') return createWorkspaceFiles(found.root, { ...whose(folders.user), fileBytes });
      // A run of this server takes or leaves it just now, or another server has it.
      if (Date.now() > until)
        throw sandboxError('workspace_busy', 'A run on another server has the files of this conversation.');
      await sleep(50);
    }
  }

  async function leave(run: string, entry: Run): Promise<void> {
    // This process may have taken the run up again.
    if (runs.get(run) === entry) runs.delete(run);
    entry.controller.abort(sandboxError('closed', 'The run has ended.'));
    // One that never opened has told its reason already.
    const opened = await entry.opened?.catch(() => undefined);
    await opened?.close().catch((error: unknown) => warn('A sandbox could not be closed', error));
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
      const run = runs.get(key.run);
      if (!run) throw sandboxError('closed', 'The run has ended.');
      run.opened ??= open(key, run, onWait).catch((error: unknown) => {
        // The next call of the run tries again.
        delete run.opened;
        throw error;
      });
      return (await untilAborted(run.opened, signal)).sandbox;
    },
    filesOf,
    remove: (key) => folders.remove(key),
    removeAll: (owner) => folders.removeAll(owner),
    stats: () => ({ live: byConversation.size, waiting: places.waiting(), warm: slots.count() }),
    async [Symbol.asyncDispose]() {
      clearInterval(beat);
      await Promise.all([...runs].map(([run, entry]) => leave(run, entry)));
      await slots.close();
      await backend[Symbol.asyncDispose]();
    },
  };
}

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
