// A link that outlives its worker: the engine ends itself when the disk is full, and comes back when it is asked again. It
// also sees when somebody puts another directory in the place of the one that is open, and touches neither then.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../kernel/index.ts';
import { AgentError, messageOf } from '../../kernel/index.ts';
import { isDiskFull, storeError } from '../errors.ts';
import type { Link } from './link.ts';

export interface RevivingConfig {
  /** The data directory of the engine. */
  directory: string;
  /** Starts a worker and opens the directory. */
  open: () => Promise<Link>;
  log?: Log | undefined;
}

const RETRY_MS = 1000;

/** `first` has opened the directory. */
export function createRevivingLink(first: Link, { directory, open, log }: RevivingConfig): Link {
  const home = identityOf(directory);
  let current: Link | undefined = first;
  let reviving: Promise<Link> | undefined;
  let failure: { error: AgentError; at: number } | undefined;
  let replaced: AgentError | undefined;
  let isStopped = false;
  /** A transaction must not go on in another engine than the one it began in. */
  let holder: { client: number; link: Link | undefined } = { client: 0, link: undefined };

  function assertInPlace(): void {
    if (!replaced && identityOf(directory) !== home) {
      replaced = storeError('replaced', `The database in ${directory} was moved or replaced while it was open.`);
      log?.error({}, `${replaced.message} ${replaced.hint}`);
    }
    if (replaced) throw replaced;
  }

  async function revive(): Promise<Link> {
    try {
      current = await open();
      failure = undefined;
      log?.warn({}, 'The embedded database had ended, and is open again.');
      return current;
    } catch (error) {
      const kind = isDiskFull(error) ? 'disk_full' : 'worker_died';
      failure = {
        error: storeError(kind, `The embedded database cannot be opened again: ${messageOf(error)}`, { cause: error }),
        at: Date.now(),
      };
      throw failure.error;
    } finally {
      reviving = undefined;
    }
  }

  async function wake(): Promise<Link> {
    if (isStopped) throw storeError('closed', 'The database is closed.');
    if (failure && Date.now() - failure.at < RETRY_MS) throw failure.error;
    return await (reviving ??= revive());
  }

  function toKnown(link: Link, error: unknown): unknown {
    if (!(error instanceof AgentError) || error.code !== 'store.worker_died') return error;
    if (current === link) {
      current = undefined;
      log?.error({ err: error }, error.message);
    }
    return isDiskFull(error) ? storeError('disk_full', error.message, { cause: error }) : error;
  }

  return {
    open: (config) => first.open(config),
    async send(request) {
      assertInPlace();
      const { client } = request;
      if (client > 0 && client !== holder.client) holder = { client, link: undefined };
      const bound = client > 0 ? holder : undefined;
      // Without a pause where the engine lives: the order of the calls is the order of the statements.
      const link = current ?? (await wake());
      if (bound && (bound.link ??= link) !== link) {
        throw storeError('worker_died', 'The embedded database ended within a transaction.');
      }
      try {
        return await link.send(request);
      } catch (error) {
        throw toKnown(link, error);
      }
    },
    async stop() {
      isStopped = true;
      await reviving?.catch(() => undefined);
      await current?.stop();
    },
  };
}

/** Of the directory and of the file that every database has once; '' where they are not there. */
function identityOf(directory: string): string {
  const of = (path: string) => {
    const found = statSync(path, { throwIfNoEntry: false });
    return found ? `${found.dev}:${found.ino}` : '';
  };
  return `${of(directory)} ${of(join(directory, 'global/pg_control'))}`;
}
