// What looks like a secret is not shown: in the arguments and results of calls, as events and pages have them. The readable
// files of conversations are the record of their owner, and have all of it.
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
  /(?<![\w-])eyJ[\w-]{10,4000}\.[\w-]{10,8000}\.[\w-]{10,2000}/g,
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:\s{0,4}[A-Za-z0-9+/=]{40,80})*(?:(?:\s{0,4}[A-Za-z0-9+/=]{1,80})?\s{0,4}-----END [A-Z ]{0,30}PRIVATE KEY-----)?/g,
];

/** What stands before the value stays. */
const assignments: readonly RegExp[] = [
  /(\b(?:Bearer|Basic) )[A-Za-z0-9._~+/=-]{16,}/g,
  /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@]{0,100}:)[^\s@/]{1,200}(?=@)/gi,
  // NAME=value and "name": "value", where the name says what it is; a value in quotes goes to its end.
  /(\b[A-Za-z0-9_-]{0,60}(?:API_?KEY|ACCESS_?KEY|SECRET|PRIVATE_?KEY|TOKEN|PASSWORD|PASSWD|PASSPHRASE)(?:_[A-Z0-9_]{1,40})?["']?\s{0,4}[=:]\s{0,4})(?:"(?:[^"\\\n]|\\.){1,2000}"|'[^'\n]{1,2000}'|(?![$"'])[^\s"',;&]{6,})/g,
  /("(?:[a-z][A-Za-z0-9]{0,40}(?:ApiKey|AccessKey|Secret|PrivateKey|Token|Password)|apiKey|accessKey|secret|privateKey|token|password|passwd)"\s{0,4}:\s{0,4})"(?:[^"\\\n]|\\.){1,2000}"/g,
];

const secretNames =
  /(?:^|[-_.]|(?<=[a-z])(?=[A-Z]))(?:api[-_]?key|access[-_]?key|token|secret|pass(?:word|wd|phrase)|private[-_]?key|authorization|cookie)$/i;

/** `names`: further keys of arguments and results whose values are secrets, in any case. */
export function createMask(names: readonly string[] = []): Mask {
  const further = new Set(names.map((name) => name.toLowerCase()));
  const isSecret = (name: string) => secretNames.test(name) || further.has(name.toLowerCase());

  function mask(value: Json): Json {
    if (typeof value === 'string') return maskText(value);
    if (Array.isArray(value)) return value.map(mask);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, isSecret(name) ? hide(item) : mask(item)]),
    );
  }
  return mask;
}

/** Of what stands under the name of a secret only the shape is shown. */
function hide(value: Json): Json {
  if (Array.isArray(value)) return value.map(hide);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, hide(item)]));
  }
  return (typeof value === 'string' && value !== '') || typeof value === 'number' ? HIDDEN : value;
}

function maskText(text: string): string {
  let masked = text;
  for (const form of forms) masked = masked.replace(form, HIDDEN);
  for (const assignment of assignments) masked = masked.replace(assignment, hideValue);
  return masked;
}

/** What a shell would run: whoever is asked about a command must see it, whatever it is assigned to. */
const CODE = /[`|<>;&(]|\$[{A-Za-z_]/;

/** Quotes around a value stay, so that what was JSON is still JSON. */
function hideValue(whole: string, before: string): string {
  if (CODE.test(whole.slice(before.length))) return whole;
  const quote = /["']/.exec(whole[before.length] ?? '')?.[0] ?? '';
  return before + quote + HIDDEN + quote;
}
