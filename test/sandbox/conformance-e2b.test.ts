// The conformance suite over E2B. Its machines are a stand-in, which share this host: what the back end says of isolation holds
// for real ones only.
import { createE2bBackend } from '../../src/sandbox/e2b.ts';
import { createE2bServer } from '../../src/testing/e2b-server.ts';
import type { SandboxUnderTest } from '../../src/testing/sandbox.ts';
import { createSandboxUnderTest } from '../../src/testing/sandbox.ts';
import { conform } from './conform.ts';

conform('e2b', createE2bUnderTest);

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
