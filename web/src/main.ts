import { _api } from '@iconify/vue';
import ui from '@nuxt/ui/vue-plugin';
import { createApp } from 'vue';
import { askForPage } from './api/conversations.ts';
import App from './App.vue';
import { loadLanguage, startLanguage } from './i18n.ts';
import { loadChat, router } from './router.ts';

// Every icon is bundled; a missing one must be a visible bug, never a request to the internet.
_api.setFetch((url: string | URL | Request) => {
  console.error('icon not bundled', String(url));
  return Promise.reject(new TypeError('offline'));
});

askForPage(location.pathname);
if (location.pathname.startsWith('/c/')) void loadChat();
await loadLanguage(startLanguage());
createApp(App).use(router).use(ui).mount('#app');
