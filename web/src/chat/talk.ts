// One conversation as the page works with it: its turns, the run under way, and what waits behind it.
import type { Ref, ShallowRef } from 'vue';
import { ref, shallowRef } from 'vue';
import type { ChatRequest, Decision } from '../api/conversations.ts';
import {
  FIRST_PAGE,
  decideApproval,
  getConversation,
  getMessages,
  getRun,
  openChat,
  stopRun,
} from '../api/conversations.ts';
import { describeError } from '../api/http.ts';
import type { RunChange, UploadedFile } from '../api/types.ts';
import type { LiveRun } from './live-run.ts';
import { followLive } from './live-run.ts';
import type { QueuedMessage } from './queue.ts';
import { toQueue } from './queue.ts';
import type { Timeline } from './timeline.ts';
import { openApprovals } from './timeline.ts';
import type { AssistantTurn, Turn, UserTurn } from './turns.ts';
import { toTurns } from './turns.ts';

export interface Outgoing {
  text: string;
  files: UploadedFile[];
  modelName?: string;
}

export type Phase = 'idle' | 'running' | 'waiting';

export interface Talk {
  readonly id: string;
  readonly turns: ShallowRef<Turn[]>;
  readonly phase: Ref<Phase>;
  readonly isLinked: Ref<boolean>;
  readonly isLoaded: Ref<boolean>;
  readonly hasEarlier: Ref<boolean>;
  readonly queued: ShallowRef<QueuedMessage[]>;
  readonly problem: ShallowRef<{ code: string; message: string; hint: string } | null>;
  /** In US dollars by run, where the configuration has prices. */
  readonly costs: ShallowRef<ReadonlyMap<string, number>>;
  load(): Promise<void>;
  loadEarlier(): Promise<void>;
  /** Rejects where the server did not take the message; it is then not shown. */
  send(message: Outgoing): Promise<void>;
  removeQueued(message: QueuedMessage): Promise<void>;
  stop(): Promise<void>;
  decide(approval: string, decision: Decision): Promise<void>;
  /** Something changed here or elsewhere. */
  onRunChange(change: RunChange): void;
  dispose(): void;
}

const PAGE = FIRST_PAGE.limit;

interface Source {
  /** Of a run that the server has; else `open` starts it. */
  run?: string;
  open?: (signal: AbortSignal) => Promise<Response>;
  onRefused?: (error: unknown) => void;
}

