import { expect, it } from 'vitest';
import type { WorkspaceFile } from '../../web/src/api/types.ts';
import { toRows } from '../../web/src/workspace/tree.ts';

const file = (path: string): WorkspaceFile => {
  const isFolder = path.endsWith('/');
  return {
    path: isFolder ? path.slice(0, -1) : path,
    kind: isFolder ? 'folder' : 'file',
    bytes: 1,
    modifiedAt: 0,
    isExecutable: false,
  };
};
const draw = (paths: string[], chosen: [string, boolean][] = []) =>
  toRows(paths.map(file), new Map(chosen)).map(
    ({ name, level, isOpen }) => `${'  '.repeat(level)}${name}${isOpen === undefined ? '' : isOpen ? '/' : '/...'}`,
  );

it('has folders before files, numbers in their order, and what tools keep at the end', () => {
  const paths = [
    '.outputs/',
    '.outputs/call_0.txt',
    'b.txt',
    'a10',
    'a9',
    'src/',
    'src/main.py',
    'src/lib/',
    'src/lib/x',
  ];
  expect(draw(paths)).toEqual(['src/', '  lib/', '    x', '  main.py', 'a9', 'a10', 'b.txt', '.outputs/...']);
});

it('opens and closes what the reader chose', () => {
  const paths = ['.outputs/', '.outputs/call_0.txt', 'src/', 'src/main.py'];
  const chosen: [string, boolean][] = [
    ['.outputs', true],
    ['src', false],
  ];
  expect(draw(paths, chosen)).toEqual(['src/...', '.outputs/', '  call_0.txt']);
});

it('begins with deeper and with large folders closed where there are many files', () => {
  const many = Array.from({ length: 120 }, (_, n) => `modules/m${n}`);
  expect(draw(['modules/', ...many, 'src/', 'src/lib/', 'src/lib/x'])).toEqual(['modules/...', 'src/', '  lib/...']);
});

it('loses nothing whose folder was not told', () => {
  expect(draw(['gone/x', 'a'])).toEqual(['a', 'gone/x']);
});
