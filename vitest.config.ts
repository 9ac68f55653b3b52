import { defineConfig } from 'vitest/config';

// The crash suite takes minutes: `.ci/run` and HOMARD_CRASH=1 run it.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: process.env.HOMARD_CRASH ? [] : ['test/crash/**'],
    pool: 'forks',
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
