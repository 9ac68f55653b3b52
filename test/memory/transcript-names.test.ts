import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeName, encodeName, stemOf, toAsideName, toTranscriptName } from '../../src/memory/transcript-names.ts';

const piece = fc.constantFrom(
  'a',
  'A',
  'é',
  'e\u0301',
  'ß',
  'ſ',
  'Σ',
  'ς',
  '/',
  '\\',
  '.',
  '~',
  '%',
  '%2e',
  '%ud800',
  'u',
  '中',
  '\ud800',
  '\0',
  ' ',
  '😀',
  ':',
  'con',
);
const id = fc.oneof(
  fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join('')),
  fc.string({ unit: 'binary', maxLength: 300 }),
);

/** Two names that are the same file on a system which ignores case and forms of accents. */
const onDisk = (name: string) => name.normalize('NFKD').toUpperCase().toLowerCase().normalize('NFKD');

describe('MEM-14 names of files', () => {
  it.each([
    ['web', 'chat-web.yaml'],
    ['telegram-123', 'chat-telegram-123.yaml'],
    ['中文', 'chat-中文.yaml'],
    ['talk 谈', 'chat-talk%20谈.yaml'],
    ['../x', 'chat-%2e%2e%2fx.yaml'],
    ['C:\\x', `chat-${encodeName('C:\\x').text}.yaml`],
    ['', 'chat-~.yaml'],
  ])('%j is %s', (text, name) => {
    expect(toTranscriptName(text)).toEqual({ file: name, isWhole: true });
    expect(decodeName(stemOf(name)!)).toBe(text);
  });

  it('any id stays in its folder, is read back from its name or is told to be too long', () => {
    fc.assert(
      fc.property(id, (text) => {
        const { file, isWhole } = toTranscriptName(text);
        expect(file).toMatch(/^chat-[\p{L}\p{M}\p{N}_%~-]+\.yaml$/u);
        expect(file.isWellFormed()).toBe(true);
        expect(file.normalize('NFC')).toBe(file);
        expect(Buffer.byteLength(toAsideName(file, 'edited', new Date()))).toBeLessThan(255);
        expect(stemOf(toAsideName(file, 'edited', new Date()))).toBeUndefined();
        const stem = stemOf(file.normalize('NFD'))!;
        if (isWhole) expect(decodeName(stem)).toBe(text);
        else expect(decodeName(stem)).toBeUndefined();
      }),
      { numRuns: 5000 },
    );
  });

  it('two ids never have the same name, also where case does not count', () => {
    fc.assert(
      fc.property(id, id, (a, b) => {
        if (a !== b) expect(onDisk(encodeName(a).text)).not.toBe(onDisk(encodeName(b).text));
      }),
      { numRuns: 10_000 },
    );
    for (const [a, b] of [
      ['Web', 'web'],
      ['straße', 'strasse'],
      ['é', 'e\u0301'],
      ['ⅷ', 'viii'],
      ['x'.repeat(300), 'x'.repeat(301)],
    ]) {
      expect(onDisk(encodeName(a!).text)).not.toBe(onDisk(encodeName(b!).text));
    }
  });

  it('a device of Windows is no name of a folder', () => {
    for (const name of ['con', 'NUL', 'com1']) expect(encodeName(name).text).not.toMatch(/^(con|nul|com1)/i);
  });
});
