import { describe, expect, test } from 'vitest';
import { elements } from './page.ts';
import { draw } from './harmless.ts';

interface Attack {
  name: string;
  text: string;
  /** The only addresses that may be followed. Default: none. */
  links?: string[];
  /** What the reader must still see. */
  shows?: string;
}

const SCHEMES: Attack[] = [
  { name: 'javascript link', text: '[x](javascript:alert(1))', shows: '[x](javascript:alert(1))' },
  { name: 'mixed case', text: '[x](JaVaScRiPt:alert(1))' },
  { name: 'in angle brackets', text: '[x](<javascript:alert(1)>)' },
  { name: 'data link', text: '[x](data:text/html;base64,PHNjcmlwdD4=)' },
  { name: 'data image link', text: '[x](data:image/svg+xml;base64,PHN2Zz4=)', shows: 'x' },
  { name: 'vbscript link', text: '[x](vbscript:msgbox(1))' },
  { name: 'file link', text: '[x](file:///etc/passwd)' },
  { name: 'blob link', text: '[x](blob:https://a.example/1)', shows: 'x' },
  { name: 'entity-encoded scheme', text: '[x](&#106;avascript:alert(1)) [y](&#x6A;avascript&colon;alert(1))' },
  { name: 'percent-encoded scheme', text: '[x](%6Aavascript:alert(1))', shows: 'x' },
  {
    name: 'tab in the scheme',
    text: '[x](java\tscript:alert(1)) [y](<java\tscript:alert(1)>) [z](java&Tab;script:alert(1))',
  },
  { name: 'newline in the scheme', text: '[x](java\nscript:alert(1)) [y](java&NewLine;script:alert(1))' },
  {
    name: 'control characters before the scheme',
    text: '[x](\u0001javascript:alert(1)) [y](<\u001fjavascript:alert(1)>)',
  },
  { name: 'white space before the scheme', text: '[x](  javascript:alert(1)) [y](<\u00a0javascript:alert(1)>)' },
  { name: 'NUL in the scheme', text: '[x](java\0script:alert(1))' },
  { name: 'backslash escapes in the scheme', text: String.raw`[x](javascript\:alert(1)) [y](java\script:alert(1))` },
  { name: 'protocol-relative address', text: '[x](//evil.example/x) //evil.example/y' },
  {
    name: 'scheme without slashes goes to our own host',
    text: '[x](https:/runs/1/cancel) [y](https:runs)',
    shows: 'x y',
  },
  { name: 'backslashes for slashes', text: String.raw`[x](https:\\evil.example) [y](\\evil.example)` },
  { name: 'own pages', text: '[x](/settings) [y](#top) [z](?a=1) [w](../a)', shows: 'x y z w' },
  {
    name: 'name and password before the host',
    text: '[x](https://bank.example@evil.example/) https://bank.example:1@evil.example/',
    links: ['https://bank.example:1'],
  },
  { name: 'unknown schemes', text: '[x](steam://run/1) [y](ms-msdt:/id) [z](intent://a#Intent;end) ftp://a.example/b' },
];

const HTML: Attack[] = [
  { name: 'script', text: '<script>alert(1)</script>', shows: '<script>alert(1)</script>' },
  { name: 'image with onerror', text: 'a <img src=x onerror=alert(1)> b', shows: 'a <img src=x onerror=alert(1)> b' },
  {
    name: 'svg with onload',
    text: '<svg/onload=alert(1)>\n\n<svg><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>',
  },
  {
    name: 'iframe',
    text: '<iframe src="https://evil.example" srcdoc="<script>alert(1)</script>"></iframe>',
    links: ['https://evil.example'],
  },
  { name: 'form', text: '<form action=/runs method=post><input name=a><button>Go</button></form>' },
  { name: 'style', text: '<style>*{position:fixed}</style>\n<p style="position:fixed;inset:0">x</p>' },
  { name: 'meta refresh', text: '<meta http-equiv="refresh" content="0;url=/x">' },
  { name: 'base', text: '<base href="//evil.example/">' },
  { name: 'link element', text: '<link rel=stylesheet href=//evil.example/a.css>' },
  {
    name: 'details, video, object, embed',
    text: '<details open ontoggle=alert(1)><video><source onerror=alert(1)></video><object data=x><embed src=x>',
  },
  { name: 'comment', text: 'a <!-- <img src=x onerror=alert(1)> --> b <!-- open', shows: '<!-- open' },
  {
    name: 'CDATA and processing instruction',
    text: '<![CDATA[<script>alert(1)</script>]]> <?php echo 1 ?> <!DOCTYPE html>',
  },
  {
    name: 'encoded html',
    text: '&lt;img src=x onerror=alert(1)&gt; &#60;script&#62;',
    shows: '<img src=x onerror=alert(1)> <script>',
  },
  {
    name: 'html in a table, a list, a quotation and a heading',
    text: '| <b onclick=x> |\n|--|\n| <script>1</script> |\n\n- <u>\n\n> <i>\n\n# <h1>',
  },
  {
    name: 'mutation attempts',
    text: '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
  },
  {
    name: 'template and custom element',
    text: '<template><slot></slot></template><x-y is="script" v-html="1">{{ constructor.constructor("alert(1)")() }}',
  },
];

