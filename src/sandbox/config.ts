// What may be configured of sandboxes: the `sandbox:` key of the configuration file.
import * as z from 'zod';
import { isolations, sandboxKinds } from './sandbox.ts';

const bytes = (what: string) => z.int().min(1_000_000).describe(`${what}, in bytes.`);
const name = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'Must be the name of an environment variable.');

export const sandboxConfig = z.strictObject({
  kind: z
    .enum(['auto', 'off', ...sandboxKinds])
    .default('auto')
    .describe(
      'Where commands run. auto takes the first that works here of bwrap, unshare, virtual. off: the assistant has no commands and no files.',
    ),
  requireIsolation: z
    .enum(isolations)
    .default('none')
    .describe('The server does not start where its sandbox isolates less than this.'),
  network: z
    .enum(['none', 'host'])
    .default('none')
    .describe(
      'host: commands use the network of this machine, its own services included; those of e2b that of their machine.',
    ),
  env: z
    .record(name, z.string())
    .default({})
    .describe('Environment of every command. Secrets do not belong here: name them in sandbox.secrets.'),
  secrets: z
    .array(name)
    .default([])
    .describe(
      'Environment variables of the server that every command gets. Their values are taken out of what is shown.',
    ),
  perUser: z.int().min(1).default(4).describe('Sandboxes that one user may have at once; further runs wait.'),
  total: z.int().min(1).default(16).describe('Sandboxes at once; further runs wait.'),
  waitSeconds: z.number().min(0).max(90).default(60).describe('How long a run waits for a sandbox, in seconds.'),
  warm: z
    .int()
    .min(0)
    .max(32)
    .optional()
    .describe('Sandboxes that are kept ready. 2 when absent, 0 with less than 1 GB of memory.'),
  limits: z
    .strictObject({
      memoryBytes: bytes('Memory of a sandbox').default(536_870_912),
      diskBytes: bytes('Files of a conversation').default(536_870_912),
      fileBytes: bytes('Largest file that a command may write').default(104_857_600),
      processes: z.int().min(4).default(64).describe('Processes of a sandbox.'),
      cpuSeconds: z.int().min(1).default(600).describe('CPU time of one process, in seconds.'),
      outputBytes: bytes('Output of a command, beyond which it is ended').default(67_108_864),
    })
    .prefault({}),
  docker: z
    .strictObject({
      image: z
        .string()
        .min(1)
        .optional()
        .describe(
          'Image with bash; it must be there already, best by its digest: name@sha256:... Required for docker.',
        ),
      socket: z
        .string()
        .optional()
        .describe('Path of the socket of the Docker API. Default: that of DOCKER_HOST, else /var/run/docker.sock.'),
      runtime: z.string().optional().describe('Runtime of containers, such as runsc. Default: that of the daemon.'),
    })
    .prefault({}),
  e2b: z
    .strictObject({
      template: z.string().optional().describe('Template of the machines. Default: that of the service.'),
      apiUrl: z.url().optional().describe('Address of a service that speaks the protocol of E2B. Default: E2B itself.'),
      sandboxUrl: z
        .url()
        .optional()
        .describe('Address of its machines, where all have one. Default: as the service says.'),
      apiKeyEnv: name.default('E2B_API_KEY').describe('Environment variable that holds the key.'),
    })
    .prefault({}),
  local: z
    .strictObject({
      iKnowThisIsNoSandbox: z
        .boolean()
        .default(false)
        .describe('Allows the kind local: commands run as the user of the server, with all its rights.'),
      inProduction: z.boolean().default(false).describe('Allows it also where NODE_ENV is production.'),
    })
    .prefault({}),
});

export type SandboxConfig = z.output<typeof sandboxConfig>;
