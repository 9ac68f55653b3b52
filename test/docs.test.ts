// What README and docs say is so: links lead somewhere, the example is the one that runs, and commands print what is shown.
import type { ChildProcess } from 'node:child_process';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { routes } from '../src/server/openapi.ts';
import { copyTemplate } from '../src/testing/store.ts';
import { NOBODY, schemaTemplate } from './server/harness.ts';

const readme = readFileSync('README.md', 'utf8');
const blocksOf = (language: string) =>
  [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'gms'))].map(([, block = '']) => block);

it.each(['README.md', 'AGENTS.md', 'CHANGELOG.md', ...globSync('docs/**/*.md')])(
  'links of %s lead somewhere',
  (path) => {
    const targets = [...readFileSync(path, 'utf8').matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
    const local = targets.filter((target) => !/^(?:https?:|#)/.test(target)).map((target) => target.split('#')[0]!);
    expect(local.filter((target) => !existsSync(join(dirname(path), target)))).toEqual([]);
  },
);

it('the example of the README is the one that runs', () => {
  const example = readFileSync('examples/01-hello.ts', 'utf8')
    .replace("'../src/index.ts'", "'homard'")
    .replace("'../src/testing/index.ts'", "'homard/testing'");
  expect(blocksOf('ts')).toEqual([example]);
});

it('the README names only routes, keys and variables that there are', () => {
  const known = routes.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
  const named = [...readme.matchAll(/`(GET|POST|PATCH|DELETE) (\/[^`?\s]*)/g)].map(
    ([, method, path]) => `${method} ${path}`,
  );
  expect(named.length).toBeGreaterThan(8);
  expect(named.filter((name) => !known.includes(name))).toEqual([]);
  const config = readFileSync('docs/CONFIG.md', 'utf8');
  const keys = [...readme.matchAll(/`((?:models|limits|window)\.\w+)`|\b(HOMARD_\w+|\w+_API_KEY)\b/g)].map(
    ([, key, variable]) => `\`${key ?? variable}`,
  );
  expect(keys.filter((key) => !config.includes(key))).toEqual([]);
});

it('the architecture names the folders that there are', () => {
  const text = readFileSync('docs/ARCHITECTURE.md', 'utf8');
  const named = [...text.matchAll(/^ {2}(\w+)\/ /gm)].map(([, name = '']) => name);
  const folders = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(named.toSorted()).toEqual(folders.map(({ name }) => name).toSorted());
  const files = [...text.matchAll(/`((?:src|kernel|server|models|store|files|access|agents|memory)\/[\w/-]+\.ts)`/g)];
  expect(files.length).toBeGreaterThan(5);
  const missing = files.map(([, path = '']) => path).filter((path) => !existsSync(join('src', path)));
  expect(missing).toEqual([]);
});

describe('commands of the README', () => {
  let folder: string;
  let server: ChildProcess;
  let address: string;
  let started = '';
  const cli = `${process.execPath} --liftoff-only ${resolve('src/cli.ts')}`;
  const env = { PATH: process.env.PATH, OLLAMA_HOST: NOBODY, HOMARD_PORT: '0' };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'homard-readme-'));
    await copyTemplate(join(folder, '.homard', 'db'), schemaTemplate);
    server = spawn(process.execPath, ['--liftoff-only', resolve('src/cli.ts'), 'start'], { cwd: folder, env });
    server.stdout!.on('data', (chunk) => (started += String(chunk)));
    while (!/^(?:Model: |No model)/m.test(started)) await once(server.stdout!, 'data');
    address = /listens on (\S+)/.exec(started)![1]!;
  });
  afterAll(async () => {
    const gone = once(server, 'exit');
    server.kill('SIGKILL');
    await gone;
    rmSync(folder, { recursive: true, force: true });
  });

  /** Lines after `$ `, with those that they go on in, and what is shown below. */
  const commands = blocksOf('console').flatMap((block) =>
    block
      .split(/^\$ /m)
      .filter(Boolean)
      .map((part) => {
        const [, command = '', output = ''] = /^((?:.*\\\n)*.*)\n?([^]*)$/.exec(part)!;
        return { command, output };
      }),
  );

  const VARIABLE = /(\.\.\.|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(?:\.\d)? m?s\b|\d+)/;

  /** Numbers, ids and times differ from run to run; "..." stands for anything. */
  function toPattern(line: string): RegExp {
    const parts = line.split(VARIABLE).map((part, i) => {
      if (i % 2 === 0) return part.replace(/[\^$\\.*+?()[\]{}|]/g, '\\$&');
      if (part === '...') return '.*';
      return part.endsWith('s') ? String.raw`\d+(?:\.\d)? m?s` : /^\d+$/.test(part) ? String.raw`\d+` : String.raw`\S+`;
    });
    return new RegExp(`^${parts.join('')}$`);
  }

  it.each(commands.map(({ command, output }) => [command, output]))(
    '%s',
    { timeout: 60_000 },
    async (command, output) => {
      const expected = output.split('\n').filter(Boolean);
      let actual = started;
      if (command.startsWith('git clone') && expected.length === 0) return;
      if (command !== 'npm start') {
        const line = command
          .replace('curl -N', 'curl -sN')
          .replaceAll('npx node src/cli.ts', cli)
          .replaceAll('http://127.0.0.1:4680', address);
        expect(line).not.toContain('npx');
        const { stdout, stderr } = await promisify(execFile)('sh', ['-c', `${line} 2>&1`], { cwd: folder, env });
        actual = stdout + stderr;
      }
      const lines = actual.split('\n');
      let at = 0;
      const missing = expected.filter((line) => {
        const found = lines.slice(at).findIndex((each) => toPattern(line).test(each));
        at += found + 1;
        return found < 0;
      });
      expect({ missing, actual: missing.length ? actual : '' }).toEqual({ missing: [], actual: '' });
    },
  );

  it('every command of the table is one', { timeout: 60_000 }, async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [resolve('src/cli.ts'), '--help'], {
      cwd: folder,
      env,
    });
    const named = [...readme.matchAll(/npx node src\/cli\.ts (\w+)/g)].map(([, name]) => name);
    expect(named.filter((name) => !stdout.includes(`homard ${name} `))).toEqual([]);
    expect(readme).toContain('npm start');
    expect(Object.keys((JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: object }).scripts)).toContain(
      'start',
    );
  });
});
