// Readable files as a stock parser sees them.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { parseAllDocuments } from 'yaml';

export type Item = Record<string, unknown>;

/** As a stock parser reads it: the head and the list. */
export function read(path: string): { head: Record<string, string>; items: Item[] } {
  const documents = parseAllDocuments(readFileSync(path, 'utf8')) as { errors: Error[]; toJS(): unknown }[];
  expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
  expect(documents).toHaveLength(2);
  return { head: documents[0]!.toJS() as Record<string, string>, items: documents[1]!.toJS() as Item[] };
}

export async function until(what: () => boolean): Promise<void> {
  for (let i = 0; i < 200; i++) {
    if (what()) return;
    await sleep(25);
  }
  expect(what()).toBe(true);
}

/** What a model was shown, message by message. */
export const saidIn = (request: { messages: readonly object[] }) =>
  request.messages.map((m) => ('parts' in m ? (m.parts as { text?: string }[]).map((p) => p.text).join('') : 'tool'));
