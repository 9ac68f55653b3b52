import { defineConfig } from 'vitest/config';

// What takes minutes, starts the command line many times or needs Chromium runs in `.ci/run`, and where its variable is set.
const apart = {
  HOMARD_CRASH: ['test/crash/**'],
  HOMARD_BROWSER: ['test/browser/**'],
  HOMARD_E2E: ['test/e2e/{care,chat,init}.test.ts', 'test/store/{archive,grow,scale}.test.ts'],
};

// `--liftoff-only`: V8 does not optimise PGlite's WebAssembly in processes that live for seconds, which would take half of
// the time.
export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: 'server',
          include: ['test/**/*.test.ts'],
          exclude: Object.entries(apart).flatMap(([name, files]) => (process.env[name] ? [] : files)),
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
