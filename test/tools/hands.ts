// The tools over a real workspace and a real shell, without privileges.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Json, Tool, ToolContext } from '../../src/kernel/index.ts';
import { createWorkspaceFiles } from '../../src/sandbox/files.ts';
import { createLocalBackend } from '../../src/sandbox/local.ts';
import type { Backend, Sandbox } from '../../src/sandbox/sandbox.ts';
import { createSandboxTools } from '../../src/tools/hands.ts';

export const advice = 'There is a shell, and no network.';

const ignore = () => undefined;
const limits = {
  memoryBytes: 500_000_000,
  diskBytes: 500_000_000,
  fileBytes: 100_000_000,
  processes: 64,
  cpuSeconds: 60,
};

/** One serves all tests: it looks at the machine when it is made. */
const backends = new Map<number, Promise<Backend>>();

function backendOf(outputBytes: number): Promise<Backend> {
  const log = { warn: ignore, error: ignore };
  const config = { limits: { ...limits, outputBytes }, network: 'host' as const, hidden: [], docker: {}, e2b: {}, log };
  const backend = backends.get(outputBytes) ?? createLocalBackend(config);
  backends.set(outputBytes, backend);
  return backend;
}

export interface Rig extends AsyncDisposable {
  /** The workspace on the host. */
  root: string;
  sandbox: Sandbox;
  tools: Tool[];
  /** What was shown while calls ran, and when. */
  shown: { text: string; at: number }[];
  /** Validates as the kernel does; rejects with what the model is told. */
  call(name: string, args: Json, more?: Partial<ToolContext>): Promise<string>;
}

export async function createRig({ fileBytes = 100_000_000, outputBytes = 50_000_000 } = {}): Promise<Rig> {
  const directory = await mkdtemp(join(tmpdir(), 'homard-hands-'));
  const root = join(directory, 'ws');
  await mkdir(root);
  await mkdir(join(directory, 'tmp'));
  const backend = await backendOf(outputBytes);
  const execution = await backend.open({ id: 'test', directory }, AbortSignal.timeout(10_000));
  const sandbox: Sandbox = {
    id: 'test',
    kind: 'local',
    capabilities: backend.capabilities,
    files: createWorkspaceFiles(root, { fileBytes }),
    seen: new Map(),
    exec: (spec) => execution.exec(spec),
  };
  const tools = createSandboxTools({ backend: { ...backend, advice }, of: async () => sandbox });
  const shown: Rig['shown'] = [];
  let calls = 0;
  return {
    root,
    sandbox,
    tools,
    shown,
    async call(name, args, more = {}) {
      const tool = tools.find((found) => found.name === name)!;
      const valid = await tool.validate(args);
      if ('problem' in valid) throw new Error(`Invalid arguments: ${valid.problem}`);
      const output = (text: string) => void shown.push({ text, at: Date.now() });
      const where = { tenant: 't', owner: 'o', conversation: 'c', run: 'r' };
      const call = `call_${calls++}`;
      const signal = AbortSignal.timeout(20_000);
      const result = await tool.run(valid.value as never, {
        ...where,
        key: `r:${call}`,
        call,
        signal,
        scrub: (text) => text,
        output,
        ...more,
      });
      return result as string;
    },
    async [Symbol.asyncDispose]() {
      await execution.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
