import { language, t } from '../i18n.ts';

const locale = () => (language.value === 'zh' ? 'zh-CN' : 'en-GB');

export function formatMs(ms: number): string {
  if (ms < 1000) return t('time.ms', { ms: Math.round(ms) });
  if (ms < 10_000) return t('time.s', { s: (ms / 1000).toFixed(1) });
  if (ms < 60_000) return t('time.s', { s: Math.round(ms / 1000) });
  return t('time.min', { m: Math.floor(ms / 60_000), s: Math.round((ms % 60_000) / 1000) });
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export const formatNumber = (value: number): string => value.toLocaleString(locale());

export const formatCost = (usd: number): string =>
  usd.toLocaleString(locale(), {
    style: 'currency',
    currency: 'USD',
    minimumSignificantDigits: 1,
    maximumSignificantDigits: 3,
  });

/** The time, with the day where it is not today. */
export function formatAt(time: string | number): string {
  const at = new Date(time);
  const isToday = at.toDateString() === new Date().toDateString();
  const clock = { hour: '2-digit', minute: '2-digit' } as const;
  return at.toLocaleString(locale(), isToday ? clock : { month: 'short', day: 'numeric', ...clock });
}
