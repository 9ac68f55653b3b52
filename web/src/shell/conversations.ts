// The list of conversations in the sidebar, kept current by the feed.
import { computed, ref, shallowRef } from 'vue';
import { deleteConversation, getConversation, listConversations, renameConversation } from '../api/conversations.ts';
import type { FeedMessage } from '../api/feed.ts';
import { onFeed, startFeed } from '../api/feed.ts';
import type { Conversation, ConversationChange, RunChange } from '../api/types.ts';

export type ActiveState = 'running' | 'waiting';

const conversations = shallowRef<Conversation[]>([]);
const next = ref<string | null>(null);
const active = shallowRef<ReadonlyMap<string, ActiveState>>(new Map());
export const search = ref('');
export const isListLoaded = ref(false);
export const list = computed(() => conversations.value);
export const hasMore = computed(() => next.value !== null);
export const stateOf = (id: string): ActiveState | undefined => active.value.get(id);
const find = (id: string) => conversations.value.find((one) => one.id === id);
export const titleOf = (id: string): string | undefined => find(id)?.title;
/** The conversation that it branches off. */
export const parentOf = (id: string): string | undefined => find(id)?.fork?.parent;

let asked = 0;

/** Of several requests under way only the last one counts. */
export async function loadList(): Promise<void> {
  const turn = ++asked;
  const page = await listConversations({ search: search.value.trim() });
  if (turn !== asked) return;
  conversations.value = page.conversations;
  next.value = page.next;
  isListLoaded.value = true;
  await Promise.all(page.conversations.filter((one) => one.activeRun).map((one) => readState(one.id)));
}

export async function loadMore(): Promise<void> {
  if (!next.value) return;
  const page = await listConversations({ search: search.value.trim(), before: next.value });
  conversations.value = [...conversations.value, ...page.conversations];
  next.value = page.next;
}

async function readState(id: string): Promise<void> {
  const { runs } = await getConversation(id);
  setState(id, runs.find(({ status }) => status !== 'queued')?.status);
}

function setState(id: string, status: RunChange['status'] | undefined): void {
  const changed = new Map(active.value);
  if (status === 'running' || status === 'waiting') changed.set(id, status);
  else changed.delete(id);
  active.value = changed;
}

async function onRun({ conversation, status }: RunChange): Promise<void> {
  const known = conversations.value.find((one) => one.id === conversation);
  if (status !== 'queued') setState(conversation, status);
  if (!known) {
    await loadList();
  } else if (status === 'running') {
    const updated = { ...known, updatedAt: new Date().toISOString() };
    conversations.value = [updated, ...conversations.value.filter((one) => one !== known)];
  }
}

async function onConversation(change: ConversationChange): Promise<void> {
  const known = conversations.value.some(({ id }) => id === change.id);
  if ('deleted' in change) {
    setState(change.id, undefined);
    conversations.value = conversations.value.filter(({ id }) => id !== change.id);
  } else if (known) {
    const { title } = change;
    conversations.value = conversations.value.map((one) => (one.id === change.id ? { ...one, title } : one));
  } else {
    await loadList();
  }
}

async function onMessage(message: FeedMessage): Promise<void> {
  if (message.type === 'again') await loadList();
  else if (message.type === 'run') await onRun(message.change);
  else await onConversation(message.change);
}

export async function rename(id: string, title: string): Promise<void> {
  await renameConversation(id, title);
  await onConversation({ id, title, changedAt: '' });
}

export async function remove(id: string): Promise<void> {
  await deleteConversation(id);
  await onConversation({ id, deleted: true, changedAt: '' });
}

/** Called once by the shell. */
export function startList(onProblem: (error: unknown) => void): void {
  startFeed();
  onFeed((message) => void onMessage(message).catch(onProblem));
  void loadList().catch(onProblem);
}

export type DayGroup = 'today' | 'yesterday' | 'week' | 'earlier';

export function dayGroupOf(iso: string, now = new Date()): DayGroup {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const age = midnight - Date.parse(iso);
  if (age <= 0) return 'today';
  if (age <= 86_400_000) return 'yesterday';
  return age <= 6 * 86_400_000 ? 'week' : 'earlier';
}
