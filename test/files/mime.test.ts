import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { createSniffer } from '../../src/files/mime.ts';
import { toFileName } from '../../src/files/name.ts';

function typeOf(content: Uint8Array | string, declared?: string, size = 7): string {
  const sniffer = createSniffer();
  const bytes = Buffer.from(content);
  for (let at = 0; at < bytes.length; at += size) sniffer.push(bytes.subarray(at, at + size));
  return sniffer.type(declared);
}
const latin1 = (text: string) => Buffer.from(text, 'latin1');

describe('the type of a file', () => {
  it.each<[string, Uint8Array | string, string | undefined, string]>([
    ['a PNG that says nothing', latin1('\x89PNG\r\n\x1a\n\0\0\0\rIHDR'), undefined, 'image/png'],
    ['a JPEG that says PNG', latin1('\xff\xd8\xff\xe0\0\x10JFIF'), 'image/png', 'image/jpeg'],
    ['a GIF', 'GIF89a....', 'application/octet-stream', 'image/gif'],
    ['a WebP', latin1('RIFF\x10\0\0\0WEBPVP8 '), 'image/webp', 'image/webp'],
    ['a PDF that says text', '%PDF-1.7\n%âã', 'text/plain', 'application/pdf'],
    ['text that says nothing', 'Grüße 😀', undefined, 'text/plain'],
    ['text as curl sends it', 'a,b\n', 'application/x-www-form-urlencoded', 'text/plain'],
    ['a TypeScript file as browsers send it', 'const a = 1;', 'video/mp2t', 'text/plain'],
    ['text with a type', 'a: 1', 'Application/YAML; charset=utf-8', 'application/yaml'],
    ['NUL is no text', 'a\0b', undefined, 'application/octet-stream'],
    ['half a character is no text', Buffer.from('😀').subarray(0, 3), undefined, 'application/octet-stream'],
    ['a PNG that is none', 'not an image', 'image/png', 'text/plain'],
    ['a PDF that is none', 'a\0b', 'application/pdf', 'application/octet-stream'],
    ['jpg', latin1('\xff\xd8\xff'), 'image/jpg', 'image/jpeg'],
    ['a zip', latin1('PK\x03\x04\0'), 'application/zip', 'application/zip'],
    ['HTML stays HTML', '<script>', 'text/html', 'text/html'],
    ['no type at all', 'PK\x03\x04\0', 'what ever', 'application/octet-stream'],
    ['a header in the type', 'PK\x03\x04\0', 'a/b\r\nx: y', 'application/octet-stream'],
    ['a type of 300 characters', 'PK\x03\x04\0', `a/${'b'.repeat(300)}`, 'application/octet-stream'],
  ])('%s', (_, content, declared, expected) => {
    expect(typeOf(content, declared)).toBe(expected);
    expect(typeOf(content, declared, 1)).toBe(expected);
    expect(typeOf(content, declared, 100)).toBe(expected);
  });
});

describe('the name of a file', () => {
  it.each([
    ['a.png', 'a.png'],
    ['../../x', 'x'],
    ['C:\\Users\\ann\\photo.jpg', 'photo.jpg'],
    ['a\0b\n.txt', 'ab.txt'],
    ['photo\u202egpj.exe', 'photogpj.exe'],
    ['😀 家.md', '😀 家.md'],
    ['👩‍👩‍👧.png', '👩‍👩‍👧.png'],
    ['..', 'file'],
    ['', 'file'],
    ['/', 'file'],
    ['  a   b  ', 'a b'],
    ['half \ud83d', 'half \ufffd'],
    [`${'n'.repeat(300)}.tar`, `${'n'.repeat(196)}.tar`],
    ['😀'.repeat(300), '😀'.repeat(200)],
  ])('%j', (given, expected) => {
    expect(toFileName(given)).toBe(expected);
  });

  it('is one line, well formed, of at most 200 characters, no path, and stays as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
        const name = toFileName(text);
        expect(name).toBe(toFileName(name));
        expect(name).not.toMatch(/[/\\\p{Cc}]/u);
        expect(name.isWellFormed()).toBe(true);
        expect(Array.from(name).length).toBeLessThanOrEqual(200);
        expect(name.trim().length).toBeGreaterThan(0);
      }),
    );
  });
});
