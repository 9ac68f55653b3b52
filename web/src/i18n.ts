// Texts in two languages: typed keys, one lazy file a language, `{name}` is replaced, `one|many` chosen by `n`.
import { ref, shallowRef } from 'vue';
import type { Messages } from './locales/en.ts';

export type Language = 'en' | 'zh';
export type MessageKey = keyof Messages;

const files: Record<Language, () => Promise<{ messages: Messages }>> = {
  en: () => import('./locales/en.ts'),
  zh: () => import('./locales/zh.ts'),
};
const messages = shallowRef<Partial<Messages>>({});

export const language = ref<Language>('en');

export function startLanguage(): Language {
  return document.documentElement.lang.startsWith('zh') ? 'zh' : 'en';
}

export async function loadLanguage(wanted: Language): Promise<void> {
  messages.value = (await files[wanted]()).messages;
  language.value = wanted;
  document.documentElement.lang = wanted === 'zh' ? 'zh-CN' : 'en';
}

/** The reader's choice: kept for the next visit. */
export async function chooseLanguage(wanted: Language): Promise<void> {
  await loadLanguage(wanted);
  localStorage.setItem('homard-language', wanted);
}

export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  const text = messages.value[key] ?? key;
  const [one = '', many = one] = text.split('|');
  const form = values.n === 1 ? one : many;
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
