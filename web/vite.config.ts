import { fileURLToPath } from 'node:url';
import ui from '@nuxt/ui/vite';
import vue from '@vitejs/plugin-vue';
import type { ProxyOptions } from 'vite';
import { defineConfig } from 'vite';

const api = [
  '/chat',
  '/conversations',
  '/runs',
  '/files',
  '/approvals',
  '/events',
  '/models',
  '/usage',
  '/health',
  '/sandbox',
  '/setup',
];
// For `npm run dev -w web`: a server that runs beside it, asked with its token in place of the sign-in cookie.
const { HOMARD_PORT = '4680', HOMARD_TOKEN } = process.env;
const target = `http://127.0.0.1:${HOMARD_PORT}`;
const proxy: ProxyOptions = {
  target,
  changeOrigin: true,
  // The server takes requests from its own pages only; while developing, those are the pages of this one.
  configure: (server) =>
    server.on('proxyReq', (out, { headers }) => {
      if (headers.origin === `http://${headers.host}`) out.setHeader('origin', target);
    }),
  // One address is both: a page for who opens it, data for who asks for JSON.
  bypass: ({ headers }) => (headers.accept?.includes('text/html') ? '/index.html' : undefined),
  ...(HOMARD_TOKEN && { headers: { authorization: `Bearer ${HOMARD_TOKEN}` } }),
};

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [
    vue(),
    ui({
      autoImport: false,
      dts: true,
      // Every literal `i-lucide-*` in the sources is bundled; nothing is ever asked of an icon server.
      icon: { clientBundle: { scan: { globInclude: ['src/**/*.{vue,ts}'] }, sizeLimitKb: 512 } },
      ui: {
        colors: {
          primary: 'homard',
          neutral: 'stone',
          success: 'emerald',
          warning: 'amber',
          error: 'rose',
          info: 'sky',
        },
        button: {
          slots: { base: 'cursor-pointer' },
          // The kit's 75 % leave too little contrast under the pointer.
          compoundVariants: (['primary', 'error'] as const).map((color) => ({
            color,
            variant: 'solid' as const,
            class: `hover:bg-${color}/90 active:bg-${color}/90`,
          })),
        },
      },
    }),
  ],
  server: { proxy: Object.fromEntries(api.map((path) => [`^${path}(/|\\?|$)`, proxy])) },
  build: {
    target: 'es2022',
    // A font as a data: address would need a wider CSP.
    assetsInlineLimit: (file) => (/\.woff2?$/.test(file) ? false : undefined),
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false,
  },
});
