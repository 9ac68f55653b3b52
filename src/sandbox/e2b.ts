// Virtual machines of E2B, or of a service that speaks its protocol. The workspace on the host is the record: a machine gets
// a copy, and what a command changed comes back after it, so that a machine may go away at any time.
import { openExecution } from './e2b/execution.ts';
import { createService } from './e2b/service.ts';
import type { Backend, BackendConfig, Execution } from './sandbox.ts';

/** Of a machine without commands; extended while they run. What a dead server leaves is gone after it, too. */
const LIFE_MS = 600_000;

/**
 * Needs the package `e2b` and a key; asks the service once. A time limit or an abort ends a command with its descendants
 * and all that has its mark in the environment. Where something else is found then, the machine itself is ended, with all
 * commands in it, and the next command has a new one.
 */
export async function createE2bBackend(config: BackendConfig, { lifeMs = LIFE_MS } = {}): Promise<Backend> {
  const service = await createService(config, lifeMs);
  const { template, apiUrl } = config.e2b;
  const executions = new Set<Execution>();
  const hasNetwork = config.network === 'host';
  const network = hasNetwork ? 'The internet can be reached' : 'There is no network';
  return {
    kind: 'e2b',
    capabilities: {
      isolation: 'vm',
      hasPrograms: true,
      hasNetwork,
      keepsBackground: true,
      killsAll: true,
      // A machine has memory and disk of its own, by its template; of our limits, only that of a file holds in it.
      memoryLimit: 'none',
      diskLimit: 'file',
      hasProcessLimit: false,
    },
    description: `E2B, template ${template ?? 'base'}${apiUrl ? ` at ${apiUrl}` : ''}`,
    advice: `Commands run in a Linux virtual machine with programs of its own. ${network}; only what is in /workspace is kept, and after a long pause the machine is a new one.`,
    opensEmpty: false,
    async open(slot, signal) {
      const execution = await openExecution(slot, { config, service, signal });
      executions.add(execution);
      return {
        ...execution,
        async close() {
          executions.delete(execution);
          await execution.close();
        },
      };
    },
    reap: () => service.reap(),
    async [Symbol.asyncDispose]() {
      await Promise.all([...executions].map((execution) => execution.close()));
    },
  };
}
