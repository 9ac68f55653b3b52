// Where the `$ref`s of a JSON Schema lead.
import type { Json } from '../kernel/messages.ts';
import { isRecord } from './json.ts';

export type Schema = { [key: string]: Json };

export const isSchema = (value: unknown): value is Schema => isRecord(value);

/** The part of a document within which `#` means its beginning. */
export interface Place {
  schema: Json;
  resource: Schema;
}

export interface Refs {
  /** Undefined where it leads nowhere, or out of the document. */
  resolve(ref: string, resource: Schema): Place | undefined;
}

/** A schema with an `$id` of its own begins a resource; `#name` is an anchor or, in draft 4 and 7, an id. */
export const resourceOf = (schema: Schema, outer: Schema): Schema => (idOf(schema) ? schema : outer);

const idOf = ({ $id }: Schema): string | undefined =>
  typeof $id === 'string' && !$id.startsWith('#') ? $id.replace(/#$/, '') : undefined;

export function createRefs(root: Schema): Refs {
  let named: Map<string, Place> | undefined;
  const base = URL.parse(idOf(root) ?? '')?.href;
  const toUrl = (id: string): string => URL.parse(id, base)?.href ?? id;

  /** Made when first needed: few schemas have names in them. */
  function names(): Map<string, Place> {
    if (named) return named;
    named = new Map();
    const visit = (value: Json, outer: Schema) => {
      if (Array.isArray(value)) return value.forEach((each) => visit(each, outer));
      if (!isSchema(value)) return;
      const resource = resourceOf(value, outer);
      const id = idOf(value);
      if (id !== undefined) named!.set(toUrl(id), { schema: value, resource });
      for (const name of [value.$anchor, value.$dynamicAnchor]) {
        if (typeof name === 'string') named!.set(`#${name}`, { schema: value, resource });
      }
      for (const old of [value.$id, value.id]) {
        if (typeof old === 'string' && old.startsWith('#')) named!.set(old, { schema: value, resource });
      }
      for (const each of Object.values(value)) visit(each, resource);
    };
    visit(root, root);
    return named;
  }

  return {
    resolve(ref, resource) {
      const [id, fragment] = ref.split('#', 2) as [string, string?];
      const start = id ? names().get(toUrl(id)) : { schema: resource as Json, resource };
      if (!start) return undefined;
      if (!fragment) return start;
      return fragment.startsWith('/') ? follow(start, fragment) : names().get(`#${fragment}`);
    },
  };
}

/** Along a JSON pointer. */
function follow(start: Place, pointer: string): Place | undefined {
  let { schema, resource } = start;
  for (const step of pointer.slice(1).split('/')) {
    const key = decode(step).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof schema !== 'object' || schema === null || !Object.hasOwn(schema, key)) return undefined;
    schema = (schema as Schema)[key]!;
    if (isSchema(schema)) resource = resourceOf(schema, resource);
  }
  return { schema, resource };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
