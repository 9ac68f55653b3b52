import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { createLabels, isLeft } from '../../src/sandbox/docker/owner.ts';

const own = createLabels('owner');

test('SBX-13: a container is left when its server is dead', () => {
  const { pid } = spawnSync('true');
  expect(isLeft(own)).toBe(false);
  expect(isLeft({ ...own, 'homard.pid': String(pid) })).toBe(true);
  expect(isLeft({ ...own, 'homard.started': '1' }), 'another process has its number now').toBe(true);
});

test('SBX-13: of another host, a container is left when its deadline has passed', () => {
  const other = { ...own, 'homard.host': 'elsewhere', 'homard.pid': '1' };
  expect(isLeft(other)).toBe(false);
  expect(isLeft({ ...other, 'homard.deadline': '2020-01-01T00:00:00.000Z' })).toBe(true);
  expect(isLeft({ 'homard.managed': '1' }), 'nothing is known of it').toBe(false);
});
