// What looks like a secret is not shown: in the arguments and results of calls, as events, pages and transcripts have them.
import type { Json, Mask } from '../kernel/index.ts';

const HIDDEN = '***';

/** Values by their form. Each matches in time linear to the text. */
const forms: readonly RegExp[] = [
  /\b(?:sk|rk|pk)-[A-Za-z0-9_-]{20,}/g,
  /\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}/g,
  /\bgh[pousr]_[A-Za-z0-9]{30,}/g,
  /\bgithub_pat_[A-Za-z0-9_]{30,}/g,
  /\bglpat-[A-Za-z0-9_-]{20,}/g,
  /\bxox[abeprs]-[A-Za-z0-9-]{10,}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g,
  /\bAIza[0-9A-Za-z_-]{35}/g,
  /\b(?:npm|hf)_[A-Za-z0-9]{30,}/g,
  /\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}/g,
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s]*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?/g,
];

/** What stands before the value stays. */
const assignments: readonly RegExp[] = [
  /(\b(?:Bearer|Basic) )[A-Za-z0-9._~+/=-]{16,}/g,
  /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@]{1,100}:)[^\s@/]{1,200}(?=@)/gi,
  /(\b[A-Z0-9_]{0,60}(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD)\s?[=:]\s?["']?)[^\s"'$]{6,}/g,
];

const secretNames =
  /^(?:x[-_])?(?:api[-_]?key|(?:access|refresh|id|auth|bearer)?[-_]?token|(?:client[-_]?)?secret|pass(?:word|wd|phrase)|private[-_]?key|authorization|cookie|set-cookie)$/i;

/** `names`: further keys of arguments and results whose values are secrets, in any case. */
export function createMask(names: readonly string[] = []): Mask {
  const further = new Set(names.map((name) => name.toLowerCase()));
  const isSecret = (name: string) => secretNames.test(name) || further.has(name.toLowerCase());

  function mask(value: Json): Json {
    if (typeof value === 'string') return maskText(value);
    if (Array.isArray(value)) return value.map(mask);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, isSecret(name) && isTold(item) ? HIDDEN : mask(item)]),
    );
  }
  return mask;
}

const isTold = (value: Json): boolean => (typeof value === 'string' && value !== '') || typeof value === 'number';

function maskText(text: string): string {
  let masked = text;
  for (const form of forms) masked = masked.replace(form, HIDDEN);
  for (const assignment of assignments) masked = masked.replace(assignment, `$1${HIDDEN}`);
  return masked;
}
