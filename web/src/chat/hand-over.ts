// A message for a conversation that the page is about to open: after a fork the edited message is sent there.
import type { Outgoing } from './talk.ts';

const messages = new Map<string, Outgoing & { isNew: boolean }>();

export function handOver(conversation: string, message: Outgoing & { isNew: boolean }): void {
  messages.set(conversation, message);
}

export function takeOver(conversation: string): (Outgoing & { isNew: boolean }) | undefined {
  const message = messages.get(conversation);
  messages.delete(conversation);
  return message;
}

/** Whether the conversation does not exist yet and begins with the message that waits for it. */
export const takesOver = (conversation: string): boolean => messages.get(conversation)?.isNew ?? false;
