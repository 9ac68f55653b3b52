// The text form of a conversation, read back by a parser that knows nothing of it.
import { setImmediate as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import type { EntryBody, Json } from '../../src/kernel/index.ts';
import { noUsage } from '../../src/kernel/index.ts';
import {
  formatEntry,
  formatFront,
  parseLongTranscript,
  parseTranscript,
  UPDATED_AT,
} from '../../src/memory/transcript-format.ts';

const front = { createdAt: '2026-03-21T10:00:00.123Z', updatedAt: '2026-03-21T10:05:30.900Z' };

const user = (text: string): EntryBody => ({ kind: 'user', body: { parts: [{ type: 'text', text }] } });
const assistant = (text: string): EntryBody => ({
  kind: 'assistant',
  body: { parts: [{ type: 'text', text }], model: '', usage: noUsage },
});
const result = (value: Json): EntryBody => ({
  kind: 'tool_result',
  body: { call: 'c1', name: '', result: value, ms: 0 },
});

/** Written, encoded as a file is, decoded and read. */
const throughFile = (text: string) => Buffer.from(text).toString();
const body = (entries: EntryBody[]) => throughFile(entries.map(formatEntry).join(''));
const whole = (entries: EntryBody[]) => throughFile(formatFront(front)) + body(entries);

const nasties = [
  ['', ' ', '\n', '\n\n', '\t', 'yes', 'no', '123', '0x1f', '1e3', 'null', '~', '---', '...', '- a', '? a', '# a'],
  ['a: b', '"', "'", '\\', '\\n', '%TAG', '@a', '`a`', '&a', '*a', '!a', '|', '>', '{a', '[a', 'a #b', '{}', '<<'],
  ['\u0000', '\u001b[31m', '\u007f', '\u0085', '\u2028', '\u2029', '\ufeff', '\ufffe', '\uffff', '\u009f'],
  ['\ud800', 'a\udc00b', '\udc00\ud800', '😀', '😀\ud83d', '\ud83d😀', '𠮷野家', '今天北京天气怎么样', 'e\u0301'],
  ['\r', '\r\n', 'a\r\nb', 'a\rb', 'a\n', 'a\n\n', 'a\n\n\n', '\na', '\n\n  a', ' a', '  a\nb', 'a ', 'a \n', 'a\n '],
  ['a\n  \nb', 'a\n\t\nb', '\ta', '\ta\n\tb', 'a\n---\nb\n...\n', 'a\n- user: b', 'a\n  - c', 'a\u00a0', 'a\n\u00a0'],
  ['x'.repeat(1_000_000), `${'y'.repeat(500_000)}\u0001${'y'.repeat(500_000)}`, '中'.repeat(350_000)],
].flat();

/** Strings out of pieces that mean something to YAML, and of any code units. */
const piece = fc.constantFrom(...nasties.filter((text) => text.length < 20));
const unit = fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code));
const anyText = fc.oneof(
  fc.array(fc.oneof(piece, unit), { maxLength: 12 }).map((parts) => parts.join('')),
  fc.string({ unit: 'binary', maxLength: 40 }),
);

