// Readable conversations as the application has them.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AgentEvent, ConversationKey, Log, Owner } from '../kernel/index.ts';
import { isTerminal, messageOf } from '../kernel/index.ts';
import type { Conversations } from '../store/conversations.ts';
import type { TranscriptStore } from '../store/transcripts.ts';
import { adoptAll, compareAll } from './adopt.ts';
import { createTranscriptFolders } from './transcript-folders.ts';
import type { Transcripts } from './transcripts.ts';
import { createTranscripts } from './transcripts.ts';

export interface OpenTranscriptsConfig {
  store: TranscriptStore;
  /** The folder that holds `conversations`; made when absent. */
  workspace: string;
  /** The one owner of a personal server. */
  single: Owner | undefined;
  log: Log;
}

export interface FollowingTranscripts extends Transcripts {
  /** A run told this event: what it stands for will be in the file. */
  follow(key: ConversationKey, event: AgentEvent): void;
}

/** Takes in what is unknown, then compares the rest with the record while others work already. */
export async function openTranscripts({
  store,
  workspace,
  single,
  log,
}: OpenTranscriptsConfig): Promise<FollowingTranscripts> {
  const folders = createTranscriptFolders(workspace, single);
  const warn = (error: unknown) => {
    log.warn({ err: error }, `The readable conversations in ${workspace} were not looked through: ${messageOf(error)}`);
  };
  const id = await idOf(workspace).catch((error: unknown) => {
    warn(error);
    return crypto.randomUUID();
  });
  const transcripts = createTranscripts({ store, folders, log, workspace: id });
  const place = { store, folders, id, log, hint: transcripts.hint };
  const closing = new AbortController();
  await adoptAll(place).catch(warn);
  const compared = compareAll(place, closing.signal).catch(warn);
  return {
    ...transcripts,
    follow(key, event) {
      if (isTerminal(event)) transcripts.hint(key);
      else if (ROUNDS.has(event.type)) transcripts.hint(key, ROUND_MS);
    },
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

/** Marks are about the files of one workspace: a copy of it has the same id, and other times. */
async function idOf(workspace: string): Promise<string> {
  const path = join(workspace, '.homard-workspace');
  const made = crypto.randomUUID();
  await mkdir(workspace, { recursive: true, mode: 0o700 });
  const isMade = await writeFile(path, `${made}\n`, { flag: 'wx', mode: 0o600 }).then(
    () => true,
    (error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    },
  );
  return isMade ? made : (await readFile(path, 'utf8')).trim() || made;
}

/** What tells of something that was committed while its run goes on. */
const ROUNDS = new Set<AgentEvent['type']>([
  'run_start',
  'tool_call',
  'tool_result',
  'approval_request',
  'approval_decision',
]);
/** Rounds are gathered, so that a turn of several is written in one piece or two. */
const ROUND_MS = 250;
