// Strings and JSON as YAML 1.2 that every stock parser reads back unchanged: as a block where all of it can be seen, else
// in double quotes with escapes.

/** What YAML allows to stand as it is and no reader takes for a line break or drops: without CR, NEL, LS, PS and BOM. */
const HIDDEN = String.raw`\0-\x08\x0B-\x1F\x7F-\x9F\u2028\u2029\uFEFF\uFFFE\uFFFF`;
const LONE = String.raw`[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]`;
const NEEDS_ESCAPE = new RegExp(`[${HIDDEN}]|${LONE}`);
const ESCAPED = new RegExp(String.raw`["\\\n\t${HIDDEN}]|${LONE}`, 'g');

const SHORT: Record<string, string> = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\t': '\\t', '\r': '\\r' };

/** A line of blanks, at whose end readers differ; or blanks at the end of the text. */
const BLANK_END = /(?:^|\n)[ \t]+(?:\n|$)|[ \t]$/;

/** The deepest and longest that is written as a map: parsers call themselves for each level, and some limit keys. */
const MAX_DEPTH = 50;
const MAX_KEY = 500;

/** Can it be shown as a block of lines? */
export function isPlain(text: string): boolean {
  return text !== '' && !NEEDS_ESCAPE.test(text) && !BLANK_END.test(text) && !/^\n*$/.test(text);
}

/** A scalar for behind `key: `, its lines indented by `indent`; without a line break at its end where it is quoted. */
export function toScalar(text: string, indent: string): string {
  if (!isPlain(text)) return toQuoted(text);
  const first = /^[ \t\n]/.test(text) ? '2' : '';
  const end = !text.endsWith('\n') ? '-' : text.endsWith('\n\n') ? '+' : '';
  const lines = text.replaceAll(/^(?=[^\n])/gm, indent);
  return `|${first}${end}\n${end === '-' ? lines : lines.slice(0, -1)}`;
}

export function toQuoted(text: string): string {
  const escaped = text.replaceAll(
    ESCAPED,
    (unit) => SHORT[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped}"`;
}

/** JSON on one line, with the blanks that YAML wants; undefined for what is too deep or has too long keys. */
export function toFlow(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return toQuoted(value);
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  if (depth === MAX_DEPTH) return undefined;
  const parts: string[] = [];
  const isList = Array.isArray(value);
  for (const [key, item] of Object.entries(value)) {
    const text = toFlow(item, depth + 1);
    if (text === undefined || key.length > MAX_KEY) return undefined;
    parts.push(isList ? text : `${toQuoted(key)}: ${text}`);
  }
  return isList ? `[${parts.join(', ')}]` : `{${parts.join(', ')}}`;
}
