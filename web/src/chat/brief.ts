// The one line that a closed row tells of a call.
import type { Json } from '../api/types.ts';
import { fieldsOf, toText } from './json-text.ts';

const MOST_CHARS = 300;

const of: Record<string, (args: Record<string, Json>) => string> = {
  Bash: ({ description, command }) => textOf(description) || firstLine(textOf(command)),
  Read: ({ path, offset }) => textOf(path) + (typeof offset === 'number' && offset > 1 ? `:${offset}` : ''),
  Write: ({ path }) => textOf(path),
  Edit: ({ path }) => textOf(path),
  List: ({ path }) => textOf(path),
  Glob: ({ pattern, path }) => textOf(pattern) + inside(path),
  Grep: ({ pattern, path }) => textOf(pattern) + inside(path),
};

const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';
const inside = (path: Json | undefined): string => (textOf(path) ? ` · ${textOf(path)}` : '');

/** What matters of the calls that every server has, else the arguments one after the other. */
export function briefOf(name: string, args: Json): string {
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
  const own = isObject && Object.hasOwn(of, name) ? of[name]!(args) : '';
  const all = () =>
    fieldsOf(args)
      .map(([, value]) => toText(value))
      .join(' · ');
  return (own || all()).slice(0, MOST_CHARS);
}
