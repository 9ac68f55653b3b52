// Where commands run, as people read it.
import { shallowRef } from 'vue';
import type { SandboxView } from '../api/types.ts';
import { getSandbox } from '../api/workspace.ts';
import { t } from '../i18n.ts';

/** Null until it was read. */
export const sandbox = shallowRef<SandboxView | null>(null);

export async function loadSandbox(): Promise<void> {
  sandbox.value = await getSandbox();
}

/** One sentence, and whether it is a warning. */
export function describeSandbox(view: SandboxView): { text: string; isWarning: boolean } {
  if (view.kind === 'off') return { text: t('sandbox.off'), isWarning: false };
  const { description: name, isolation, hasNetwork } = view;
  const network = t(hasNetwork ? 'sandbox.withNetwork' : 'sandbox.withoutNetwork');
  return { text: t(`sandbox.${isolation}`, { name, network }), isWarning: isolation === 'none' };
}
