// What is done for the data while nobody asks: backups that replace each other, and what is kept no longer than wanted.
import { join } from 'node:path';
import type { ConversationKey, Log } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import { automaticName, backupsIn, listBackups, packArchive, removeOldBackups, saveBackup } from './backup-file.ts';
import type { Database } from './database.ts';
import type { Health } from './health.ts';
import { removeUntouched } from './retention.ts';

export interface CaretakerConfig {
  database: Database;
  health: Health;
  /** Data directory. */
  directory: string;
  version: string;
  log: Log;
  /** Hours between backups, 0: none; and how many are kept. */
  backup: { everyHours: number; keep: number };
  /** Days that a conversation is kept after it was last touched. */
  conversationDays?: number | undefined;
  /** Told of each conversation that is not kept any longer. */
  onRemoved?: (key: ConversationKey) => Promise<unknown>;
  /** Removes files of before an instant that nobody names any more; asked once a day. */
  sweepFiles?: (before: Date, signal: AbortSignal) => Promise<number>;
  /** Milliseconds between two looks at what is due; the first one is that long after the start. */
  lookMs?: number;
  /** After a backup that failed. */
  retryMs?: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const LOOK_MS = 600_000;
/** A backup that failed has read the whole database: it must not do that all day. */
const RETRY_MS = 6 * HOUR_MS;
/** A backup leaves half of the time to others. */
const PAUSE_MS = 5;

/** A failure is a warning in the log, and tried again: a backup after hours, the rest at the next look. */
export function createCaretaker(config: CaretakerConfig): AsyncDisposable {
  const { database, health, directory, version, log, backup, conversationDays } = config;
  const { lookMs = LOOK_MS, retryMs = RETRY_MS } = config;
  const folder = backupsIn(directory);
  let cleanedAt = 0;
  let sweptAt = 0;
  let nextBackupAt = 0;
  let work: Promise<void> | undefined;
  let isStopped = false;

  async function backUp(): Promise<void> {
    const [newest] = await listBackups(folder);
    if (newest && Date.now() - newest.at.getTime() < backup.everyHours * HOUR_MS) return;
    const packed = await packArchive(database, { directory, version, isKept: true, pauseMs: PAUSE_MS });
    const stop = () => packed.destroy();
    stopping.signal.addEventListener('abort', stop, { once: true });
    try {
      await saveBackup(packed, join(folder, automaticName(new Date())));
    } finally {
      stopping.signal.removeEventListener('abort', stop);
      packed.destroy();
    }
    await removeOldBackups(folder, backup.keep);
  }

  async function backUpOrWait(): Promise<void> {
    if (Date.now() < nextBackupAt) return;
    try {
      await backUp();
    } catch (error) {
      nextBackupAt = Date.now() + retryMs;
      throw error;
    }
  }

  async function clean(days: number): Promise<void> {
    if (Date.now() - cleanedAt < DAY_MS) return;
    const before = new Date(Date.now() - days * DAY_MS);
    const { onRemoved } = config;
    const removed = await removeUntouched(database, { before, ...(onRemoved && { onRemoved }) });
    cleanedAt = Date.now();
    if (removed) log.warn({ removed, days }, `${removed} conversations untouched for ${days} days were deleted.`);
  }

  /** A file of the last day may be about to be sent. */
  async function sweep(sweepFiles: NonNullable<CaretakerConfig['sweepFiles']>): Promise<void> {
    if (Date.now() - sweptAt < DAY_MS) return;
    await sweepFiles(new Date(Date.now() - DAY_MS), stopping.signal);
    sweptAt = Date.now();
  }

  const stopping = new AbortController();
  const attempt = async (what: string, task: () => Promise<void>) => {
    try {
      if (!isStopped) await task();
    } catch (error) {
      if (isStopped) return;
      health.observe(error);
      log.warn({ err: error }, `${what} failed: ${messageOf(error)}`);
    }
  };
  const look = async () => {
    if (health.problem()?.isReadOnly) return;
    if (backup.everyHours > 0) await attempt('The automatic backup', backUpOrWait);
    if (conversationDays !== undefined) await attempt('Deleting old conversations', () => clean(conversationDays));
    const { sweepFiles } = config;
    if (sweepFiles) await attempt('Deleting files that nobody names', () => sweep(sweepFiles));
  };
  const timer = setInterval(() => {
    work ??= look().finally(() => {
      work = undefined;
    });
  }, lookMs);
  timer.unref();

  return {
    async [Symbol.asyncDispose]() {
      isStopped = true;
      clearInterval(timer);
      stopping.abort();
      await work;
    },
  };
}
