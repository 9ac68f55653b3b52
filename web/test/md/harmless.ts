// What model text may become on a page: a closed list of elements and attributes, whatever the text is.
import { expect } from 'vitest';
import Markdown from '../../src/md/Markdown.vue';
import { elements, open, textOf, type Element } from './page.ts';

const ATTRIBUTES: Record<string, string[]> = {
  a: ['class', 'href', 'target', 'rel'],
  blockquote: [],
  br: [],
  button: ['type', 'class', 'aria-label', 'title', 'onClick'],
  code: [],
  div: ['class', 'role', 'tabindex', 'aria-label'],
  em: [],
  h2: ['class'],
  h3: ['class'],
  h4: ['class'],
  h5: ['class'],
  h6: ['class'],
  hr: [],
  li: ['class'],
  ol: ['start'],
  p: ['class'],
  path: ['d'],
  pre: ['tabindex'],
  s: [],
  span: ['class', 'role', 'aria-label', 'data-done', 'style'],
  strong: [],
  svg: ['viewBox', 'aria-hidden'],
  table: [],
  tbody: [],
  td: ['class'],
  th: ['class', 'scope'],
  thead: [],
  tr: [],
  ul: [],
};
const CLASS = /^md(?:-(?:h[1-6]|table|code|code-head|code-lang|code-result|copy|tok|image|task|box|center|right))?$/;

export interface Drawn {
  root: Element;
  links: string[];
  text: string;
}

/** Draws `text` finished and as if more were to come, and expects both to be harmless. */
export function draw(text: string): Drawn {
  const live = open(Markdown, { text, live: true });
  expectHarmless(live.root);
  live.close();
  const done = open(Markdown, { text, live: false });
  expectHarmless(done.root);
  const links = elements(done.root, 'a').map((link) => String(link.attributes.href));
  return { root: done.root, links, text: textOf(done.root) };
}

/** Draws without looking at the result, to take the time. */
export function drawOnce(text: string): void {
  open(Markdown, { text, live: true }).close();
}

export function expectHarmless(root: Element): void {
  const problems = elements(root).flatMap((element) => (element === root ? [] : problemsOf(element)));
  expect(problems).toEqual([]);
  expect(textOf(root)).not.toMatch(/[\0\u202a-\u202e\u2066-\u2069]|\p{Surrogate}/u);
}

function problemsOf(element: Element): string[] {
  const allowed = ATTRIBUTES[element.tag];
  if (!allowed) return [`element <${element.tag}>`];
  const problems = Object.entries(element.attributes)
    .filter(([name, value]) => !allowed.includes(name) || !isHarmlessValue(name, value))
    .map(([name, value]) => `<${element.tag} ${name}=${JSON.stringify(value)}>`);
  return element.tag === 'a' ? [...problems, ...linkProblems(element)] : problems;
}

function isHarmlessValue(name: string, value: unknown): boolean {
  // Our own copy button: a function, never text from outside.
  if (name === 'onClick') return typeof value !== 'string';
  if (name === 'style') {
    const entries = Object.entries(Object(value));
    return entries.every(
      ([key, colour]) => /^--[ld]$/.test(key) && /^(?:#[0-9a-f]{6,8}|inherit)$/i.test(String(colour)),
    );
  }
  return name === 'class' ? CLASS.test(String(value)) : typeof value === 'string' || typeof value === 'number';
}

function linkProblems({ attributes, parent }: Element): string[] {
  const { href, target, rel } = attributes;
  const problems: string[] = [];
  if (!/^(?:https?:\/\/[^/?#]|mailto:)/i.test(String(href))) problems.push(`address ${String(href)}`);
  if (target !== '_blank' || rel !== 'noopener noreferrer nofollow')
    problems.push(`link to ${String(href)} tells who we are`);
  for (let up = parent; up; up = up.parent) if (up.tag === 'a') problems.push('link in a link');
  return problems;
}
