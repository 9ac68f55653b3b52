// What is measured, in which order: rows of load by rounds, then starts.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientsJob, GrowthJob, Job, LoadOrder, LoadReport } from './load.ts';
import { processTree, rssMb, settle, type Started } from './process.ts';
import type { Samples } from './report.ts';
import type { Subject } from './subjects.ts';

/** What stands around the servers under test. */
export interface Rig {
  subjects: Subject[];
  mock: Started;
  client: ChildProcess;
  samples: Samples;
  /** Aborts when the bench is to end early. */
  signal: AbortSignal;
  say: (text: string) => void;
}

export interface Pace {
  rounds: number;
  growthRounds: number;
  /** Of one measurement; turns under way at its end are waited for and count. */
  seconds: number;
  warmSeconds: number;
  warmClients: number;
  starts: number;
  /** No further round of load begins after it. */
  newRoundMs: number;
  /** With the rows that take a minute each: long histories, memory after many conversations, first starts. */
  isWhole: boolean;
}

interface Row<J extends Job = Job> {
  name: string;
  text: string;
  job: J;
}

const quickRows = ['plain50', 'paced50', 'tools1', 'tools50', 'firstToken', 'growth10', 'growth1000', 'start'];
export const rowNames = [...quickRows, 'growth10000', 'opened', 'firstStart'];

function clientRows({ seconds }: Pace): Row<ClientsJob>[] {
  const row = (name: string, text: string, clients: number, job = { seconds }) =>
    ({ name, text, job: { kind: 'clients', clients, ...job } }) as const;
  return [
    row('plain50', 'plain 50', 50),
    row('paced50', 'plain 50 delay 10 10', 50),
    row('tools1', 'tools 3 50', 1),
    row('tools50', 'tools 3 50', 50),
    row('firstToken', 'plain 50', 1, { seconds: 2 * seconds }), // a 99th percentile needs many turns
  ];
}

const growthRows: Row<GrowthJob>[] = [
  { name: 'growth10', text: 'plain 50', job: { kind: 'growth', earlier: 10, conversations: 12, measured: 4 } },
  { name: 'growth1000', text: 'plain 50', job: { kind: 'growth', earlier: 1000, conversations: 1, measured: 48 } },
];

export async function measureAll(rig: Rig, pace: Pace, wanted: string[]): Promise<void> {
  const load = clientRows(pace).filter((row) => wanted.includes(row.name));
  const growth = growthRows.filter((row) => wanted.includes(row.name));
  const whole = pace.isWhole ? wanted : [];
  await warm(rig, load, pace);
  await runRounds(rig, load, pace);
  await runRounds(rig, growth, { ...pace, rounds: pace.growthRounds });
  if (whole.includes('growth10000')) await measureLongHistory(rig);
  if (wanted.includes('start')) await measureStarts(rig, pace);
  if (whole.includes('opened')) await measureOpened(rig);
  if (whole.includes('firstStart')) await measureFirstStarts(rig, pace);
}

/** The first seconds of a server are spent on compiling; they belong to no row. */
async function warm(rig: Rig, rows: Row<ClientsJob>[], { warmClients, warmSeconds }: Pace): Promise<void> {
  for (const row of rows) {
    if (row.job.clients === 1) continue;
    const job = { ...row.job, clients: warmClients, seconds: warmSeconds };
    for (const subject of rig.subjects) if (canDo(subject, row)) await measure(rig, subject, { ...row, job });
  }
}

/**
 * Subjects take turns row by row, the next round in reverse, so that noise and drift of the machine hit all alike.
 * On a machine too slow for the time that was promised, rounds are left out.
 */
async function runRounds(rig: Rig, rows: Row[], pace: Pace): Promise<void> {
  for (let round = 1; round <= pace.rounds && rows.length > 0; round++) {
    if (round > 1 && performance.now() > pace.newRoundMs) {
      rig.say(`only ${round - 1} of ${pace.rounds} rounds of ${rows[0]!.name} and so on: the machine is slow`);
      return;
    }
    for (const row of rows) {
      for (const subject of round % 2 === 1 ? rig.subjects : rig.subjects.toReversed()) {
        if (!canDo(subject, row)) continue;
        const report = await measure(rig, subject, row);
        rig.samples.add(subject.name, row.name, report);
        tell(rig, `${round} ${row.name}`, subject, describe(report));
      }
    }
  }
}

/** The raw proxy has neither tools nor a memory. */
function canDo(subject: Subject, { text, job }: Row): boolean {
  return subject.isAgent || !(text.startsWith('tools') || job.kind === 'growth');
}

