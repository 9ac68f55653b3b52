// The conformance suite over containers. Needs a daemon: scripts/dockerd.sh vitest run <this file>.
import { createDockerBackend } from '../../src/sandbox/docker.ts';
import { createSandboxUnderTest } from '../../src/testing/sandbox.ts';
import { conform } from './conform.ts';

const { HOMARD_DOCKER_SOCKET: socket = '', HOMARD_DOCKER_IMAGE: image = '' } = process.env;

conform('docker', () => createSandboxUnderTest(createDockerBackend, { docker: { socket, image } }));
