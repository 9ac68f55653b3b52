import { defineConfig } from 'vitest/config';

// The crash suite takes minutes: `.ci/run` and HOMARD_CRASH=1 run it. `--liftoff-only`: V8 does not optimise PGlite's
// WebAssembly in processes that live for seconds, which would take half of the time.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: process.env.HOMARD_CRASH ? [] : ['test/crash/**'],
    execArgv: ['--liftoff-only'],
    pool: 'forks',
    maxWorkers: 2,
    isolate: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
