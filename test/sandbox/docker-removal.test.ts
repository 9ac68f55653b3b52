import Docker from 'dockerode';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { removeContainer } from '../../src/sandbox/docker/daemon.ts';
import { createLabels } from '../../src/sandbox/docker/owner.ts';
import { type Containers, endContainer, reap, retry } from '../../src/sandbox/docker/removal.ts';

/** A daemon with one container, which breaks the connection the first `broken` times that it shall remove it. */
async function daemon(broken: number) {
  const state = { broken, names: ['stays'] };
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.end(
        JSON.stringify(state.names.map((name) => ({ Id: name, Names: [`/${name}`], Labels: createLabels('me') }))),
      );
    } else if (state.broken-- > 0) {
      request.socket.destroy();
    } else {
      response.statusCode = state.names.pop() === undefined ? 404 : 204;
      response.end();
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const docker = new Docker({ protocol: 'http', host: '127.0.0.1', port: (server.address() as AddressInfo).port });
  const warnings: string[] = [];
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined };
  const containers: Containers = { docker, owner: 'me', config: { log }, live: new Set(['stays']), stuck: new Set() };
  return { state, docker, warnings, containers };
}

test('a connection that breaks while a container is removed is not the end of it', async () => {
  const { state, docker } = await daemon(3);
  expect(await removeContainer(docker.getContainer('stays'))).toBe(true);
  expect(state.names).toEqual([]);
});

test('a container that cannot be removed is told of with what to do, and removed later', async () => {
  const { state, warnings, containers } = await daemon(Number.POSITIVE_INFINITY);
  containers.live.clear();
  const [reaped] = await Promise.allSettled([reap(containers), endContainer(containers, 'stays')]);
  expect(warnings).toEqual([expect.stringContaining('docker rm -f stays')]);
  expect(reaped, 'whoever needs it gone is not told that it is').toMatchObject({
    status: 'rejected',
    reason: { code: 'sandbox.failed', message: expect.stringContaining('stays') },
  });
  state.broken = 0;
  await retry(containers);
  expect(state.names).toEqual([]);
  expect([...containers.stuck]).toEqual([]);
  expect(warnings).toHaveLength(1);
});
