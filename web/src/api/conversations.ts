import { askEarly } from './early.ts';
import { getJson, jsonInit, send, sendJson } from './http.ts';
import type { Conversation, Entry, Json, Models, RunChange, RunView } from './types.ts';

const at = (id: string) => `/conversations/${encodeURIComponent(id)}`;

/** Entries that a conversation opens with. */
export const FIRST_PAGE = { last: 1000, limit: 1000 };

/** The requests that a page opening at `path` will make. */
export function askForPage(path: string): void {
  const [, id] = /^\/c\/([^/]+)$/.exec(path) ?? [];
  if (id !== undefined && id !== 'new') {
    askEarly(at(decodeURIComponent(id)));
    askEarly(messagesAt(decodeURIComponent(id), FIRST_PAGE));
  }
  if (!path.startsWith('/sign-in')) askEarly(listAt({}));
}

interface ListQuery {
  search?: string;
  before?: string;
}

function listAt({ search, before }: ListQuery): string {
  const parameters = new URLSearchParams({ limit: '100', ...(search && { search }), ...(before && { before }) });
  return `/conversations?${parameters}`;
}

export function listConversations(query: ListQuery) {
  return getJson<{ conversations: Conversation[]; next: string | null }>(listAt(query));
}

export function getConversation(id: string) {
  return getJson<Conversation & { runs: RunChange[] }>(at(id));
}

type Page = { after?: number; last?: number; limit?: number };

function messagesAt(id: string, page: Page): string {
  const parameters = new URLSearchParams(Object.entries(page).map(([name, value]) => [name, String(value)]));
  return `${at(id)}/messages?${parameters}`;
}

export function getMessages(id: string, page: Page) {
  return getJson<{ version: number; messages: Entry[]; next: number | null }>(messagesAt(id, page));
}

export async function renameConversation(id: string, title: string): Promise<void> {
  await sendJson('PATCH', at(id), { title });
}

export async function deleteConversation(id: string): Promise<void> {
  await send(at(id), { method: 'DELETE' });
}

/** A new conversation that shares what was said up to the entry `after`. */
export function forkConversation(id: string, after: number) {
  return sendJson<Conversation>('POST', `${at(id)}/fork`, { after });
}

export interface ChatRequest {
  conversationId: string;
  query?: string;
  files?: { id: string; name: string }[];
  modelName?: string;
}

/** Accepted when it resolves. `key` makes a repeated attempt the same message. */
export function openChat(request: ChatRequest, key: string, signal: AbortSignal): Promise<Response> {
  return send('/chat/stream', { ...jsonInit('POST', request, { 'idempotency-key': key }), signal });
}

export function getRun(run: string) {
  return getJson<RunView>(`/runs/${encodeURIComponent(run)}`);
}

export async function stopRun(run: string): Promise<void> {
  await send(`/runs/${encodeURIComponent(run)}`, { method: 'DELETE' });
}

export interface Decision {
  decision: 'allow' | 'deny';
  comment?: string;
  args?: Json;
}

export async function decideApproval(id: string, decision: Decision): Promise<void> {
  await sendJson('POST', `/approvals/${encodeURIComponent(id)}`, decision);
}

export function getModels() {
  return getJson<Models>('/models');
}
