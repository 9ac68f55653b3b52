import type { Conversations } from '../store/conversations.ts';
import type { Log } from '../kernel/index.ts';
import type { FilesAnywhere } from '../sandbox/files-anywhere.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';

/** The same conversations, whose files go where they go: a fork begins with a copy, and what is deleted leaves none. */
export function withFiles(conversations: Conversations, sandboxes: Sandboxes | undefined, log: Log): Conversations {
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
      const left = await copy(sandboxes.filesOf(key), sandboxes.filesOf({ ...key, conversation: made.id }));
      if (left) log.warn({ conversation: made.id }, `${left} files were not copied to a fork of a conversation.`);
      return made;
    },
  };
}

const MOST_FILES = 100_000;

/**
 * One by one and without following links: a command of the conversation may run meanwhile. Resolves to how many were left
 * out: what is no plain file, or went away, or is too large. Never rejects, as the fork is there already.
 */
async function copy(from: FilesAnywhere, to: FilesAnywhere): Promise<number> {
  const write = to.writer();
  let left = 0;
  try {
    const { files, isComplete } = await from.list('', { isRecursive: true, limit: MOST_FILES });
    if (!isComplete) left++;
    for (const { path, kind, isExecutable } of files) {
      if (kind === 'folder') continue;
      try {
        await write(path, await from.read(path), { isExecutable });
      } catch {
        left++;
      }
    }
  } catch {
    left++;
  }
  return left;
}