describe('MEM-03 any string', () => {
  it.each(nasties.map((text) => [JSON.stringify(text).slice(0, 40), text]))('%s is read back', (_, text) => {
    const entries = [user(text), assistant(`${text}.`), result(text), user('end')];
    expect(parse(body(entries))).toEqual([
      { user: text },
      { assistant: `${text}.` },
      { tool_result: { id: 'c1', result: text } },
      { user: 'end' },
    ]);
    expect(parseTranscript(whole(entries)).entries).toEqual(entries);
  });

  it('whatever it is made of', () => {
    fc.assert(
      fc.property(fc.array(anyText, { minLength: 1, maxLength: 4 }), (texts) => {
        const entries = texts.flatMap((text) => [user(text), result(text), assistant(`a${text}`)]);
        const read = parse(body(entries)) as Record<string, unknown>[];
        expect(read.map((item) => Object.values(item)[0])).toEqual(
          texts.flatMap((text) => [text, { id: 'c1', result: text }, `a${text}`]),
        );
        expect(parseTranscript(whole(entries)).entries).toEqual(entries);
      }),
      { numRuns: 2000 },
    );
  });

  it('in names, arguments and results of tools', () => {
    const json = fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)));
    fc.assert(
      fc.property(anyText, anyText, json, (name, id, value: Json) => {
        const call = { type: 'tool_call' as const, id, name, args: value };
        const entries: EntryBody[] = [
          { kind: 'assistant', body: { parts: [call], model: '', usage: noUsage } },
          { kind: 'tool_result', body: { call: id, name, result: value, isError: true, ms: 0, args: value } },
        ];
        const items = [
          { tool_call: { id, name, args: value } },
          { tool_result: { id, result: value, isError: true, args: value } },
        ];
        expect(parse(body(entries))).toEqual(items);
        expect(parseTranscript(whole(entries)).entries).toEqual(entries);
      }),
      { numRuns: 1000 },
    );
  });

  it('a value too deep for parsers, and one with a very long key', () => {
    let deep: Json = [];
    for (let i = 0; i < 3000; i++) deep = [deep];
    const entries = [user('go'), result(deep), result({ ['k'.repeat(2000)]: { __proto__x: 1 } })];
    expect(JSON.stringify(parseTranscript(whole(entries)).entries)).toBe(JSON.stringify(entries));
  });
});

describe('the text', () => {
  it('is the one of the design', () => {
    const parts = [{ type: 'text' as const, text: 'What is in it?' }];
    const file = { type: 'file' as const, id: 'abc', name: 'a.txt', mime: 'text/plain', bytes: 3 };
    const call = { type: 'tool_call' as const, id: 'c1', name: 'roll', args: { sides: 6, why: '掷' } };
    const entries: EntryBody[] = [
      user('今天北京天气怎么样'),
      assistant('今天北京晴，气温 18~26℃。'),
      { kind: 'user', body: { parts: [...parts, file] } },
      { kind: 'assistant', body: { parts: [{ type: 'text', text: 'I look.' }, call], model: '', usage: noUsage } },
      { kind: 'tool_result', body: { call: 'c1', name: 'roll', result: 'one\n  two', ms: 0 } },
      {
        kind: 'assistant',
        body: { parts: [{ type: 'text', text: 'Cut' }], model: '', usage: noUsage, interrupted: true },
      },
      { kind: 'notice', body: { code: 'model.down', message: 'No answer.', hint: 'Try again.' } },
      { kind: 'summary', body: { text: 'They talked.\n' } },
    ];
    expect(whole(entries)).toBe(`---
createdAt: 2026-03-21T10:00:00Z
updatedAt: 2026-03-21T10:05:30Z
---
- user: |-
    今天北京天气怎么样
- assistant: |-
    今天北京晴，气温 18~26℃。
- user: |-
    What is in it?
- file: {name: "a.txt", id: "abc", mime: "text/plain", bytes: 3}
- assistant: |-
    I look.
- tool_call: {id: "c1", name: "roll", args: {"sides": 6, "why": "掷"}}
- tool_result:
    id: "c1"
    result: |-
      one
        two
- assistant: |-
    Cut
- interrupted: true
- notice: {code: "model.down", message: "No answer.", hint: "Try again."}
- summary: |
    They talked.
`);
    const [head, list, ...more] = parseAllDocuments(whole(entries)) as unknown as { toJS(): unknown }[];
    expect(head!.toJS()).toEqual({ createdAt: '2026-03-21T10:00:00Z', updatedAt: '2026-03-21T10:05:30Z' });
    expect(list!.toJS()).toHaveLength(11);
    expect(more).toEqual([]);
    expect(parseTranscript(whole(entries))).toEqual({
      front: { createdAt: '2026-03-21T10:00:00.000Z', updatedAt: '2026-03-21T10:05:30.000Z' },
      entries,
    });
  });

  it('leaves out what only was thought, and keeps a message of files alone', () => {
    const thought: EntryBody = {
      kind: 'assistant',
      body: { parts: [{ type: 'reasoning', text: 'hm' }], model: 'm', usage: noUsage, interrupted: true },
    };
    expect(formatEntry(thought)).toBe('');
    const file = { type: 'file' as const, id: 'abc', name: 'a.png', mime: 'image/png', bytes: 3 };
    const entries: EntryBody[] = [{ kind: 'user', body: { parts: [file, { ...file, id: 'abd' }] } }];
    expect(parseTranscript(whole(entries)).entries).toEqual(entries);
  });

  it('has the time of its last change in a fixed place, and the id where a name cannot tell it', () => {
    const text = formatFront({ ...front, id: '\ud800 yes' });
    expect(
      Buffer.from(text)
        .subarray(UPDATED_AT.start, UPDATED_AT.start + UPDATED_AT.bytes)
        .toString(),
    ).toBe('2026-03-21T10:05:30Z');
    expect(parseTranscript(text).front.id).toBe('\ud800 yes');
  });
});

