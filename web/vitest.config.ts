import { fileURLToPath } from 'node:url';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [vue()],
  test: {
    include: ['test/**/*.test.ts'],
    // Node without a DOM. The plain `node` would compile components to strings, not to what a browser runs.
    environment: './test/md/client-environment.ts',
    testTimeout: 30_000,
  },
});
