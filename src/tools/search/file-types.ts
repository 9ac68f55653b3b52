/** The kinds of files that a search can be limited to, by the ends of their names. */
const endings = {
  c: ['.c', '.h'],
  cpp: ['.cpp', '.cc', '.cxx', '.hpp', '.hh', '.hxx', '.h'],
  csharp: ['.cs'],
  css: ['.css', '.scss', '.sass', '.less'],
  csv: ['.csv', '.tsv'],
  go: ['.go'],
  html: ['.html', '.htm', '.xhtml'],
  java: ['.java'],
  js: ['.js', '.jsx', '.mjs', '.cjs'],
  json: ['.json', '.jsonl', '.ndjson'],
  kotlin: ['.kt', '.kts'],
  md: ['.md', '.markdown', '.mdx'],
  php: ['.php'],
  py: ['.py', '.pyi'],
  ruby: ['.rb'],
  rust: ['.rs'],
  sh: ['.sh', '.bash', '.zsh'],
  sql: ['.sql'],
  swift: ['.swift'],
  toml: ['.toml'],
  ts: ['.ts', '.tsx', '.mts', '.cts'],
  txt: ['.txt', '.text', '.log'],
  vue: ['.vue'],
  xml: ['.xml', '.svg', '.xsd', '.xsl'],
  yaml: ['.yaml', '.yml'],
} as const;

export type FileType = keyof typeof endings;

export const fileTypes = Object.keys(endings) as FileType[];

export const isOfType = (name: string, type: FileType): boolean =>
  endings[type].some((ending) => name.toLowerCase().endsWith(ending));
