// Whose a container is: labels by which a later server tells what a dead one left from what a live one uses.
import { isAlive, thisServer } from '../server-process.ts';

/** Of no use to tell who is alive on another host; no sandbox is used as long as this. */
const LIFE_MS = 24 * 3_600_000;

export const managed = 'homard.managed';

export function createLabels(owner: string): Record<string, string> {
  const { host, pid, started } = thisServer();
  return {
    [managed]: '1',
    'homard.owner': owner,
    'homard.host': host,
    'homard.pid': String(pid),
    'homard.started': started,
    'homard.deadline': new Date(Date.now() + LIFE_MS).toISOString(),
  };
}

/** Its server is dead; on another host, where nobody can tell, its deadline has passed. */
export function isLeft(labels: Record<string, string>): boolean {
  const { 'homard.host': host = '', 'homard.pid': pid = '', 'homard.started': started = '' } = labels;
  const lives = isAlive({ host, pid: Number(pid) || 0, started });
  return lives === undefined ? Date.parse(labels['homard.deadline'] ?? '') < Date.now() : !lives;
}
