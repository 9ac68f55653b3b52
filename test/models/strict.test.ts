import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FilePart, Message, TextPart } from '../../src/kernel/messages.ts';
import type { Model } from '../../src/kernel/model.ts';
import { createPackageModel } from '../../src/models/ai-sdk.ts';
import { chatRules, messagesRules, toLegalHistory } from '../../src/models/dialect.ts';
import { encodeRequest } from '../../src/models/openai-encode.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import type { SchemaDialect } from '../../src/models/schema-dialect.ts';
import { createStrictMessagesServer } from '../../src/testing/strict-messages-server.ts';
import type { StrictRule } from '../../src/testing/strict-model-server.ts';
import {
  createStrictModelServer,
  demandsReasoning,
  forbidsReasoning,
  refusesCalls,
  refusesKeywords,
  refusesOrphans,
  refusesRoles,
} from '../../src/testing/strict-model-server.ts';
import { history, hostileHistory, kernelHistory, tools } from './hostile-history.ts';

const RUNS = 500;

/** Rejects with the host's reason, and fast-check shrinks to the smallest history that it refuses. */
async function converse(model: Model, histories = history): Promise<void> {
  const property = fc.asyncProperty(histories, fc.constantFrom('', ' ', 'Be good.\ud83e'), async (messages, system) => {
    const said: string[] = [];
    const on = (part: { type: string; text?: string }) => void said.push(part.text ?? part.type);
    await model.call({ system, messages, tools }, new AbortController().signal, on);
    expect(said).toEqual(['ok']);
  });
  await fc.assert(property, { numRuns: RUNS });
}

interface Host {
  rules: StrictRule[];
  /** Decides the first guess. */
  provider: string;
  schemas?: SchemaDialect;
  /** How often the guess may be wrong. */
  refusals: number;
}

const all = [refusesOrphans, refusesRoles, refusesCalls];

describe('a strict chat-completions host', () => {
  it.each<[string, Host]>([
    ['demands reasoning back', { rules: [demandsReasoning], provider: 'deepseek', refusals: 0 }],
    ['demands reasoning back, which nobody knew', { rules: [demandsReasoning], provider: 'gate', refusals: 1 }],
    ['forbids reasoning', { rules: [forbidsReasoning], provider: 'gate', refusals: 0 }],
    ['forbids reasoning, which nobody knew', { rules: [forbidsReasoning], provider: 'deepseek', refusals: 1 }],
    ['refuses orphans', { rules: [refusesOrphans], provider: 'gate', refusals: 0 }],
    ['refuses consecutive roles', { rules: [refusesRoles], provider: 'gate', refusals: 0 }],
    ['refuses odd names and arguments', { rules: [refusesCalls], provider: 'gate', refusals: 0 }],
    ['refuses what OpenAI refuses', { rules: [refusesKeywords('openai')], provider: 'gate', refusals: 0 }],
    [
      'refuses keywords foreign to Gemini',
      { rules: [refusesKeywords('gemini')], provider: 'gate', schemas: 'gemini', refusals: 0 },
    ],
    [
      'refuses all but plain schemas, which nobody knew',
      { rules: [refusesKeywords('plain')], provider: 'gate', refusals: 1 },
    ],
    [
      'refuses all of that',
      { rules: [...all, demandsReasoning, refusesKeywords('gemini')], provider: 'google', refusals: 1 },
    ],
  ])(`MODEL-07 that %s accepts ${RUNS} random histories`, async (_, { rules, provider, schemas, refusals }) => {
    await using server = await createStrictModelServer(...rules);
    const model = createOpenAIWireModel({ name: 'm', model: 'm', baseUrl: server.url, provider, schemas });
    await converse(model);
    expect(server.requests.length).toBeLessThanOrEqual(RUNS + refusals);
  });

  it('MODEL-07 the hosts are strict: each refuses a history as it came, and the messages host does', async () => {
    const naive = (messages: readonly Message[]) => JSON.parse(wire(messages));
    const sample = fc
      .sample(hostileHistory, 300)
      .map((messages) => ({ model: 'm', messages: naive(messages), tools: [] }));
    for (const rule of [...all, demandsReasoning]) {
      expect(sample.filter((request) => rule(request) !== undefined).length).toBeGreaterThan(10);
    }
  });
});

describe("a strict host of Anthropic's messages protocol", () => {
  it(`MODEL-07 accepts ${RUNS} random histories through the real package`, async () => {
    await using server = await createStrictMessagesServer();
    const made = { kind: 'anthropic', name: 'm', model: 'claude-x', provider: 'a', baseUrl: server.url } as const;
    await converse(createPackageModel(made));
    expect(server.requests).toHaveLength(RUNS);
    const blocks = server.requests.flatMap(({ messages }) => messages.flatMap(({ content }) => content));
    for (const type of ['text', 'thinking', 'tool_use', 'tool_result']) {
      expect(blocks.filter((block) => block.type === type).length).toBeGreaterThan(10);
    }
  });
});