const LINKS: Attack[] = [
  {
    name: 'autolinks',
    text: '<javascript:alert(1)> <data:text/html,x> <https://a.example/> <me@a.example>',
    links: ['https://a.example/', 'mailto:me@a.example'],
  },
  {
    name: 'reference links',
    text: '[x][1] [y][2] [3]\n\n[1]: javascript:alert(1)\n[2]: https://a.example "t"\n[3]: data:text/html,x',
    links: ['https://a.example'],
  },
  {
    name: 'a definition named like a property of all objects',
    text: '[__proto__] [constructor] [toString]\n\n[__proto__]: https://a.example',
    links: ['https://a.example'],
  },
  { name: 'image with javascript', text: '![x](javascript:alert(1)) ![y](data:image/svg+xml,<svg/onload=alert(1)>)' },
  {
    name: 'remote image',
    text: '![cat](https://evil.example/p.png?q=secret)',
    links: ['https://evil.example/p.png?q=secret'],
    shows: 'Image: cat (evil.example)',
  },
  {
    name: 'image as a reference',
    text: '![x][i]\n\n[i]: http://169.254.169.254/latest',
    links: ['http://169.254.169.254/latest'],
  },
  {
    name: 'link in the text of an image',
    text: '![[x](javascript:alert(1))](https://a.example/i.png)',
    links: ['https://a.example/i.png'],
  },
  {
    name: 'image in a link',
    text: '[![alt](https://evil.example/i.png)](https://a.example)',
    links: ['https://a.example'],
    shows: 'Image: alt (evil.example)',
  },
  {
    name: 'link in a link',
    text: '[a [b](https://b.example) c](https://c.example)',
    links: ['https://b.example', 'https://c.example'],
    shows: 'a b c](https://c.example)',
  },
  {
    name: 'attributes in address and title',
    text: '[x](https://a.example/"onmouseover="alert(1)) [y](https://a.example "t\\" onclick=alert(1)")',
    links: ['https://a.example/%22onmouseover=%22alert(1)', 'https://a.example'],
  },
  {
    name: 'attribute syntax of other dialects',
    text: '[x](https://a.example){onclick=alert(1)} # T {#id .c onload=x}',
    links: ['https://a.example'],
  },
  {
    name: 'link without text',
    text: 'a[](https://a.example/p)b',
    links: ['https://a.example/p'],
    shows: 'aa.exampleb',
  },
  {
    name: 'mail with headers',
    text: '[x](mailto:a@b.example?bcc=c@d.example) [y](mailto:)',
    links: ['mailto:a@b.example?bcc=c@d.example'],
  },
  { name: 'footnote and wiki syntax', text: '[^1] [[javascript:alert(1)]]\n\n[^1]: javascript:alert(1)' },
  { name: 'invalid host', text: '[x](https://[::1) [y](http:///a) [z](https://%zz/)' },
];

const CHARACTERS: Attack[] = [
  {
    name: 'direction overrides in link text',
    text: '[\u202emoc.elgoog\u202c](https://evil.example)',
    links: ['https://evil.example'],
    shows: 'moc.elgoog',
  },
  { name: 'direction isolates in prose and headings', text: '# \u2066a\u2069\n\n\u202dx\u202c `\u202ey`' },
  { name: 'direction overrides in code are spelled out', text: '```js\nif (a\u202e) {}\n```', shows: '⟨U+202E⟩' },
  {
    name: 'direction overrides in an image label',
    text: '![\u202egnp](https://a.example/x)',
    links: ['https://a.example/x'],
    shows: 'Image: gnp',
  },
  { name: 'NUL', text: 'a\0b\n\n```\n\0\n```\n', shows: 'a\u{fffd}b' },
  {
    name: 'lone surrogates',
    text: 'a\ud83d b\ude00 [x](https://a.example/\ud800) `\udfff`',
    links: ['https://a.example/%EF%BF%BD'],
  },
  { name: 'control characters and line separators', text: 'a\u0007\u001b[31mb\u2028c\u2029d\u0085e\u000b\u000c' },
  { name: 'numeric entities out of range', text: '&#0; &#x110000; &#xD800; &#99999999999;', shows: '\u{fffd}' },
];

const FENCES: Attack[] = [
  {
    name: 'attributes in the info string',
    text: '```js" onclick="alert(1)\nx\n```\n\n```js {onload=alert(1)}\ny\n```',
    shows: 'js"',
  },
  { name: 'html in the info string', text: '```<script>alert(1)</script>\nx\n```' },
  {
    name: 'info string that is a property of all objects',
    text: '```constructor\nx\n```\n\n```__proto__\ny\n```',
    shows: 'constructor',
  },
  { name: 'endless info string', text: `\`\`\`${'x'.repeat(5_000)}\ny\n\`\`\`` },
  { name: 'unclosed fence', text: '```html\n<script>alert(1)</script>', shows: '<script>alert(1)</script>' },
  { name: 'fence in a quotation and a list, unclosed', text: '> - ```\n>   <img src=x onerror=alert(1)>' },
  {
    name: 'mermaid and maths are code and text',
    text: '```mermaid\ngraph TD;click A "javascript:alert(1)"\n```\n\n$$\\href{javascript:alert(1)}{x}$$',
  },
];

describe.each([
  ['address', SCHEMES],
  ['html', HTML],
  ['link and image', LINKS],
  ['character', CHARACTERS],
  ['fence', FENCES],
] as const)('%s attacks are harmless', (_kind, attacks) => {
  test.each(attacks)('$name', ({ text, links = [], shows }) => {
    const drawn = draw(text);
    expect(drawn.links).toEqual(links);
    if (shows !== undefined) expect(drawn.text).toContain(shows);
  });
});

test('no text ever makes an element that loads something', () => {
  const everything = [SCHEMES, HTML, LINKS, CHARACTERS, FENCES].flat().map(({ text }) => text);
  const { root } = draw(everything.join('\n\n'));
  for (const tag of [
    'img',
    'iframe',
    'script',
    'link',
    'video',
    'audio',
    'object',
    'embed',
    'source',
    'form',
    'input',
  ]) {
    expect(elements(root, tag)).toEqual([]);
  }
});
