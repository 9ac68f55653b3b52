// The conformance suite over namespaces of this machine.
import { createBwrapBackend } from '../../src/sandbox/bwrap.ts';
import { createUnshareBackend } from '../../src/sandbox/unshare.ts';
import { createSandboxUnderTest } from '../../src/testing/sandbox.ts';
import { conform } from './conform.ts';

conform('bwrap', () => createSandboxUnderTest(createBwrapBackend));
conform('unshare', () => createSandboxUnderTest(createUnshareBackend));
