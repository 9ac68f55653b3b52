// The conformance suite of the sandbox back ends: a plain array, free of any test runner. Every case opens sandboxes of its
// own, and tells what it needs of the capabilities, never of the kind. Nothing in it is endless: on a back end that
// isolates less than it says, the attacks stop by themselves.
import type { SandboxCapabilities } from '../sandbox/sandbox.ts';
import type { Case, SandboxUnderTest } from './sandbox-bench.ts';
import { runOnBench } from './sandbox-bench.ts';
import { commandCases } from './sandbox-commands.ts';
import { endingCases } from './sandbox-endings.ts';
import { fileCases } from './sandbox-files.ts';
import { isolationCases } from './sandbox-isolation.ts';
import { expectEndOfBackend, lifeCases } from './sandbox-life.ts';
import { limitCases } from './sandbox-limits.ts';

export { createSandboxUnderTest } from './sandbox-bench.ts';
export type { OpenSandbox, SandboxUnderTest } from './sandbox-bench.ts';
export { measureSandbox } from './sandbox-life.ts';
export type { SandboxTimes } from './sandbox-life.ts';

export interface SandboxCase {
  name: string;
  /** Takes more than about a second. */
  isSlow: boolean;
  /** Disposes the back end, which must not be one that others use. */
  endsBackend: boolean;
  /** What a back end with these capabilities lacks for it, in words: it is to be skipped where there is anything. */
  lacks(capabilities: SandboxCapabilities): string[];
  /** Rejects with an assertion error. Calls `create` once and disposes what it got. */
  run(create: () => Promise<SandboxUnderTest>): Promise<void>;
}

function toCase({ name, isSlow = false, needs, body }: Case): SandboxCase {
  return {
    name,
    isSlow,
    endsBackend: false,
    lacks(capabilities) {
      const wanted = Object.entries(needs?.(capabilities) ?? {});
      return wanted.filter(([, isThere]) => !isThere).map(([words]) => words);
    },
    async run(create) {
      await using subject = await create();
      await runOnBench(subject, body);
    },
  };
}

const lastCase: SandboxCase = {
  name: 'the end of a back end is the end of all that it made',
  isSlow: false,
  endsBackend: true,
  lacks: () => [],
  async run(create) {
    await using subject = await create();
    await expectEndOfBackend(subject);
  },
};

const cases = [...commandCases, ...endingCases, ...fileCases, ...isolationCases, ...limitCases, ...lifeCases];

export const sandboxSuite: SandboxCase[] = [...cases.map(toCase), lastCase];
