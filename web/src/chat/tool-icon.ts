// A tool may name its icon. Only these are bundled (the bundler reads literals); any other becomes a wrench.
const known = new Set([
  'i-lucide-bot',
  'i-lucide-brain',
  'i-lucide-calendar-clock',
  'i-lucide-clock',
  'i-lucide-database',
  'i-lucide-dices',
  'i-lucide-file-pen',
  'i-lucide-file-text',
  'i-lucide-folder',
  'i-lucide-globe',
  'i-lucide-graduation-cap',
  'i-lucide-library',
  'i-lucide-mail',
  'i-lucide-megaphone',
  'i-lucide-pencil',
  'i-lucide-plug',
  'i-lucide-search',
  'i-lucide-terminal',
  'i-lucide-users',
]);

export function toolIcon(icon: string | undefined): string {
  if (icon === undefined) return 'i-lucide-wrench';
  const name = icon.startsWith('i-') ? icon : `i-lucide-${icon.replace(/^lucide[:-]/, '')}`;
  return known.has(name) ? name : 'i-lucide-wrench';
}
