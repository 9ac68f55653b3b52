import { useToast } from '@nuxt/ui/composables';
import { describeError } from '../api/http.ts';
import { t } from '../i18n.ts';

/** For what the user just did; anything else is told in its place on the page. */
export function useErrorToast() {
  const toast = useToast();
  return (error: unknown): void => {
    const { code, message, hint } = describeError(error);
    const title = code === 'web.unreachable' ? t('error.unreachable') : message;
    toast.add({ title, description: hint, color: 'error', icon: 'i-lucide-circle-x' });
  };
}
