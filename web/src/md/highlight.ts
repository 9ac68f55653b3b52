// Colours of code: shiki's core with its JavaScript engine (no WASM, so no wider CSP). Loaded with the first closed fence.
import { createHighlighterCore, type HighlighterCore, type LanguageInput } from 'shiki/core';
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript';

export interface ColouredText {
  content: string;
  style: { '--l': string; '--d': string };
}

type Grammar = Exclude<LanguageInput, PromiseLike<unknown> | readonly unknown[]>;

const LIGHT = 'github-light-default';
const DARK = 'github-dark-default';
const MAX_CODE_CHARS = 60_000;
const MAX_LINE_CHARS = 2_000;
/** Generous: the first line of a language also compiles its patterns, and a line cut short is drawn in one colour. */
const LINE_LIMIT_MS = 1_000;

/** Our name -> [name of shiki's grammar, its loader]. A Map: a fence may say `constructor`. */
const GRAMMARS = new Map<string, [string, Grammar]>([
  ['bash', ['shellscript', () => import('shiki/langs/bash.mjs')]],
  ['c', ['c', () => import('shiki/langs/c.mjs')]],
  ['css', ['css', () => import('shiki/langs/css.mjs')]],
  ['diff', ['diff', () => import('shiki/langs/diff.mjs')]],
  ['docker', ['docker', () => import('shiki/langs/docker.mjs')]],
  ['go', ['go', () => import('shiki/langs/go.mjs')]],
  ['html', ['html', () => import('shiki/langs/html.mjs')]],
  ['java', ['java', () => import('shiki/langs/java.mjs')]],
  ['javascript', ['javascript', () => import('shiki/langs/javascript.mjs')]],
  ['json', ['json', () => import('shiki/langs/json.mjs')]],
  ['markdown', ['markdown', () => import('shiki/langs/markdown.mjs')]],
  ['python', ['python', () => import('shiki/langs/python.mjs')]],
  ['rust', ['rust', () => import('shiki/langs/rust.mjs')]],
  ['sql', ['sql', () => import('shiki/langs/sql.mjs')]],
  ['toml', ['toml', () => import('shiki/langs/toml.mjs')]],
  ['typescript', ['typescript', () => import('shiki/langs/typescript.mjs')]],
  ['vue', ['vue', () => import('shiki/langs/vue.mjs')]],
  ['xml', ['xml', () => import('shiki/langs/xml.mjs')]],
  ['yaml', ['yaml', () => import('shiki/langs/yaml.mjs')]],
]);
const ALIASES = new Map<string, string>([
  ['cjs', 'javascript'],
  ['dockerfile', 'docker'],
  ['golang', 'go'],
  ['h', 'c'],
  ['htm', 'html'],
  ['js', 'javascript'],
  ['jsonc', 'json'],
  ['md', 'markdown'],
  ['mjs', 'javascript'],
  ['patch', 'diff'],
  ['py', 'python'],
  ['rs', 'rust'],
  ['sh', 'bash'],
  ['shell', 'bash'],
  ['svg', 'xml'],
  ['ts', 'typescript'],
  ['yml', 'yaml'],
  ['zsh', 'bash'],
]);
/** Colours of the two themes that do not reach 4.5:1 on our code background. */
const READABLE = new Map<string, string>([
  ['#6e7781', '#57606a'],
  ['#8250df', '#7a45d6'],
  ['#f6f8fa', '#57606a'],
  ['#eaeef2', '#57606a'],
  ['#161b22', '#8b949e'],
]);

let highlighter: Promise<HighlighterCore> | undefined;

/** The lines of `code` in coloured pieces; undefined when the language is not known or the code is too long. */
export async function highlight(code: string, name: string): Promise<ColouredText[][] | undefined> {
  const wanted = name.toLowerCase();
  const grammar = GRAMMARS.get(ALIASES.get(wanted) ?? wanted);
  if (!grammar || code.length > MAX_CODE_CHARS) return undefined;
  highlighter ??= createHighlighterCore({
    themes: [import('shiki/themes/github-light-default.mjs'), import('shiki/themes/github-dark-default.mjs')],
    langs: [],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  });
  const core = await highlighter;
  const [lang, load] = grammar;
  await core.loadLanguage(load);
  const lines = core.codeToTokensWithThemes(code, {
    lang,
    themes: { l: LIGHT, d: DARK },
    tokenizeMaxLineLength: MAX_LINE_CHARS,
    tokenizeTimeLimit: LINE_LIMIT_MS,
  });
  return lines.map((line) =>
    line.map(({ content, variants }) => ({
      content,
      style: { '--l': readable(variants.l?.color), '--d': readable(variants.d?.color) },
    })),
  );
}

export function readable(colour = 'inherit'): string {
  return READABLE.get(colour.toLowerCase()) ?? colour;
}
