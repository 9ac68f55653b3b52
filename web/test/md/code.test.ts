import { afterEach, expect, test, vi } from 'vitest';
import darkTheme from 'shiki/themes/github-dark-default.mjs';
import lightTheme from 'shiki/themes/github-light-default.mjs';
import { highlight, readable } from '../../src/md/highlight.ts';
import Markdown from '../../src/md/Markdown.vue';
import { expectHarmless } from './harmless.ts';
import { elements, open, textOf, type Element, type Page } from './page.ts';

afterEach(() => vi.unstubAllGlobals());

const CODE = 'const a = 1; // one\n\nfoo("b");';
const pieces = (page: Page): Element[] =>
  elements(page.root, 'span').filter(({ attributes }) => attributes.class === 'md-tok');
const coloured = (page: Page): Promise<void> => vi.waitFor(() => expect(pieces(page).length).toBeGreaterThan(3), 5_000);

test('code is plain until its fence closes, then coloured for both themes, with the same text', async () => {
  const page = open(Markdown, { text: `\`\`\`ts\n${CODE}\n`, live: true });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(pieces(page)).toEqual([]);
  await page.update({ text: `\`\`\`ts\n${CODE}\n\`\`\`\n` });
  await coloured(page);
  expectHarmless(page.root);
  expect(elements(page.root, 'code').map(textOf)).toEqual([CODE]);
  expect(
    new Set(pieces(page).map(({ attributes }) => (attributes.style as Record<string, string>)['--l'])).size,
  ).toBeGreaterThan(2);
  page.close();
});

test('a closed fence in a block that still grows is coloured already', async () => {
  const page = open(Markdown, { text: '- a\n\n  ```ts\n  let a = "b" + c;\n  ```\n\n  more', live: true });
  await coloured(page);
  page.close();
});

test('html in code is text, coloured or not', async () => {
  const page = open(Markdown, { text: '```html\n<img src=x onerror="alert(1)"><style>\n```', live: false });
  await coloured(page);
  expectHarmless(page.root);
  expect(elements(page.root, 'code').map(textOf)).toEqual(['<img src=x onerror="alert(1)"><style>']);
  page.close();
});

test.each([
  'ts',
  'js',
  'json',
  'sh',
  'py',
  'java',
  'sql',
  'yml',
  'html',
  'css',
  'vue',
  'go',
  'rs',
  'diff',
  'md',
  'xml',
  'c',
  'toml',
  'Dockerfile',
])('the language %s is known, and its text stays whole', async (lang) => {
  const code = 'FROM a\n<b c="d">\n# e\n+ let f = 1;\n';
  const lines = await highlight(code, lang);
  expect(lines?.map((line) => line.map(({ content }) => content).join('')).join('\n')).toBe(code);
});

test.each(['', 'nonsense', 'constructor', '__proto__', 'toString', '../typescript'])(
  'unknown language %j stays plain',
  async (lang) => {
    expect(await highlight('a', lang)).toBeUndefined();
  },
);

test('code too long to colour stays plain', async () => {
  expect(await highlight('a\n'.repeat(40_000), 'ts')).toBeUndefined();
});

test('each colour of both themes reaches AA on our code background', () => {
  for (const [theme, background] of [
    [lightTheme, '#f3f1ee'],
    [darkTheme, '#292524'],
  ] as const) {
    const colours = (theme.tokenColors ?? []).flatMap(({ settings }) => settings.foreground ?? []);
    expect(colours.length).toBeGreaterThan(10);
    for (const colour of colours)
      expect(contrast(readable(colour), background), `${theme.name} ${colour}`).toBeGreaterThan(4.5);
  }
});

test('the copy button has a name, copies the code as the model wrote it, and says so', async () => {
  const written: string[] = [];
  vi.stubGlobal('window', { isSecureContext: true });
  vi.stubGlobal('navigator', { clipboard: { writeText: async (text: string) => void written.push(text) } });
  const page = open(Markdown, { text: '```\na\u202eb\n```', live: false });
  const [button] = elements(page.root, 'button');
  expect(button?.attributes['aria-label']).toBe('Copy code');
  press(button);
  await vi.waitFor(() => expect(status(page)).toBe('Copied'));
  expect(written).toEqual(['a\u202eb']);
  page.close();
});

test('a refused clipboard is said, not passed over', async () => {
  vi.stubGlobal('window', { isSecureContext: true });
  vi.stubGlobal('navigator', {
    clipboard: { writeText: () => Promise.reject(new DOMException('no', 'NotAllowedError')) },
  });
  vi.stubGlobal('HTMLElement', Object);
  vi.stubGlobal('document', {
    createElement: () => ({ setAttribute() {}, select() {}, remove() {}, style: {} }),
    body: { append() {} },
    activeElement: null,
    execCommand: () => false,
  });
  const page = open(Markdown, { text: '```\na\n```', live: false });
  press(elements(page.root, 'button')[0]);
  await vi.waitFor(() => expect(status(page)).toBe('Could not copy'));
  page.close();
});

function press(button: Element | undefined): void {
  const { onClick } = button?.attributes ?? {};
  if (typeof onClick === 'function') onClick();
}

function status(page: Page): string {
  return elements(page.root, 'span')
    .filter(({ attributes }) => attributes.role === 'status')
    .map(textOf)
    .join();
}

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
