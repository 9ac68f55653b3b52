import type { Environment } from 'vitest/runtime';

/** Node without a DOM, but components are compiled as for a browser: the default of vitest compiles them to strings. */
// oxlint-disable-next-line import/no-default-export -- vitest reads an environment from there
export default {
  name: 'client-without-dom',
  viteEnvironment: 'client',
  setup: () => ({ teardown() {} }),
} satisfies Environment;
