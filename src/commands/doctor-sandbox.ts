// What homard doctor looks at of sandboxes: the one that a server here would have, and why not a stronger one.
import type { Log } from '../kernel/index.ts';
import { messageOf } from '../kernel/index.ts';
import { automatic, chooseBackend, createBackend } from '../sandbox/backends.ts';
import type { SandboxConfig } from '../sandbox/config.ts';
import type { Collect } from './doctor.ts';

export async function inspectSandbox(
  config: SandboxConfig,
  { collect, hidden, log }: { collect: Collect; hidden: readonly string[]; log: Log },
): Promise<void> {
  const given = { config, environment: process.env, hidden, log };
  await collect('sandbox', async () => {
    const backend = await chooseBackend(given);
    if (!backend) {
      const hint = 'Set sandbox.kind to auto in homard.config.yaml to give the assistant commands and files.';
      return { state: 'ok', message: 'off, as configured', hint };
    }
    await using chosen = backend;
    const { kind, description, capabilities } = chosen;
    const message = `${kind}: ${description}; isolation: ${capabilities.isolation}`;
    const stronger =
      config.kind === 'auto'
        ? automatic.slice(
            0,
            automatic.findIndex((name) => name === kind),
          )
        : [];
    const refusals: string[] = [];
    for (const name of stronger) refusals.push(`${name}: ${await refusalOf(() => createBackend(name, given))}`);
    if (!refusals.length) return { state: 'ok', message };
    return { state: 'warning', message, hint: `Stronger ones do not work here. ${refusals.join(' ')}` };
  });
}

async function refusalOf(create: () => Promise<AsyncDisposable>): Promise<string> {
  try {
    await (await create())[Symbol.asyncDispose]();
    return 'it works now.';
  } catch (error) {
    return messageOf(error);
  }
}
