// The load client: a process of its own, so that its work can be pinned and does not count for the server.
// Forked by run.ts; takes one LoadOrder at a time as a message and answers each with a LoadReport.
import http from 'node:http';
import { cpuByThread, cpuMs, databaseProcesses, machineBusyMs, processTree, rssMb, sum } from './process.ts';

export interface LoadOrder {
  port: number;
  token: string;
  /** The text that only the end of an unbroken stream holds. */
  end: string;
  pid: number;
  mockPid: number;
  mockPort: number;
  /** Whose server processes to count apart; absent when there is no PostgreSQL. */
  database?: string;
  text: string;
  job: Job;
}

export type Job = ClientsJob | GrowthJob | OpenedJob;

/** So many clients at once; each leads one conversation of ten turns after another. */
export interface ClientsJob {
  kind: 'clients';
  clients: number;
  seconds: number;
}

/** Conversations are filled up to `earlier` messages; then `measured` turns in each of them count. */
export interface GrowthJob {
  kind: 'growth';
  conversations: number;
  earlier: number;
  measured: number;
}

/** So many new conversations, each of two turns, 20 at once. */
export interface OpenedJob {
  kind: 'opened';
  conversations: number;
}

export interface LoadReport {
  turns: number;
  errors: number;
  firstError: string;
  turnsPerS: number;
  /** A turn, of the server's process tree; by thread in `threadCpuMs`. */
  cpuMs: number;
  threadCpuMs: Record<string, number>;
  /** Absent when the server has no PostgreSQL. */
  databaseCpuMs?: number;
  ttftP50Ms: number;
  ttftP99Ms: number;
  peakRssMb: number;
  /** Messages in the last prompt that the model saw. */
  promptMessages: number;
  /** Cores that anything but server, model, client and database kept busy meanwhile: trust no figure where it is high. */
  otherCores: number;
  /** CPU time of a fixed piece of work just before: what the machine itself was worth, whatever else the host did. */
  yardstickMs: number;
}

interface Turn {
  ttftMs: number;
  error: string;
}

const TURNS_PER_CONVERSATION = 10;
const TIMEOUT_MS = 20_000;
const FIRST_WORD = 'w-00';

let agent = new http.Agent();
const prefix = `bench-${process.pid}-${Date.now().toString(36)}`;
let conversations = 0;

function newConversation(): string {
  return `${prefix}-${conversations++}`;
}

/** The last of N words; the mock model repeats 64 of them. */
function lastWordOf(text: string): string {
  const tokens = Number(/plain (\d+)|tools \d+ (\d+)/.exec(text)?.slice(1).find(Boolean));
  return `w-${((tokens - 1) & 63).toString(36).padStart(2, '0')}`;
}

/** Looks for texts one after another in a stream, wherever it is cut, and keeps no more of it than it must. */
function createFinder(texts: string[]): (part: Buffer) => number {
  const wanted = texts.map((text) => Buffer.from(text));
  const keep = Math.max(...wanted.map((text) => text.length)) - 1;
  let rest: Buffer = Buffer.alloc(0);
  let found = 0;
  return (part) => {
    let window = rest.length > 0 ? Buffer.concat([rest, part]) : part;
    for (let at; found < wanted.length && (at = window.indexOf(wanted[found]!)) >= 0; found++) {
      window = window.subarray(at + wanted[found]!.length);
    }
    rest = window.subarray(Math.max(0, window.length - keep));
    return found;
  };
}

function takeTurn(order: LoadOrder, conversationId: string, text = order.text): Promise<Turn> {
  const { promise, resolve } = Promise.withResolvers<Turn>();
  const body = JSON.stringify({ conversationId, query: text, modelName: 'mock' });
  const find = createFinder([FIRST_WORD, lastWordOf(text), order.end]);
  const begun = performance.now();
  let ttftMs = 0;
  let found = 0;
  let said = '';
  const fail = (cause: unknown) => resolve({ ttftMs, error: String(cause) });
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    accept: 'text/event-stream',
    authorization: `Bearer ${order.token}`,
  };
  const target = { host: '127.0.0.1', port: order.port, path: '/chat/stream', method: 'POST', agent, headers };
  const request = http.request(target, (response) => {
    response.on('data', (part: Buffer) => {
      found = find(part);
      if (found > 0 && ttftMs === 0) ttftMs = performance.now() - begun;
      if (found === 0 && said.length < 400) said += part.toString();
    });
    response.on('error', fail);
    response.on('end', () => {
      const complete = response.statusCode === 200 && found === 3;
      const lack = ['the first token', 'the last token', `"${order.end}"`][found];
      resolve({ ttftMs, error: complete ? '' : `HTTP ${response.statusCode} without ${lack}: ${said.slice(0, 400)}` });
    });
  });
  request.setTimeout(TIMEOUT_MS, () => request.destroy(new Error(`nothing came for ${TIMEOUT_MS} ms`)));
  request.on('error', fail);
  request.end(body);
  return promise;
}

async function runClients(order: LoadOrder, { clients, seconds }: ClientsJob): Promise<Turn[]> {
  const turns: Turn[] = [];
  const end = performance.now() + seconds * 1000;
  const lead = async () => {
    while (performance.now() < end) {
      const conversation = newConversation();
      for (let i = 0; i < TURNS_PER_CONVERSATION && performance.now() < end; i++)
        turns.push(await takeTurn(order, conversation));
    }
  };
  await Promise.all(Array.from({ length: clients }, lead));
  return turns;
}

