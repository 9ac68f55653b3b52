// What sandboxes cost, each kind that works here beside a plain process of the host, in turn in one run: from the claim of a
// warm one with 20 files in its workspace to the first byte, following commands, and a Bash round in a turn.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHomard } from '../src/app.ts';
import type { ConfigInput } from '../src/config.ts';
import { allowAll } from '../src/kernel/index.ts';
import { createScriptedModel } from '../src/models/scripted.ts';
import { createBackend } from '../src/sandbox/backends.ts';
import { sandboxConfig } from '../src/sandbox/config.ts';
import type { SandboxKind } from '../src/sandbox/sandbox.ts';
import type { Sandboxes } from '../src/sandbox/sandboxes.ts';
import { createSandboxes } from '../src/sandbox/sandboxes.ts';

const CLAIMS = 60;
const FOLLOWING = 5;
const TURNS = 40;
/** A model thinks between its calls; meanwhile the next command's place is made. */
const THINK_MS = 60;

const log = { warn: () => undefined, error: (_: object, message: string) => console.error(message) };

interface Row {
  kind: string;
  'claim to first byte p50': number;
  p95: number;
  'next command p50': number;
  'next p95': number;
  'python3 p50'?: number;
  'Bash round in a turn p50'?: number;
}

/** Kinds that cannot be used here are left out, and named. */
export async function measureSandboxes(say: (text: string) => void): Promise<void> {
  const directory = await fs.mkdtemp(join(os.tmpdir(), 'homard-bench-'));
  const rows: Row[] = [];
  try {
    rows.push(await measureHost());
    for (const kind of ['local', 'bwrap', 'unshare', 'virtual', 'docker'] as const) {
      const folder = join(directory, kind);
      try {
        rows.push(await measureKind(kind, folder));
      } catch (error) {
        say(`${kind}: ${String(error)}`);
      }
    }
  } finally {
    await fs.rm(directory, { recursive: true, force: true });
  }
  console.table(Object.fromEntries(rows.map(({ kind, ...figures }) => [kind, figures])));
}

function configOf(kind: SandboxKind): ConfigInput['sandbox'] {
  const { HOMARD_DOCKER_SOCKET: socket, HOMARD_DOCKER_IMAGE: image } = process.env;
  return {
    kind,
    local: { iKnowThisIsNoSandbox: true },
    docker: { ...(socket && { socket }), ...(image && { image }) },
  };
}

async function measureHost(): Promise<Row> {
  const times: number[] = [];
  for (let i = 0; i < CLAIMS; i++) {
    const began = performance.now();
    const child = spawn('/bin/bash', ['-c', 'echo hi'], { env: {} });
    await once(child.stdout, 'data');
    times.push(performance.now() - began);
    await once(child, 'close');
  }
  return { kind: 'a process', ...claims(times), ...nexts(times) };
}

async function measureKind(kind: SandboxKind, directory: string): Promise<Row> {
  const config = sandboxConfig.parse(configOf(kind));
  const backend = await createBackend(kind, { config, environment: {}, log });
  const { fileBytes, diskBytes } = config.limits;
  const sizes = { perUser: 16, total: 16, waitMs: 60_000, warm: 2, fileBytes, diskBytes };
  await using sandboxes = await createSandboxes({ backend, directory, isAlone: true, ...sizes, equipment: {}, log });
  const key = { tenant: 't', owner: 'o', conversation: 'c' };
  const files = sandboxes.filesOf(key);
  for (let i = 0; i < 20; i++) await files.write(`skills/x/f${i}.py`, `print(${i})\n`);
  const first: number[] = [];
  const next: number[] = [];
  const python: number[] = [];
  for (let i = 0; i < CLAIMS; i++) {
    const run = `run-${i}`;
    const leave = sandboxes.expect(run, {});
    await sleep(THINK_MS);
    first.push(await firstByte(sandboxes, { ...key, run }, ['bash', '-c', 'echo hi']));
    for (let n = 0; i % 6 === 0 && n < FOLLOWING; n++) {
      await sleep(THINK_MS);
      next.push(await firstByte(sandboxes, { ...key, run }, ['bash', '-c', 'echo hi']));
      await sleep(THINK_MS);
      python.push(await firstByte(sandboxes, { ...key, run }, ['python3', '-c', 'print(1)']));
    }
    await leave();
  }
  const round = { 'Bash round in a turn p50': await measureRound(kind, `${directory}-turns`) };
  return { kind, ...claims(first), ...nexts(next), 'python3 p50': at(python, 0.5), ...round };
}

async function firstByte(
  sandboxes: Sandboxes,
  key: Parameters<Sandboxes['of']>[0],
  argv: readonly [string, ...string[]],
): Promise<number> {
  const signal = AbortSignal.timeout(30_000);
  const began = performance.now();
  let ms = 0;
  const sandbox = await sandboxes.of(key, { signal });
  const result = await sandbox.exec({ argv, onOutput: () => (ms ||= performance.now() - began) });
  if (!ms) throw new Error(`${argv.join(' ')} wrote nothing: ${Buffer.from(result.stderr.head).toString()}`);
  return ms;
}

/** What a turn with one call takes more than a turn without, on the embedded store. */
async function measureRound(kind: SandboxKind, data: string): Promise<number> {
  const model = createScriptedModel(({ messages }) => {
    const last = messages.at(-1)!;
    const asks = last.role === 'user' && last.parts.some((part) => part.type === 'text' && part.text === 'call');
    return asks ? { calls: [{ name: 'Bash', args: { command: 'echo hi' } }], delayMs: THINK_MS } : { text: 'ok' };
  });
  const config = { data, transcripts: false, sandbox: configOf(kind) };
  await using homard = await createHomard({ config, model, policy: allowAll, token: 't', logger: log, page: false });
  const turn = async (query: string) => {
    const began = performance.now();
    const headers = { authorization: 'Bearer t', 'content-type': 'application/json', host: 'localhost' };
    const body = JSON.stringify({ conversationId: 'web', query });
    await homard.fetch(new Request('http://localhost/chat', { method: 'POST', headers, body }));
    return performance.now() - began;
  };
  const [plain, calling]: [number[], number[]] = [[], []];
  for (let i = 0; i < TURNS; i++) {
    plain.push(await turn('plain'));
    calling.push((await turn('call')) - THINK_MS);
  }
  return round(at(calling, 0.5) - at(plain, 0.5));
}

const claims = (times: number[]) => ({ 'claim to first byte p50': at(times, 0.5), p95: at(times, 0.95) });
const nexts = (times: number[]) => ({ 'next command p50': at(times, 0.5), 'next p95': at(times, 0.95) });

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return round(sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN);
}

const round = (ms: number) => Math.round(ms * 10) / 10;
