const WEB = /^https?:\/\/[^/?#]/i;
const MAIL = /^mailto:[^\s]/i;

/** `href` if it may be followed: an absolute web address without user name or password, or a mail address. */
export function safeHref(href: string): string | undefined {
  if (MAIL.test(href)) return href;
  if (!WEB.test(href) || !URL.canParse(href)) return undefined;
  const url = new URL(href);
  // `https://bank.example@evil.example/` reads as the bank.
  return url.username || url.password ? undefined : href;
}

export function hostOf(href: string): string {
  return URL.canParse(href) ? new URL(href).host : '';
}

export function linkProps(href: string): Record<string, string> {
  return { href, target: '_blank', rel: 'noopener noreferrer nofollow' };
}
