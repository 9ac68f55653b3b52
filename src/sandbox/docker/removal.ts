// Containers that nobody needs any more: those of this server, those that dead servers left, and what the daemon did not
// remove at once.
import type Docker from 'dockerode';
import { messageOf } from '../../kernel/index.ts';
import { sandboxError } from '../errors.ts';
import type { BackendConfig } from '../sandbox.ts';
import { ASK_MS, removeContainer, within } from './daemon.ts';
import { isLeft, managed } from './owner.ts';

export interface Containers {
  docker: Docker;
  owner: string;
  config: Pick<BackendConfig, 'log'>;
  /** Names of the containers that are made or in use. */
  live: Set<string>;
  /** Names of those that may still be there although they should not. */
  stuck: Set<string>;
}

/** Removes a container of this server; where that fails, says so and leaves it to `retry`. Never rejects. */
export async function endContainer(
  containers: Containers,
  name: string,
  options?: { mayComeLate: boolean },
): Promise<void> {
  const isGone = await removeContainer(containers.docker.getContainer(name), options);
  containers.live.delete(name);
  if (isGone) return;
  containers.stuck.add(name);
  containers.config.log.warn(
    { container: name },
    `The Docker daemon did not remove the container ${name}: its commands may still run, and write to the files of their conversation. It is tried again every few seconds; if the container stays, run "docker rm -f ${name}" or restart Docker.`,
  );
}

/**
 * Resolves to how many were removed. Rejects with `sandbox.failed`, also where one of them may still be there. A container
 * of this server counts as left where no sandbox has it.
 */
export async function reap({ docker, owner, live, stuck }: Containers): Promise<number> {
  const left = await list(docker, (name, labels) =>
    labels['homard.owner'] === owner ? !live.has(name) : isLeft(labels),
  );
  const removed = await Promise.all(
    left.map(async ({ id, name }) => {
      const isGone = await removeContainer(docker.getContainer(id));
      if (!isGone) stuck.add(name);
      return isGone;
    }),
  );
  if (removed.every(Boolean)) return left.length;
  const names = left.filter((_, i) => !removed[i]).map(({ name }) => name);
  throw sandboxError('failed', `The Docker daemon did not remove containers: ${names.join(', ')}.`, {
    hint: `If they stay, run "docker rm -f ${names.join(' ')}" or restart Docker.`,
  });
}

/** Removes what could not be removed before. */
export async function retry(containers: Containers): Promise<void> {
  const names = [...containers.stuck];
  if (!names.length) return;
  try {
    await reap(containers);
  } catch {
    // As was told when it failed first.
    return;
  }
  for (const name of names) containers.stuck.delete(name);
}

async function list(
  docker: Docker,
  isWanted: (name: string, labels: Record<string, string>) => boolean,
): Promise<{ id: string; name: string }[]> {
  try {
    const options = { all: true, filters: { label: [managed] } };
    const found = await within(ASK_MS, (abortSignal) => docker.listContainers({ ...options, abortSignal }));
    return found.flatMap(({ Id: id, Names: [path = ''], Labels: labels }) => {
      const name = path.slice(1);
      return isWanted(name, labels) ? [{ id, name }] : [];
    });
  } catch (cause) {
    throw sandboxError('failed', `The containers could not be listed: ${messageOf(cause).trim()}`, { cause });
  }
}
