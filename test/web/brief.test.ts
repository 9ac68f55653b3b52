import { expect, it } from 'vitest';
import { briefOf } from '../../web/src/chat/brief.ts';

it.each([
  ['the first line of a command', 'Bash', { command: '\nset -e\nnpm test' }, 'set -e'],
  [
    'what a command does, where that is told',
    'Bash',
    { command: 'npm test', description: 'Run the tests' },
    'Run the tests',
  ],
  ['the path of a file, without its content', 'Write', { path: 'a.txt', content: 'x\ny' }, 'a.txt'],
  ['the line where reading begins', 'Read', { path: 'a.txt', offset: 40, limit: 10 }, 'a.txt:40'],
  ['a pattern and its folder', 'Grep', { pattern: 'price', path: 'src' }, 'price · src'],
  ['all arguments of another tool', 'send_mail', { to: 'team', n: 2 }, 'team · 2'],
  ['arguments that are no object', 'Bash', 'not JSON', 'not JSON'],
  ['arguments of the wrong kind', 'Read', { path: 5 }, '5'],
  ['nothing', 'toString', {}, ''],
])('tells %s', (_what, name, args, brief) => {
  expect(briefOf(name, args)).toBe(brief);
});
