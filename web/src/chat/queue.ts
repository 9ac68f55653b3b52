// Messages that wait behind a run. The server holds them; their words are kept here as well, because the record shows a
// message only when its run begins.
import type { RunChange } from '../api/types.ts';

export interface QueuedMessage {
  key: string;
  /** Empty where another device sent it. */
  text: string;
  files: number;
  /** Undefined while it is on its way. */
  run?: string;
}

const nameOf = (conversation: string) => `homard-queue:${conversation}`;

function read(conversation: string): QueuedMessage[] {
  return JSON.parse(localStorage.getItem(nameOf(conversation)) ?? '[]') as QueuedMessage[];
}

function write(conversation: string, messages: readonly QueuedMessage[]): void {
  if (messages.length) localStorage.setItem(nameOf(conversation), JSON.stringify(messages));
  else localStorage.removeItem(nameOf(conversation));
}

/** `shown` may hold messages that the server has not answered for yet: named in `pending`, they stay. */
export function toQueue(
  conversation: string,
  runs: readonly RunChange[],
  { shown, pending }: { shown: readonly QueuedMessage[]; pending: ReadonlySet<string> },
): QueuedMessage[] {
  const known = shown.length ? [...shown] : read(conversation);
  const unnamed = known.filter(({ run, key }) => run === undefined && !pending.has(key));
  const queued = runs
    .filter(({ status }) => status === 'queued')
    .flatMap(({ run }): QueuedMessage[] => {
      const message = known.find((other) => other.run === run) ?? unnamed.shift();
      if (message) return [{ ...message, run }];
      // Most likely one of those on their way: it is named when the server has answered.
      return pending.size ? [] : [{ key: run, text: '', files: 0, run }];
    });
  const all = [...queued, ...known.filter(({ key }) => pending.has(key))];
  write(conversation, all);
  return all;
}
