// The conformance suite over sandboxes that need no privileges; without HOMARD_SANDBOX only what ends in a moment.
import { createLocalBackend } from '../../src/sandbox/local.ts';
import { createVirtualBackend } from '../../src/sandbox/virtual.ts';
import { createSandboxUnderTest } from '../../src/testing/sandbox.ts';
import { conform } from './conform.ts';

const isFull = Boolean(process.env.HOMARD_SANDBOX);

// Each sandbox is a process that takes a third of a second to start.
conform(
  'virtual',
  () => createSandboxUnderTest(createVirtualBackend),
  isFull ? undefined : ({ name, isSlow }) => !isSlow && /SBX-(06|07|17)/.test(name),
);
conform('local', () => createSandboxUnderTest(createLocalBackend), isFull ? undefined : ({ isSlow }) => !isSlow);
