// Makes tests of the cases that every sandbox must pass.
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { SandboxCase, SandboxUnderTest } from '../../src/testing/sandbox.ts';
import { measureSandbox, sandboxSuite } from '../../src/testing/sandbox.ts';

/** The whole suite, or of it what is wanted; the whole one also measures. */
export function conform(
  kind: string,
  create: () => Promise<SandboxUnderTest>,
  isWanted?: (one: SandboxCase) => boolean,
): void {
  describe(kind, () => {
    let shared: SandboxUnderTest;
    const gaps: string[] = [];
    const share = () => Promise.resolve({ ...shared, [Symbol.asyncDispose]: () => Promise.resolve() });

    beforeAll(async () => {
      shared = await create();
    });
    afterAll(async () => {
      if (!isWanted) console.log(`${kind}, p50 in ms: ${JSON.stringify(await measureSandbox(shared, 15))}`);
      if (!isWanted && gaps.length) console.log(`${kind} lacks what these cases need:\n${gaps.join('\n')}`);
      await shared[Symbol.asyncDispose]();
    });

    for (const { name, endsBackend, lacks, run } of sandboxSuite.filter(isWanted ?? (() => true))) {
      test(`SBX-01 ${kind}: ${name}`, { timeout: 90_000 }, async ({ skip }) => {
        const missing = lacks(shared.backend.capabilities).join(', ');
        if (missing) gaps.push(`  ${name}: ${missing}`);
        skip(missing !== '', missing);
        await run(endsBackend ? create : share);
      });
    }
  });
}
