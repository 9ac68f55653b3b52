// Readable files of a server that is killed while it writes them.
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { ServerProcess } from './harness.ts';
import { createServerProcess, sleep } from './harness.ts';
import { talk } from './client.ts';
import { createCrashModel } from './model.ts';

const APPENDS = 1000;
const TALKS = ['first', 'second', '三'];
/** Committed so long before a kill, and the server that long ready, an entry is in its file. The machine may be busy. */
const LATE_MS = 1500;
const LONGEST_LIFE_MS = 2500;

type Item = Record<string, unknown>;

interface Message {
  kind: string;
  at: string;
  parts?: { type: string; text?: string }[];
}

function readItems(path: string): Item[] {
  const documents = parseAllDocuments(readFileSync(path, 'utf8')) as { errors: Error[]; toJS(): unknown }[];
  expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
  expect(Object.keys(documents[0]!.toJS() as object)).toEqual(['createdAt', 'updatedAt']);
  return (documents[1]?.toJS() ?? []) as Item[];
}

/** How many items an entry is, by what the server shows of it. */
function countOf({ kind, parts = [] }: Message): number {
  if (kind !== 'assistant') return 1;
  const calls = parts.filter(({ type }) => type === 'tool_call').length;
  return calls + (parts.some(({ type, text }) => type === 'text' && text) ? 1 : 0);
}

async function messagesOf(server: ServerProcess, conversation: string): Promise<Message[]> {
  const messages: Message[] = [];
  for (let after: number | null = 0; after !== null;) {
    const path = `/conversations/${encodeURIComponent(conversation)}/messages?limit=1000&after=${after}`;
    const response = await fetch(server.address + path, { headers: { authorization: 'Bearer t' } });
    const page = (await response.json()) as { messages: Message[]; next: number | null };
    messages.push(...page.messages);
    after = page.next;
  }
  return messages;
}

describe('kill -9', () => {
  it(
    `MEM-06 in ${APPENDS} appends: each file can be read, lacks only what was last said, and is whole after the next start`,
    {
      timeout: 600_000,
    },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'homard-crash-'));
      const conversations = join(folder, 'data', 'workspace', 'conversations');
      const pathOf = (id: string) => join(conversations, `chat-${id}.yaml`);
      const effects = join(folder, 'effects.jsonl');
      appendFileSync(effects, '');
      await using model = await createCrashModel();
      const environment = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'x', EFFECTS: effects, HOMARD_TOKEN: 't' };
      await using server = await createServerProcess({ ...environment, HOMARD_DATA: join(folder, 'data') });
      const itemsOf = (id: string) => {
        return existsSync(pathOf(id)) ? readItems(pathOf(id)) : [];
      };
      const kills: { at: number; ready: number; items: Map<string, Item[]> }[] = [];
      try {
        let isOver = false;
        const target = { addresses: () => [server.address], token: 't' };
        const talking = TALKS.map(async (conversation) => {
          for (let n = 1; !isOver; n++)
            await talk(target, { conversation, text: `message ${n}`, accepted: () => undefined });
        });
        while (!isOver) {
          const ready = Date.now();
          await sleep(200 + Math.random() * (LONGEST_LIFE_MS - 200));
          await server.kill();
          const at = Date.now();
          const items = new Map(TALKS.map((id) => [id, itemsOf(id)]));
          kills.push({ at, ready, items });
          isOver = [...items.values()].reduce((sum, list) => sum + list.length, 0) >= APPENDS;
          await server.start();
        }
        await Promise.all(talking);
        await sleep(1000);
        let lacking = 0;
        let latest = 0;
        for (const id of TALKS) {
          const messages = await messagesOf(server, id);
          const whole = readItems(pathOf(id));
          expect(whole).toHaveLength(messages.reduce((sum, message) => sum + countOf(message), 0));
          expect(whole.filter((item) => 'user' in item).map(({ user }) => user)).toEqual(
            messages.filter(({ kind }) => kind === 'user').map((_, i) => `message ${i + 1}`),
          );
          for (const { at, ready, items } of kills) {
            const seen = items.get(id)!;
            expect(whole.slice(0, seen.length)).toEqual(seen);
            const before = messages.filter((message) => Date.parse(message.at) < at);
            let count = 0;
            const missing = before.filter((message) => (count += countOf(message)) > seen.length);
            if (missing.length) lacking++;
            for (const message of missing) latest = Math.max(latest, at - Math.max(ready, Date.parse(message.at)));
          }
        }
        console.log(
          `${kills.length} kills: ${lacking} of ${kills.length * TALKS.length} files lacked something, all of it ` +
            `committed at most ${latest} ms before, of which the server was ready`,
        );
        expect(latest).toBeLessThan(LATE_MS);
        expect(readdirSync(conversations).toSorted()).toEqual(TALKS.map((id) => `chat-${id}.yaml`).toSorted());
      } finally {
        await server.kill();
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
});