async function measure(rig: Rig, subject: Subject, row: Row): Promise<LoadReport> {
  const { mock, client } = rig;
  const { token, end, database, server } = subject;
  const { text, job } = row;
  const { pid, port } = server;
  const order: LoadOrder = { port, pid, mockPid: mock.pid, mockPort: mock.port, token, end, database, text, job };
  rig.signal.throwIfAborted();
  if (!client.connected) throw new Error('the load client has ended');
  const answered = new AbortController();
  const signal = AbortSignal.any([answered.signal, rig.signal, AbortSignal.timeout(60_000)]);
  const gone = once(client, 'exit', { signal }).then(() => Promise.reject(new Error('the load client ended')));
  client.send(order);
  const [report] = (await Promise.race([once(client, 'message', { signal }), gone])) as [LoadReport];
  gone.catch(() => undefined); // it is about to be told that nobody waits for it any more
  answered.abort();
  if (report.errors > 0)
    rig.say(`${subject.name} ${row.name}: ${report.errors} failed turns, first: ${report.firstError}`);
  return report;
}

/** One server at a time, since each still works for a while after its start. */
async function measureStarts(rig: Rig, { starts }: Pace): Promise<void> {
  await Promise.all(rig.subjects.map((subject) => subject.stop()));
  for (let i = 1; i <= starts; i++) {
    for (const subject of rig.subjects) {
      const ms = await subject.start();
      rig.samples.add(subject.name, 'start', { ms });
      await settle(subject.server.pid);
      const idleMb = rssMb(processTree(subject.server.pid));
      rig.samples.add(subject.name, 'idle', { rssMb: idleMb });
      tell(rig, `${i} start`, subject, [`${ms.toFixed(0)} ms`, `idle ${idleMb.toFixed(0)} MB`]);
      await subject.stop();
    }
  }
}

/**
 * The windows are full at 1,000 and at 10,000 earlier messages, so that the two differ by nothing else; they are measured
 * within one minute of each other. Nobody else is asked: filling a conversation takes half a minute.
 */
async function measureLongHistory(rig: Rig): Promise<void> {
  for (const subject of rig.subjects.filter(({ isDurable }) => isDurable)) {
    const at = async (earlier: number) => {
      const job: GrowthJob = { kind: 'growth', earlier, conversations: 1, measured: 200 };
      return await measure(rig, subject, { name: 'growth10000', text: 'plain 50', job });
    };
    const before = await at(1000);
    const long = await at(10_000);
    const after = await at(1000);
    const times = (2 * long.cpuMs) / (before.cpuMs + after.cpuMs);
    rig.samples.add(subject.name, 'growth10000', { ...long, times });
    tell(rig, 'growth10000', subject, [...describe(long), `${times.toFixed(2)} times 1,000`]);
  }
}

/**
 * Memory before and after 1,000 conversations that nobody goes on with. An idle server forgets them after a minute and
 * gives memory back within 20 s more.
 */
async function measureOpened(rig: Rig): Promise<void> {
  const durable = rig.subjects.filter(({ isDurable }) => isDurable);
  const open = async (conversations: number) => {
    const row: Row = { name: 'opened', text: 'plain 50', job: { kind: 'opened', conversations } };
    for (const subject of durable) await measure(rig, subject, row);
  };
  const memory = () => durable.map(({ server }) => rssMb(processTree(server.pid)));
  const left = () => sleep(90_000, undefined, { signal: rig.signal });

  await Promise.all(rig.subjects.map((subject) => subject.stop()));
  for (const subject of durable) await subject.start();
  await open(200); // what is compiled and pooled once is no conversation's
  await left();
  const before = memory();
  await open(1000);
  const peak = memory();
  await left();
  for (const [i, afterMb] of memory().entries()) {
    const [subject, beforeMb, peakMb] = [durable[i]!, before[i]!, peak[i]!];
    rig.samples.add(subject.name, 'opened', { beforeMb, peakMb, afterMb, times: afterMb / beforeMb });
    tell(rig, 'opened', subject, [`${beforeMb.toFixed(0)}, ${peakMb.toFixed(0)}, then ${afterMb.toFixed(0)} MB`]);
    await subject.stop();
  }
}

async function measureFirstStarts(rig: Rig, { starts }: Pace): Promise<void> {
  await Promise.all(rig.subjects.map((subject) => subject.stop()));
  for (let i = 1; i <= starts; i++) {
    for (const subject of rig.subjects.filter(({ isDurable }) => isDurable)) {
      const ms = await subject.startAnew();
      rig.samples.add(subject.name, 'firstStart', { ms });
      tell(rig, `${i} first start`, subject, [`${ms.toFixed(0)} ms`]);
      await subject.stop();
    }
  }
}

function describe({ turns, cpuMs, databaseCpuMs, ttftP50Ms, otherCores, yardstickMs }: LoadReport): string[] {
  const database = databaseCpuMs === undefined ? '' : ` + ${databaseCpuMs.toFixed(2)}`;
  return [
    `${turns} turns`,
    `CPU ${cpuMs.toFixed(2)}${database} ms`,
    `first token ${ttftP50Ms.toFixed(2)} ms`,
    `other cores ${otherCores.toFixed(2)}`,
    `yardstick ${yardstickMs.toFixed(1)} ms`,
  ];
}

function tell({ say }: Rig, what: string, { name }: Subject, figures: string[]): void {
  const second = (performance.now() / 1000).toFixed(1).padStart(6);
  say(`${second} s  ${what.padEnd(12)} ${name.padEnd(15)} ${figures.join(', ')}`);
}