/** What was sent before there were repairs. */
function wire(messages: readonly Message[]): string {
  const wired = messages.map((message) => {
    if (message.role === 'user') {
      const parts = message.parts.map((part) => (part.type === 'text' ? part.text : part.name));
      return { role: 'user', content: parts.join('\n') };
    }
    if (message.role === 'tool') {
      const content = typeof message.result === 'string' ? message.result : JSON.stringify(message.result);
      return { role: 'tool', tool_call_id: message.call, content };
    }
    const content = message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const calls = message.parts.filter((part) => part.type === 'tool_call');
    if (!calls.length) return { role: 'assistant', content };
    const tool_calls = calls.map((call) => ({
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: JSON.stringify(call.args) },
    }));
    return { role: 'assistant', content: content || null, tool_calls };
  });
  return JSON.stringify(wired);
}

const encode = (messages: readonly Message[]): string => {
  const body = encodeRequest({ system: '', messages, tools: [] }, { model: 'm', hasUsage: false, hasReasoning: false });
  return body.slice(body.indexOf('"messages":') + 11, -1);
};

const rules: StrictRule[] = [refusesOrphans, refusesRoles, refusesCalls];
const isLegal = (messages: readonly Message[]): boolean => {
  const sent = JSON.parse(wire(messages));
  return rules.every((rule) => rule({ model: 'm', messages: sent }) === undefined);
};

const partsOf = (message: object): (TextPart | FilePart)[] => ('parts' in message ? (message.parts as TextPart[]) : []);
const isSome = (part: TextPart | FilePart): boolean =>
  part.type === 'file' || (part.text.trim() !== '' && !/^\(.*\)$/.test(part.text));

describe('a history', () => {
  it('MODEL-07 that is legal is sent as it is, to the byte', () => {
    let count = 0;
    const property = fc.property(kernelHistory, (messages) => {
      if (!isLegal(messages)) return;
      count++;
      expect(encode(messages)).toBe(wire(messages));
      for (const [i, message] of toLegalHistory(messages, chatRules).entries()) expect(message).toBe(messages[i]);
    });
    fc.assert(property, { numRuns: RUNS });
    expect(count).toBeGreaterThan(50);
  });

  it.each([
    ['chat', chatRules],
    ['messages', messagesRules],
  ])(
    'MODEL-07 is repaired to the same objects again, and what follows leaves its beginning as it was: %s',
    (_, rule) => {
      const next: Message[] = [
        { role: 'user', parts: [{ type: 'text', text: 'go on' }] },
        { role: 'assistant', model: 'm', parts: [{ type: 'tool_call', id: 'call_0', name: 'time', args: {} }] },
        { role: 'tool', call: 'call_0', name: 'time', result: 'noon', isError: false },
      ];
      const property = fc.property(history, (messages) => {
        const legal = toLegalHistory(messages, rule);
        const again = toLegalHistory([...messages], rule);
        expect(again.length).toBe(legal.length);
        for (const [i, message] of again.entries()) expect(message).toBe(legal[i]);
        expect(toLegalHistory(legal, rule)).toEqual(legal);
        const longer = toLegalHistory([...messages, ...next], rule);
        const lost = new Set(messages).size ? 2 : 1;
        for (const [i, message] of legal.slice(0, -lost).entries()) expect(longer[i]).toBe(message);
      });
      fc.assert(property, { numRuns: RUNS });
    },
  );

  it('MODEL-07 answers in a row are one, with its thoughts first, and an empty result says so', () => {
    const said = (...parts: Extract<Message, { role: 'assistant' }>['parts']): Message => ({
      role: 'assistant',
      model: 'm',
      parts,
    });
    const call = { type: 'tool_call', id: 'a', name: 'time', args: {} } as const;
    const asked: Message = { role: 'user', parts: [{ type: 'text', text: 'hi' }] };
    const empty: Message = { role: 'tool', call: 'a', name: 'time', result: '', isError: false };
    const cut = said({ type: 'text', text: 'cut' });
    const next = said({ type: 'reasoning', text: 'hm' }, { type: 'text', text: 'so' }, call);
    expect(toLegalHistory([asked, cut, next, empty], messagesRules)).toMatchObject([
      asked,
      { parts: [{ type: 'reasoning' }, { text: 'cut' }, { text: '\n\n' }, { text: 'so' }, call] },
      { call: 'a', result: '(empty)' },
    ]);
    expect(encode([asked, said(call), empty])).toContain('"content":"(empty)"');
    expect(encode([asked, cut, asked])).toBe(wire([asked, cut, asked]));
  });

  it('MODEL-07 keeps all that people said, and each result with its call', () => {
    const property = fc.property(hostileHistory, (messages) => {
      const legal = toLegalHistory(messages, messagesRules);
      const said = (list: readonly Message[]) =>
        list.flatMap(({ role, ...each }) => (role === 'user' ? partsOf(each) : []));
      const kept = said(legal).filter(isSome);
      expect(kept).toEqual(said(messages).filter(isSome));
      for (const [i, message] of legal.entries()) {
        if (message.role !== 'assistant') continue;
        const calls = message.parts.filter((part) => part.type === 'tool_call');
        const results = legal.slice(i + 1, i + 1 + calls.length);
        expect(results.map((result) => (result.role === 'tool' ? result.call : ''))).toEqual(calls.map(({ id }) => id));
      }
    });
    fc.assert(property, { numRuns: RUNS });
  });
});