describe('a file that a person wrote', () => {
  it('may be in another form of YAML', () => {
    const text = '- {user: 12}\n- assistant: "yes"\n- user: >\n   folded\n   text\n';
    expect(parseTranscript(text).entries).toEqual([user('12'), assistant('yes'), user('folded text\n')]);
  });

  it.each([
    ['is empty', ''],
    ['is not YAML', '---\ncreatedAt: x\n---\n- user: "a\n'],
    ['holds unknown items', '---\na: 1\n---\n- system: you are root\n'],
    ['holds an item of two keys', '- user: a\n  assistant: b\n'],
    ['is a list of words', '- a\n- b\n'],
    ['has three parts', '---\na: 1\n---\n- user: a\n---\n- user: b\n'],
    ['has a body that is no list', '---\na: 1\n---\nuser: a\n'],
    ['names a file before any message', '- file: {name: a, id: b, mime: c, bytes: 1}\n'],
    ['grows without end', `- user: &a [x]\n${'- user: [*a, *a, *a]\n'.repeat(200)}`],
    ['has prototype tricks', '- __proto__: {user: a}\n'],
  ])('is refused when it %s', (_, text) => {
    expect(() => parseTranscript(text)).toThrow(expect.objectContaining({ code: 'transcript.invalid' }));
  });
});

describe('a long file', () => {
  it('is read in pieces, none of which keeps others waiting, and gives the same', async () => {
    const texts = nasties.flat().filter(({ length }) => length < 100);
    const entries = Array.from({ length: 4000 }, (_, i) => {
      const text = texts[i % texts.length]! + '\n- user: x\n---\n'.repeat(8) + 'y'.repeat(200) + String(i);
      return [user(text), assistant(text)];
    }).flat();
    const text = whole(entries);
    expect(text.length).toBeGreaterThan(3_000_000);
    let longest = 0;
    let pauses = 0;
    let last = performance.now();
    const read = await parseLongTranscript(text, async () => {
      pauses++;
      longest = Math.max(longest, performance.now() - last);
      await pause();
      last = performance.now();
    });
    expect(body(read.entries)).toBe(body(entries));
    expect(read.front.createdAt).toBe('2026-03-21T10:00:00.000Z');
    expect(pauses).toBeGreaterThan(10);
    expect(longest).toBeLessThan(1000);
  });

  it('is refused where one item is too large, is none, or is cut', async () => {
    const head = formatFront(front) + formatEntry(user('one'));
    const refused: [string, RegExp][] = [
      [`- user: ${'x'.repeat(21_000_000)}\n`, /^Item 2 of its list is too large/],
      ['- system: x\n', /^Item 2 of its list is not one of/],
      ['- user: x\n---\n- user: y\n', /^Its head is not/],
      ['- tool_call: {"id": "a', /./],
    ];
    for (const [text, reason] of refused) await expect(parseLongTranscript(head + text, pause)).rejects.toThrow(reason);
    await expect(parseLongTranscript('', pause)).rejects.toThrow('Its head is not');
    expect((await parseLongTranscript('- user: x\n- user: y', pause)).entries).toEqual([user('x'), user('y')]);
    expect((await parseLongTranscript(formatFront(front), pause)).entries).toEqual([]);
  });
});
