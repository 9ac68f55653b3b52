import { defineConfig } from 'vitest/config';

// What takes minutes, starts the command line many times or needs Chromium runs in `.ci/run`, and where its variable is set.
const apart = {
  HOMARD_CRASH: ['test/crash/**', 'test/store/pglite.test.ts'],
  HOMARD_BROWSER: ['test/browser/**'],
  HOMARD_SANDBOX: ['test/sandbox/{bwrap,cgroup,conformance-{e2b,namespaces},life,one-shot,unshare}.test.ts'],
  // scripts/dockerd.sh sets it. One after another: they count what is left in the daemon.
  HOMARD_DOCKER_SOCKET: ['test/sandbox/{docker,conformance-docker}.test.ts'],
  // What measures memory and disk of the machine has it for itself.
  HOMARD_ALONE: ['test/sandbox/{attacks,disk-watch,watchdog}.test.ts'],
  HOMARD_LONG: [
    'test/e2e/{care,chat,cli,init}.test.ts',
    'test/memory/{transcripts,transcript-start}.test.ts',
    'test/server/{degraded,durability,file-models,full-disk,setup}.test.ts',
    'test/store/{archive,grow,journal,scale,template}.test.ts',
  ],
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
          include: process.env.HOMARD_LONG === 'only' ? apart.HOMARD_LONG : ['test/**/*.test.ts'],
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
