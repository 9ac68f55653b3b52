// The conformance suite over every kind of sandbox. Without HOMARD_SANDBOX only what needs no privileges and ends in a
// moment; with it everything, and for docker a daemon: scripts/dockerd.sh env HOMARD_SANDBOX=1 vitest run <this file>.
import { afterAll, beforeAll, describe, test } from 'vitest';
import { createBwrapBackend } from '../../src/sandbox/bwrap.ts';
import { createDockerBackend } from '../../src/sandbox/docker.ts';
import { createE2bBackend } from '../../src/sandbox/e2b.ts';
import { createLocalBackend } from '../../src/sandbox/local.ts';
import type { SandboxKind } from '../../src/sandbox/sandbox.ts';
import { createUnshareBackend } from '../../src/sandbox/unshare.ts';
import { createVirtualBackend } from '../../src/sandbox/virtual.ts';
import { createE2bServer } from '../../src/testing/e2b-server.ts';
import type { SandboxUnderTest } from '../../src/testing/sandbox.ts';
import { createSandboxUnderTest, measureSandbox, sandboxSuite } from '../../src/testing/sandbox.ts';

const { HOMARD_SANDBOX, HOMARD_DOCKER_SOCKET: socket = '', HOMARD_DOCKER_IMAGE: image = '' } = process.env;
const isFull = Boolean(HOMARD_SANDBOX);

const kinds: Record<SandboxKind, () => Promise<SandboxUnderTest>> = {
  bwrap: () => createSandboxUnderTest(createBwrapBackend),
  unshare: () => createSandboxUnderTest(createUnshareBackend),
  docker: () => createSandboxUnderTest(createDockerBackend, { docker: { socket, image } }),
  e2b: createE2bUnderTest,
  virtual: () => createSandboxUnderTest(createVirtualBackend),
  local: () => createSandboxUnderTest(createLocalBackend),
};

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

/** Of the quick cases of virtual only these: each sandbox is a process that takes a third of a second to start. */
const isWanted = (kind: string, name: string, isSlow: boolean): boolean =>
  isFull || (kind === 'local' ? !isSlow : kind === 'virtual' && /SBX-(06|07|17)/.test(name));

const wanted = Object.entries(kinds).map(([kind, create]) => {
  const cases = sandboxSuite.filter(({ name, isSlow }) => isWanted(kind, name, isSlow));
  return { kind, create, cases };
});

describe.each(wanted.filter(({ cases }) => cases.length))('$kind', ({ kind, create, cases }) => {
  let shared: SandboxUnderTest;
  const gaps: string[] = [];
  const share = () => Promise.resolve({ ...shared, [Symbol.asyncDispose]: () => Promise.resolve() });

  beforeAll(async () => {
    shared = await create();
  });
  afterAll(async () => {
    if (isFull) console.log(`${kind}, p50 in ms: ${JSON.stringify(await measureSandbox(shared, 15))}`);
    if (isFull && gaps.length) console.log(`${kind} lacks what these cases need:\n${gaps.join('\n')}`);
    await shared[Symbol.asyncDispose]();
  });

  for (const { name, endsBackend, lacks, run } of cases) {
    test(`SBX-01 ${kind}: ${name}`, { timeout: 90_000 }, async ({ skip }) => {
      const missing = lacks(shared.backend.capabilities).join(', ');
      if (missing) gaps.push(`  ${name}: ${missing}`);
      skip(missing !== '', missing);
      await run(endsBackend ? create : share);
    });
  }
});
