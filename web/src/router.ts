import { createRouter, createWebHistory } from 'vue-router';
import { loadMessageList } from './chat/message-list.ts';

/** Side by side, where both are needed at once. */
export async function loadChat() {
  const page = import('./pages/ChatPage.vue');
  if (!location.pathname.endsWith('/c/new') && location.pathname !== '/') await loadMessageList();
  return await page;
}

export const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: '/', redirect: '/c/new' },
    { path: '/c/:id', name: 'chat', component: loadChat },
    { path: '/setup', name: 'setup', component: () => import('./pages/SetupPage.vue') },
    { path: '/settings', name: 'settings', component: () => import('./pages/SettingsPage.vue') },
    { path: '/sign-in', name: 'sign-in', component: () => import('./pages/SignInPage.vue'), meta: { isBare: true } },
    { path: '/:rest(.*)*', name: 'not-found', component: () => import('./pages/NotFoundPage.vue') },
  ],
});