async function openConversations(order: LoadOrder, job: OpenedJob): Promise<Turn[]> {
  const turns: Turn[] = [];
  let left = job.conversations;
  const open = async () => {
    while (left-- > 0) {
      const conversation = newConversation();
      turns.push(await takeTurn(order, conversation), await takeTurn(order, conversation));
    }
  };
  await Promise.all(Array.from({ length: 20 }, open));
  return turns;
}

/** What each has done since; those that are new since count in full, those that ended not at all. */
function subtract<Key>(after: Map<Key, number>, before: Map<Key, number>): Map<Key, number> {
  return new Map([...after].map(([key, ms]) => [key, ms - (before.get(key) ?? 0)]));
}

/** Sums what several stretches of work cost; what happens between them does not count. */
function createMeter(order: LoadOrder) {
  const server = processTree(order.pid);
  const read = () => ({
    threads: cpuByThread(server),
    database: new Map(databaseProcesses(order.database).map((pid) => [pid, cpuMs([pid])])),
    model: cpuMs([order.mockPid]),
    own: process.cpuUsage(),
    machine: machineBusyMs(),
    at: performance.now(),
  });
  const total = {
    threads: new Map<string, number>(),
    serverMs: 0,
    databaseMs: 0,
    othersMs: 0,
    wallMs: 0,
    peakRssMb: 0,
  };

  const measure = async <T>(work: () => Promise<T>): Promise<T> => {
    const before = read();
    const look = setInterval(() => (total.peakRssMb = Math.max(total.peakRssMb, rssMb(server))), 250);
    const result = await work();
    clearInterval(look);
    const after = read();
    const threads = subtract(after.threads, before.threads);
    for (const [name, ms] of threads) total.threads.set(name, (total.threads.get(name) ?? 0) + ms);
    const serverMs = sum(threads.values());
    const databaseMs = sum(subtract(after.database, before.database).values());
    const ownMs = (after.own.user + after.own.system - before.own.user - before.own.system) / 1000;
    const ours = serverMs + databaseMs + ownMs + after.model - before.model;
    total.serverMs += serverMs;
    total.databaseMs += databaseMs;
    total.othersMs += Math.max(0, after.machine - before.machine - ours);
    total.wallMs += after.at - before.at;
    total.peakRssMb = Math.max(total.peakRssMb, rssMb(server));
    return result;
  };
  return { total, measure };
}

type Meter = ReturnType<typeof createMeter>;

async function runGrowth(order: LoadOrder, job: GrowthJob, meter: Meter): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let i = 0; i < job.conversations; i++) {
    const conversation = newConversation();
    for (let earlier = 0; earlier < job.earlier; earlier += 2) {
      const { error } = await takeTurn(order, conversation, 'plain 2');
      if (error) turns.push({ ttftMs: 0, error });
    }
    await meter.measure(async () => {
      for (let turn = 0; turn < job.measured; turn++) turns.push(await takeTurn(order, conversation));
    });
  }
  return turns;
}

function percentile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

function readYardstick(): number {
  const before = process.cpuUsage();
  const message = {
    role: 'user',
    content: 'plain 50 delay 10 10',
    parts: [{ type: 'text', text: FIRST_WORD.repeat(9) }],
  };
  let bytes = 0;
  for (let i = 0; i < 5000; i++) bytes += JSON.stringify(JSON.parse(JSON.stringify(message))).length;
  const { user, system } = process.cpuUsage(before);
  return bytes > 0 ? (user + system) / 1000 : 0;
}

function run(order: LoadOrder, meter: Meter): Promise<Turn[]> {
  const { job } = order;
  if (job.kind === 'growth') return runGrowth(order, job, meter);
  return meter.measure(() => (job.kind === 'clients' ? runClients(order, job) : openConversations(order, job)));
}

async function fulfil(order: LoadOrder): Promise<LoadReport> {
  const yardstickMs = readYardstick();
  agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
  const meter = createMeter(order);
  const turns = await run(order, meter);
  agent.destroy();
  const good = turns.filter((turn) => turn.error === '');
  const count = Math.max(1, good.length);
  const ttft = good.map((turn) => turn.ttftMs);
  const stats = await fetch(`http://127.0.0.1:${order.mockPort}/stats`);
  const { lastMessages } = (await stats.json()) as { lastMessages: number };
  const { total } = meter;
  const threads = [...total.threads].map(([name, ms]) => [name, ms / count] as const);
  return {
    turns: good.length,
    errors: turns.length - good.length,
    firstError: turns.find((turn) => turn.error !== '')?.error ?? '',
    turnsPerS: (good.length / total.wallMs) * 1000,
    cpuMs: total.serverMs / count,
    threadCpuMs: Object.fromEntries(threads.filter(([, ms]) => ms >= 0.005)),
    ...(order.database && { databaseCpuMs: total.databaseMs / count }),
    ttftP50Ms: percentile(ttft, 0.5),
    ttftP99Ms: percentile(ttft, 0.99),
    peakRssMb: total.peakRssMb,
    promptMessages: lastMessages,
    otherCores: total.othersMs / total.wallMs,
    yardstickMs,
  };
}

process.on('message', (order: LoadOrder) => {
  fulfil(order).then(
    (report) => process.send?.(report),
    (cause: unknown) => {
      console.error(cause);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));
