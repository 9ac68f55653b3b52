import { defineConfig } from 'vitest/config';

// The crash suite takes minutes and the browser suite needs Chromium: `.ci/run` runs both, and so do HOMARD_CRASH=1 and
// HOMARD_BROWSER=1. `--liftoff-only`: V8 does not optimise PGlite's WebAssembly in processes that live for seconds, which
// would take half of the time.
export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: 'server',
          include: ['test/**/*.test.ts'],
          exclude: [
            ...(process.env.HOMARD_CRASH ? [] : ['test/crash/**']),
            ...(process.env.HOMARD_BROWSER ? [] : ['test/browser/**']),
          ],
          execArgv: ['--liftoff-only'],
          pool: 'forks',
          isolate: false,
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      'web',
    ],
  },
});
