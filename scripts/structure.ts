// The rules of docs/ARCHITECTURE.md that no linter knows: levels, packages a folder may import, sizes, module mocks, and
// that the kernel imports nothing at run time.
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** Folder -> its level, and the packages it may import. A folder imports only from lower levels. */
const FOLDERS: Record<string, { level: number; packages: string[] }> = {
  kernel: { level: 0, packages: [] },
  files: { level: 0, packages: [] },
  store: { level: 1, packages: ['kysely', 'pg', '@electric-sql/pglite', 'zod'] },
  models: {
    level: 1,
    packages: ['zod', '@ai-sdk/anthropic', '@ai-sdk/openai', '@ai-sdk/deepseek', '@ai-sdk/alibaba', '@ai-sdk/provider'],
  },
  sandbox: { level: 1, packages: ['zod', 'dockerode', 'e2b', 'just-bash'] },
  terminal: { level: 1, packages: [] },
  access: { level: 2, packages: [] },
  memory: { level: 2, packages: ['yaml'] },
  tools: { level: 3, packages: ['zod'] },
  agents: { level: 4, packages: ['zod'] },
  server: { level: 5, packages: ['hono', '@hono/node-server', 'zod'] },
  commands: { level: 5, packages: ['zod'] },
  testing: { level: 7, packages: ['pg', 'zod', '@electric-sql/pglite'] },
  '.': { level: 6, packages: ['hono', '@hono/node-server', 'pino', 'yaml', 'zod'] },
};
const MAX_FILE_LINES = 400;
/** See docs/decisions/0002-kernel-size.md. */
const MAX_KERNEL_LINES = 2850;
/** Longer files, with the reason. */
const LONG_FILES = new Map<string, string>();

const problems: string[] = [];
let kernelLines = 0;

const folderOf = (path: string): string => (path.includes('/') ? (path.split('/')[0] ?? '.') : '.');

function packageOf(target: string): string {
  return target
    .split('/')
    .slice(0, target.startsWith('@') ? 2 : 1)
    .join('/');
}

function checkImports(path: string, text: string): void {
  const from = folderOf(path);
  const rule = FOLDERS[from];
  if (!rule) {
    problems.push(`${path}: folder ${from} has no level`);
    return;
  }
  for (const [, found, dynamic] of text.matchAll(
    /^(?:import|export|\} from)\b[^'=\n]*'([^'\n]+)';$|\bimport\('([^']+)'\)/gm,
  )) {
    const target = found ?? dynamic ?? '';
    if (target.startsWith('node:')) {
      if (from === 'kernel') problems.push(`${path}: the kernel imports nothing at run time, not even ${target}`);
    } else if (!target.startsWith('.')) {
      const name = packageOf(target);
      if (!rule.packages.includes(name)) problems.push(`${path}: ${from} may not import ${name}`);
    } else {
      const to = folderOf(relative('src', join('src', dirname(path), target)));
      const level = FOLDERS[to]?.level ?? Number.POSITIVE_INFINITY;
      const isPackageFile = to === '..';
      if (!isPackageFile && to !== from && level >= rule.level) {
        problems.push(`${path}: ${from} (level ${rule.level}) may not import ${to} (level ${level})`);
      }
    }
  }
}

for (const path of globSync('**/*.ts', { cwd: 'src' })) {
  const text = readFileSync(join('src', path), 'utf8');
  const lines = text.split('\n').length - 1;
  if (folderOf(path) === 'kernel') kernelLines += lines;
  if (lines > MAX_FILE_LINES && !LONG_FILES.has(path))
    problems.push(`${path}: ${lines} lines, at most ${MAX_FILE_LINES}`);
  if (
    /throw new Error\(/.test(text) &&
    folderOf(path) !== 'tools' &&
    path !== 'kernel/errors.ts' &&
    path !== 'kernel/tool.ts'
  ) {
    problems.push(`${path}: throws a bare Error; use the folder's defineErrors`);
  }
  checkImports(path, text);
}
if (kernelLines > MAX_KERNEL_LINES) problems.push(`kernel: ${kernelLines} lines, at most ${MAX_KERNEL_LINES}`);
for (const path of globSync('{test,bench,scripts,examples}/**/*.ts')) {
  const text = readFileSync(path, 'utf8');
  if (/vi\.(mock|doMock)\(/.test(text)) problems.push(`${path}: module mocks are not used here`);
  if (text.split('\n').length - 1 > MAX_FILE_LINES) problems.push(`${path}: longer than ${MAX_FILE_LINES} lines`);
}

console.log(problems.length ? problems.join('\n') : `structure: ok (kernel ${kernelLines} lines)`);
process.exitCode = problems.length ? 1 : 0;
