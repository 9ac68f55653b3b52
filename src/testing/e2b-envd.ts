// The service in a machine of the stand-in for E2B: processes and the file system by Connect with JSON, and file contents.
import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { chmod, lstat, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { basename, dirname, posix } from 'node:path';
import * as z from 'zod';
import type { MachineProcess, TestMachine } from './e2b-machine.ts';
import { killGroup } from './e2b-machine.ts';
import type { E2bRequest } from './e2b-server.ts';

interface Call {
  request: E2bRequest;
  url: URL;
  response: ServerResponse;
}

const start = z.looseObject({
  process: z.looseObject({
    cmd: z.string(),
    args: z.array(z.string()).default([]),
    envs: z.record(z.string(), z.string()).default({}),
    cwd: z.string().default('/home'),
  }),
  stdin: z.boolean().default(true),
});
const selector = z.looseObject({ process: z.looseObject({ pid: z.int() }) });
const input = selector.extend({ input: z.looseObject({ stdin: z.base64() }) });
const path = z.looseObject({ path: z.string() });
const listing = path.extend({ depth: z.int().min(1).default(1) });
const move = z.looseObject({ source: z.string(), destination: z.string() });

/** Statuses by which Connect tells its codes. */
const statuses = { not_found: 404, already_exists: 409, invalid_argument: 400, unimplemented: 404 };
type Code = keyof typeof statuses;
const refuse = (code: Code, message: string): Answer => ({ status: statuses[code], json: { code, message } });

export interface Envd {
  handle(call: Call): Promise<void>;
  /** Closes the connections on which commands are watched; the commands go on. */
  cut(): void;
}

export function createEnvd(machine: TestMachine): Envd {
  const watched = new Set<ServerResponse>();
  const processes = new Map<number, { child: MachineProcess; config: z.output<typeof start>['process'] }>();

  /** Resolves when the command has ended; the answer is its stream. */
  async function watch({ response }: Call, child: MachineProcess): Promise<undefined> {
    const { pid } = child;
    response.writeHead(200, { 'content-type': 'application/connect+json' });
    watched.add(response);
    response.on('close', () => watched.delete(response));
    // Whoever stops watching does not stop the command.
    const write = (message: object, flag = 0) => response.destroyed || response.write(frame(message, flag));
    write({ event: { start: { pid } } });
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk: Buffer) => write({ event: { data: { [name]: chunk.toString('base64') } } }));
    }
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    const status = signal ? `signal: ${signal}` : `exit status ${code}`;
    write({ event: { end: { exitCode: code ?? -1, exited: code !== null, status } } });
    write({}, 2);
    response.end();
  }

  async function startProcess(call: Call): Promise<undefined> {
    const { process: config, stdin } = start.parse(JSON.parse(call.request.body.subarray(5).toString()));
    const child = machine.start(config);
    const { pid } = child;
    if (pid === undefined) {
      call.response.writeHead(200, { 'content-type': 'application/connect+json' });
      call.response.end(frame({ error: { code: 'invalid_argument', message: 'The command cannot be started' } }, 2));
      return;
    }
    processes.set(pid, { child, config });
    child.on('close', () => processes.delete(pid));
    if (!stdin) child.stdin.end();
    return await watch(call, child);
  }

  async function processCall(call: Call, method: string): Promise<Answer | undefined> {
    if (method === 'Start') return await startProcess(call);
    if (method === 'List') {
      return { status: 200, json: { processes: [...processes].map(([pid, { config }]) => ({ pid, config })) } };
    }
    const isStream = method === 'Connect';
    const text = call.request.body.subarray(isStream ? 5 : 0).toString();
    const value: unknown = JSON.parse(text);
    const { pid } = selector.parse(value).process;
    const found = processes.get(pid);
    if (!found) return refuse('not_found', `There is no process ${pid}`);
    if (isStream) return await watch(call, found.child);
    if (method === 'SendSignal') killGroup(found.child);
    else if (method === 'SendInput') found.child.stdin.write(Buffer.from(input.parse(value).input.stdin, 'base64'));
    else if (method === 'CloseStdin') found.child.stdin.end();
    else return refuse('unimplemented', method);
    return { status: 200, json: {} };
  }

  async function fileCall(method: string, value: unknown): Promise<Answer> {
    if (method === 'Move') {
      const { source, destination } = move.parse(value);
      await mkdir(dirname(machine.toHost(destination)), { recursive: true });
      await rename(machine.toHost(source), machine.toHost(destination));
      return { status: 200, json: { entry: await describe(destination) } };
    }
    const { path: name } = path.parse(value);
    if (method === 'Stat') return { status: 200, json: { entry: await describe(name) } };
    if (method === 'Remove') {
      await rm(machine.toHost(name), { recursive: true, force: true });
      return { status: 200, json: {} };
    }
    if (method === 'MakeDir') {
      const made = await mkdir(machine.toHost(name), { recursive: true });
      if (made === undefined) return refuse('already_exists', name);
      await machine.give(machine.toHost(name));
      return { status: 200, json: { entry: await describe(name) } };
    }
    if (method !== 'ListDir') return refuse('unimplemented', method);
    return { status: 200, json: { entries: await list(name, listing.parse(value).depth) } };
  }

  async function list(folder: string, depth: number): Promise<object[]> {
    const entries: object[] = [];
    for (const entry of await readdir(machine.toHost(folder), { withFileTypes: true })) {
      const inner = posix.join(folder, entry.name);
      entries.push(await describe(inner));
      if (entry.isDirectory() && depth > 1) entries.push(...(await list(inner, depth - 1)));
    }
    return entries;
  }

  async function describe(name: string): Promise<object> {
    const stat = await lstat(machine.toHost(name));
    return { name: basename(name), path: posix.resolve('/', name), ...toEntry(stat) };
  }

  async function contents({ request, url, response }: Call): Promise<void> {
    const name = url.searchParams.get('path');
    if (request.method === 'GET') {
      const bytes = await readFile(machine.toHost(name ?? ''));
      response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes.byteLength });
      response.end(bytes);
      return;
    }
    const written: object[] = [];
    for (const { to, bytes } of await uploads(request, name)) {
      const place = machine.toHost(to);
      await mkdir(dirname(place), { recursive: true });
      await writeFile(place, bytes);
      await chmod(place, 0o644);
      await machine.give(place);
      written.push({ name: basename(to), type: 'file', path: to });
    }
    send(response, { status: 200, json: written });
  }

  async function handle(call: Call): Promise<void> {
    const { pathname } = call.url;
    const [, service, method = ''] = /^\/(process\.Process|filesystem\.Filesystem)\/(\w+)$/.exec(pathname) ?? [];
    try {
      if (pathname === '/health') return void call.response.writeHead(204).end();
      if (pathname === '/files') return await contents(call);
      const answer = service?.startsWith('process')
        ? await processCall(call, method)
        : await fileCall(method, JSON.parse(call.request.body.toString()));
      if (answer) send(call.response, answer);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      const answer = refuse('not_found', String(error));
      send(call.response, pathname === '/files' ? { ...answer, json: { code: 404, message: String(error) } } : answer);
    }
  }

  return {
    handle,
    cut() {
      for (const response of watched) response.destroy();
    },
  };
}

