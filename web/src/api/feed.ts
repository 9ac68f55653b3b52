// What changed elsewhere. One tab of a browser holds the connection and tells the others: a browser allows few of them.
import { send } from './http.ts';
import { pause, readEvents } from './sse.ts';
import type { ConversationChange, RunChange } from './types.ts';

/** `again`: the server was away, so anything may have changed. */
export type FeedMessage =
  | { type: 'run'; change: RunChange }
  | { type: 'conversation'; change: ConversationChange }
  | { type: 'again' };

const listeners = new Set<(message: FeedMessage) => void>();
const channel = new BroadcastChannel('homard-feed');
channel.addEventListener('message', (event: MessageEvent<FeedMessage>) => tell(event.data));

function post(message: FeedMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no target, unlike a window
  channel.postMessage(message);
}

function tell(message: FeedMessage): void {
  for (const listener of listeners) listener(message);
}

function announce(message: FeedMessage): void {
  tell(message);
  post(message);
}

export function onFeed(listener: (message: FeedMessage) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let isStarted = false;

export function startFeed(): void {
  if (isStarted) return;
  isStarted = true;
  const forever = new AbortController().signal;
  // Locks exist only in a secure context; without them each tab has its own connection.
  if (navigator.locks) void navigator.locks.request('homard-feed', () => listen(forever));
  else void listen(forever);
}

async function listen(signal: AbortSignal): Promise<void> {
  let last = '';
  let waitMs = 500;
  let wasAway = false;
  while (!signal.aborted) {
    try {
      const response = await send('/events', { headers: last ? { 'last-event-id': last } : {}, signal });
      waitMs = 500;
      if (wasAway) {
        wasAway = false;
        announce({ type: 'again' });
      }
      // Before the first event the place to come back to is now, by the server's clock.
      last ||= new Date(response.headers.get('date') ?? Date.now()).toISOString();
      await readEvents(response, ({ id, event, data }) => {
        if (id) last = id;
        if (event !== 'run' && event !== 'conversation') return;
        const message = { type: event, change: JSON.parse(data) as unknown } as FeedMessage;
        announce(message);
      });
    } catch {
      // The next turn of the loop asks again.
      wasAway = true;
    }
    await pause(waitMs, signal);
    waitMs = Math.min(waitMs * 2, 15_000);
  }
}
