import { expect, test } from 'vitest';
import { processesOf } from '../../src/sandbox/docker/processes.ts';

const init = 10;
const of = (pid: number, parent: number, started: number) => ({ pid, parent, started });

test('to a command belongs what it started, and what left its parent since', () => {
  const all = [
    of(init, 1, 100),
    of(11, init, 101), // what waits in the container
    of(20, init, 200), // in the background since before
    of(21, 20, 350), // a child of that one
    of(30, 1, 300), // the command
    of(31, 30, 301),
    of(32, 31, 302),
    of(33, init, 303), // left its parent
    of(34, 33, 304),
    of(40, 1, 310), // another command
    of(41, 40, 311),
  ];
  expect(processesOf(all, { init, root: 30, since: 300 })).toEqual([30, 31, 32, 33, 34]);
  const orphans = all.filter(({ pid }) => pid !== 30).map((each) => (each.pid === 31 ? of(31, init, 301) : each));
  expect(processesOf(orphans, { init, root: undefined, since: 300 }), 'its first one has ended').toEqual([
    31, 32, 33, 34,
  ]);
});
