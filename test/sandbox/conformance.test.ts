// The conformance suite over sandboxes that need no privileges; without HOMARD_SANDBOX only what ends in a moment.
import { createE2bBackend } from '../../src/sandbox/e2b.ts';
import { createLocalBackend } from '../../src/sandbox/local.ts';
import { createVirtualBackend } from '../../src/sandbox/virtual.ts';
import { createE2bServer } from '../../src/testing/e2b-server.ts';
import type { SandboxUnderTest } from '../../src/testing/sandbox.ts';
import { createSandboxUnderTest } from '../../src/testing/sandbox.ts';
import { conform } from './conform.ts';

const isFull = Boolean(process.env.HOMARD_SANDBOX);

if (isFull) conform('e2b', createE2bUnderTest);
// Each sandbox is a process that takes a third of a second to start.
conform(
  'virtual',
  () => createSandboxUnderTest(createVirtualBackend),
  isFull ? undefined : ({ name, isSlow }) => !isSlow && /SBX-(06|07|17)/.test(name),
);
conform('local', () => createSandboxUnderTest(createLocalBackend), isFull ? undefined : ({ isSlow }) => !isSlow);

/** Its machines are a stand-in, which share this host: what the back end says of isolation holds for real ones only. */
async function createE2bUnderTest(): Promise<SandboxUnderTest> {
  const server = await createE2bServer();
  const e2b = { apiUrl: server.url, sandboxUrl: server.url, apiKey: server.apiKey };
  return createSandboxUnderTest(
    async (config) => {
      const backend = await createE2bBackend(config);
      return {
        ...backend,
        capabilities: { ...backend.capabilities, isolation: 'none' },
        async [Symbol.asyncDispose]() {
          await backend[Symbol.asyncDispose]();
          await server[Symbol.asyncDispose]();
        },
      };
    },
    { e2b },
  );
}
