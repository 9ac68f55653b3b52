import type { Conversations } from '../store/conversations.ts';
import type { ConversationKey } from '../kernel/index.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';

/** The same conversations, whose files go where they go: a fork begins with a copy, and what is deleted leaves none. */
export function withFiles(conversations: Conversations, sandboxes: Sandboxes | undefined): Conversations {
  if (!sandboxes) return conversations;
  return {
    ...conversations,
    async remove(key) {
      const isRemoved = await conversations.remove(key);
      await sandboxes.remove(key);
      return isRemoved;
    },
    async removeAll(owner) {
      const removed = await conversations.removeAll(owner);
      await sandboxes.removeAll(owner);
      return removed;
    },
    async fork(key, fork) {
      const made = await conversations.fork(key, fork);
      await copy(sandboxes, key, { ...key, conversation: made.id });
      return made;
    },
  };
}

/** One by one and without following links: a command of the conversation may run meanwhile. */
async function copy(sandboxes: Sandboxes, from: ConversationKey, to: ConversationKey): Promise<void> {
  const source = await sandboxes.filesOf(from);
  const { files } = await source.list('', { isRecursive: true });
  for (const { path, kind, isExecutable } of files) {
    if (kind !== 'file') continue;
    const target = await sandboxes.filesOf(to);
    await target.write(path, await source.read(path), { isExecutable });
  }
}
