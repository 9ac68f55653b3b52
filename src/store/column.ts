/**
 * Any string as a text that PostgreSQL stores and compares byte for byte: NUL, lone surrogates and the byte order mark
 * (which decoders drop), and `%` so that it can be undone, become `%` and four hex digits. Two different strings never
 * become the same.
 */
export function toColumn(text: string): string {
  return NEEDS_CARE.test(text)
    ? text.replace(ESCAPED, (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    : text;
}

export function fromColumn(column: string): string {
  return column.replace(/%([0-9a-f]{4})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const LONE = String.raw`[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]`;
const ESCAPED = new RegExp(String.raw`[%\0\uFEFF]|${LONE}`, 'g');
const NEEDS_CARE = /[%\0\uFEFF\uD800-\uDFFF]/;