export interface Answer {
  status: number;
  json?: unknown;
}

export function send(response: ServerResponse, { status, json }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(json === undefined ? undefined : JSON.stringify(json));
}

/** A message of a stream: a flag, its length, its text. */
function frame(message: object, flag: number): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt8(flag);
  head.writeUInt32BE(body.byteLength, 1);
  return Buffer.concat([head, body]);
}

function toEntry(stat: Stats) {
  const type = stat.isDirectory() ? 'DIRECTORY' : stat.isSymbolicLink() ? 'SYMLINK' : 'FILE';
  return {
    type: `FILE_TYPE_${type}`,
    size: String(stat.size),
    mode: stat.mode & 0o7777,
    permissions: '',
    owner: 'user',
    group: 'user',
    modifiedTime: stat.mtime.toISOString(),
  };
}

async function uploads(
  { headers, body }: E2bRequest,
  name: string | null,
): Promise<{ to: string; bytes: Uint8Array }[]> {
  const type = headers['content-type'] ?? '';
  if (!type.startsWith('multipart/')) return [{ to: name ?? '', bytes: body }];
  const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
  const files: { to: string; bytes: Uint8Array }[] = [];
  for (const value of form.getAll('file')) {
    if (typeof value === 'string') continue;
    files.push({ to: name ?? value.name, bytes: new Uint8Array(await value.arrayBuffer()) });
  }
  return files;
}
