// Readable conversations as the application has them.
import type { Log, Owner } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { Conversations } from '../store/conversations.ts';
import type { TranscriptStore } from '../store/transcripts.ts';
import { adoptAll, compareAll } from './adopt.ts';
import { createTranscriptFolders } from './transcript-folders.ts';
import type { Transcripts } from './transcripts.ts';
import { createTranscripts } from './transcripts.ts';

export interface OpenTranscriptsConfig {
  store: TranscriptStore;
  /** The folder that holds `conversations`, made with the first file. */
  workspace: string;
  /** The one owner of a personal server. */
  single: Owner | undefined;
  log: Log;
}

/** Takes in what is unknown, then compares the rest with the record while others work already. */
export async function openTranscripts({ store, workspace, single, log }: OpenTranscriptsConfig): Promise<Transcripts> {
  const folders = createTranscriptFolders(workspace, single);
  const transcripts = createTranscripts({ store, folders, log });
  const place = { store, folders, log, hint: transcripts.hint };
  const closing = new AbortController();
  const warn = (error: unknown) => {
    log.warn({ err: error }, `The readable conversations in ${workspace} were not looked through: ${messageOf(error)}`);
  };
  await adoptAll(place).catch(warn);
  const compared = compareAll(place, closing.signal).catch(warn);
  return {
    ...transcripts,
    async flush() {
      await compared;
      await transcripts.flush();
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await compared;
      await transcripts[Symbol.asyncDispose]();
    },
  };
}

/** The same conversations, whose readable files follow what is done with them. */
export function withTranscripts(conversations: Conversations, transcripts: Transcripts): Conversations {
  return {
    ...conversations,
    async remove(key) {
      const isRemoved = await conversations.remove(key);
      await transcripts.remove(key);
      return isRemoved;
    },
    removeAll: (owner) => transcripts.removeAll(owner, () => conversations.removeAll(owner)),
    async fork(key, fork) {
      const made = await conversations.fork(key, fork);
      transcripts.hint({ ...key, conversation: made.id });
      return made;
    },
  };
}
