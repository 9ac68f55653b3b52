// What a run has beside its assembly: the environment of its commands, and its sandbox, which ends with it.
import type { Seal } from '../access/seal.ts';
import { createScrub } from '../access/scrub.ts';
import type { Assembly, Claim } from '../kernel/index.ts';
import type { Equipment, Sandboxes } from '../sandbox/sandboxes.ts';

export interface EquipConfig {
  sandboxes: Sandboxes;
  /** What every command gets beside. */
  secrets: Readonly<Record<string, string>>;
  seal: Seal;
}

/** Throws `access.seal_broken` where what the client sent cannot be read any more. */
export function equip({ run, request }: Claim, config: EquipConfig): Pick<Assembly, 'scrub' | 'close'> {
  const { sandboxes, secrets, seal } = config;
  // It was parsed when it came in; nobody can have changed what is sealed.
  const sent = typeof request.sealed === 'string' ? (JSON.parse(seal.open(request.sealed)) as Equipment) : {};
  const close = sandboxes.expect(run, sent);
  const scrub = createScrub([...Object.values(secrets), ...Object.values(sent.secrets ?? {})]);
  return { close, ...(scrub && { scrub }) };
}