export function createTalk(id: string, isNew: boolean): Talk {
  const turns = shallowRef<Turn[]>([]);
  const phase = ref<Phase>('idle');
  const isLinked = ref(true);
  const isLoaded = ref(isNew);
  const hasEarlier = ref(false);
  const queued = shallowRef<QueuedMessage[]>([]);
  const problem = shallowRef<Talk['problem']['value']>(null);
  const costs = shallowRef<ReadonlyMap<string, number>>(new Map());
  const life = new AbortController();
  /** Entries up to this are shown; those of an open run are not counted. */
  let seen = 0;
  let first = 0;
  let live: { turn: AssistantTurn; run: LiveRun } | null = null;
  let syncing: Promise<void> | null = null;
  /** Keys of queued messages that are on their way. */
  const pending = new Set<string>();
  let delivered: Promise<unknown> = Promise.resolve();

  const liveId = () => live?.turn.run || live?.run.timeline.value.run;

  function onChange(timeline: Timeline): void {
    if (!live) return;
    live.turn.run = timeline.run;
    const said = turns.value.findLast((turn): turn is UserTurn => turn.role === 'user');
    if (said && !said.run) said.run = timeline.run;
    phase.value = openApprovals(timeline).length ? 'waiting' : 'running';
  }

  function follow({ onRefused = noteProblem, ...source }: Source): void {
    const run = followLive({
      ...source,
      signal: life.signal,
      onChange,
      onLink: (isUp) => {
        isLinked.value = isUp;
        if (isUp) setTimeout(() => void run.checkApprovals().catch(noteProblem), 300);
      },
    });
    const key = `${source.run ?? crypto.randomUUID()}:assistant`;
    const turn: AssistantTurn = {
      role: 'assistant',
      key,
      run: source.run ?? '',
      at: new Date().toISOString(),
      timeline: run.timeline,
    };
    live = { turn, run };
    turns.value = [...turns.value, turn];
    phase.value = 'running';
    void run.ended.then(
      () => onEnd(turn),
      (error: unknown) => {
        live = null;
        phase.value = 'idle';
        onRefused(error);
      },
    );
  }

  async function onEnd(turn: AssistantTurn): Promise<void> {
    if (life.signal.aborted) return;
    live = null;
    isLinked.value = true;
    phase.value = 'idle';
    turn.at = new Date().toISOString();
    await Promise.all([sync(), readCost(turn.run)]).catch(noteProblem);
  }

  async function readCost(run: string): Promise<void> {
    if (!run) return;
    const { costUsd } = await getRun(run);
    if (costUsd) costs.value = new Map(costs.value).set(run, costUsd);
  }

  function noteProblem(error: unknown): void {
    if (!life.signal.aborted) problem.value = describeError(error);
  }

  /** Takes from the record what is not shown yet, and follows the run that is open there. One at a time. */
  function sync(): Promise<void> {
    syncing ??= readRecord().finally(() => (syncing = null));
    return syncing;
  }

  async function readRecord(): Promise<void> {
    const { runs } = await getConversation(id);
    const page = await getMessages(id, { after: seen, limit: PAGE });
    if (life.signal.aborted) return;
    const active = runs.find(({ status }) => status !== 'queued')?.run;
    const fresh = toTurns(page.messages, active);
    // The message just sent has no name until its run begins.
    const isSame = (shown: Turn, turn: Turn) =>
      shown.role === turn.role && (shown.run === turn.run || (shown.run === '' && turn.run === active));
    // What is shown stays as it is and learns its place in the record; the key stays, so nothing moves.
    const placed = turns.value.map((shown): Turn => {
      const { seq } = fresh.find((turn) => isSame(shown, turn)) ?? {};
      return seq === undefined || seq === shown.seq ? shown : { ...shown, seq };
    });
    const added = fresh.filter((turn) => !turns.value.some((shown) => isSame(shown, turn)));
    for (const { id: seq, run } of page.messages) if (run !== active) seen = Math.max(seen, seq);
    turns.value = [...placed, ...added];
    queued.value = toQueue(id, runs, { shown: queued.value, pending });
    if (active !== undefined && !live) follow({ run: active });
    if (page.next !== null && active === undefined) await readRecord();
  }

  async function load(): Promise<void> {
    if (isNew) return;
    try {
      problem.value = null;
      const [{ runs, version }, page] = await Promise.all([getConversation(id), getMessages(id, FIRST_PAGE)]);
      const active = runs.find(({ status }) => status !== 'queued')?.run;
      turns.value = toTurns(page.messages, active);
      first = page.messages[0]?.id ?? version + 1;
      hasEarlier.value = first > 1;
      seen = page.messages.findLast(({ run }) => run !== active)?.id ?? Math.max(0, first - 1);
      queued.value = toQueue(id, runs, { shown: [], pending });
      if (active !== undefined) follow({ run: active });
      else await readCost(turns.value.at(-1)?.run ?? '').catch(noteProblem);
    } catch (error) {
      noteProblem(error);
    } finally {
      isLoaded.value = true;
    }
  }

  async function loadEarlier(): Promise<void> {
    const after = Math.max(0, first - 1 - PAGE);
    const page = await getMessages(id, { after, limit: first - 1 - after });
    const run = page.messages.at(-1)?.run;
    const earlier = toTurns(page.messages);
    // A run that is cut by the border of the page is shown by its later half, with what the earlier half has before it.
    turns.value = [
      ...earlier.filter((turn) => turn.run !== run || turn.role === 'user' || !isRunShown(turn)),
      ...turns.value,
    ];
    first = page.messages[0]?.id ?? 1;
    hasEarlier.value = first > 1;
  }

  const isRunShown = ({ run, role }: Turn) => turns.value.some((turn) => turn.run === run && turn.role === role);

  /** Shown at once; where the server refuses it, it is taken back and the promise rejects. */
  function sendNow(request: ChatRequest, said: UserTurn): Promise<void> {
    return new Promise((resolve, reject) => {
      let isAccepted = false;
      turns.value = [...turns.value, said];
      follow({
        open: async (signal) => {
          const response = await openChat(request, said.key, signal);
          isAccepted = true;
          resolve();
          return response;
        },
        onRefused(error) {
          if (isAccepted) return noteProblem(error);
          const at = turns.value.indexOf(said);
          turns.value = turns.value.toSpliced(at, 2);
          reject(error);
        },
      });
    });
  }

  /** One after the other: the server names them in the order in which it took them. */
  function sendBehind(request: ChatRequest, message: QueuedMessage): Promise<void> {
    pending.add(message.key);
    queued.value = [...queued.value, message];
    const sent = delivered.then(() => deliver(request, message));
    delivered = sent.catch(() => undefined); // told by `sent`
    return sent;
  }

  async function deliver(request: ChatRequest, message: QueuedMessage): Promise<void> {
    try {
      const response = await openChat(request, message.key, life.signal);
      await response.body?.cancel();
    } catch (error) {
      pending.delete(message.key);
      queued.value = queued.value.filter((other) => other.key !== message.key);
      throw error;
    }
    // A reading of the record that began before may not know it.
    await syncing?.catch(noteProblem);
    pending.delete(message.key);
    await sync();
  }

  function send(message: Outgoing): Promise<void> {
    const key = crypto.randomUUID();
    const request = toRequest(id, message);
    problem.value = null;
    if (live || queued.value.length)
      return sendBehind(request, { key, text: message.text, files: message.files.length });
    const sent = sendNow(request, toSaid(key, message));
    delivered = sent.catch(() => undefined); // told by `sent`
    return sent;
  }

  async function stop(): Promise<void> {
    const run = liveId() || (await getConversation(id)).activeRun;
    if (run) await stopRun(run);
  }

  return {
    id,
    turns,
    phase,
    isLinked,
    isLoaded,
    hasEarlier,
    queued,
    problem,
    costs,
    load,
    loadEarlier,
    send,
    stop,
    async removeQueued(message) {
      if (message.run) await stopRun(message.run);
      await sync();
    },
    async decide(approval, decision) {
      try {
        await decideApproval(approval, decision);
      } finally {
        // Also after a refusal: somebody else may have decided already.
        await live?.run.checkApprovals();
      }
    },
    onRunChange({ run, status }) {
      if (!isLoaded.value) return;
      if (run === liveId()) void live?.run.checkApprovals().catch(noteProblem);
      else if (!live || status === 'queued' || status === 'cancelled') void sync().catch(noteProblem);
    },
    dispose: () => life.abort(),
  };
}

function toRequest(conversationId: string, { text, files, modelName }: Outgoing): ChatRequest {
  return {
    conversationId,
    ...(text && { query: text }),
    ...(files.length && { files: files.map(({ id, name }) => ({ id, name })) }),
    ...(modelName && { modelName }),
  };
}

function toSaid(key: string, { text, files, modelName }: Outgoing): UserTurn {
  const at = new Date().toISOString();
  return { role: 'user', key, run: '', at, text, files, ...(modelName && { modelName }) };
}
