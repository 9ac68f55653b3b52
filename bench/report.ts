// From figures to a verdict: medians, the gate, the table.
import type { SubjectName } from './subjects.ts';

/** Metric, as `row.figure` -> value. */
export type Figures = Record<string, number>;
export type Results = Partial<Record<SubjectName, Figures>>;

/** Below or above the AI SDK server; or within a budget, which on a slow machine gives way to so many times its figure. */
type Gate = 'below' | 'above' | { budget: Partial<Record<SubjectName, number>>; orTimes?: number };

interface Row {
  title: string;
  metric: string;
  digits: number;
  /** Shown only when absent. */
  gate?: Gate;
  except?: SubjectName;
}

/** 1.1, and what two measurements of the same thing differ by on a shared machine. */
const GROWTH = 1.25;

// Start and memory are held to the budgets of the design: a bare server that keeps nothing is no measure for them.
const rows: Row[] = [
  { title: 'plain 50 tokens, 50 clients: CPU ms a turn', metric: 'plain50.cpuMs', digits: 2, gate: 'below' },
  { title: '  turns/s', metric: 'plain50.turnsPerS', digits: 0, gate: 'above' },
  { title: '  CPU ms a turn of PostgreSQL', metric: 'plain50.databaseCpuMs', digits: 2 },
  { title: '  peak RSS MB', metric: 'plain50.peakRssMb', digits: 0 },
  { title: '50 tokens, 10 ms each, 50 clients: CPU ms a turn', metric: 'paced50.cpuMs', digits: 2, gate: 'below' },
  { title: '  CPU ms a turn of PostgreSQL', metric: 'paced50.databaseCpuMs', digits: 2 },
  {
    title: '3 tool rounds, 1 client: CPU ms a turn',
    metric: 'tools1.cpuMs',
    digits: 2,
    gate: 'below',
    except: 'homard-embedded',
  },
  { title: '  CPU ms a turn of PostgreSQL', metric: 'tools1.databaseCpuMs', digits: 2 },
  { title: '3 tool rounds, 50 clients: CPU ms a turn', metric: 'tools50.cpuMs', digits: 2, gate: 'below' },
  { title: '  CPU ms a turn of PostgreSQL', metric: 'tools50.databaseCpuMs', digits: 2 },
  { title: 'first token, 1 client: p50 ms', metric: 'firstToken.ttftP50Ms', digits: 2, gate: 'below' },
  { title: '  p99 ms', metric: 'firstToken.ttftP99Ms', digits: 2, gate: 'below' },
  { title: '  CPU ms a turn', metric: 'firstToken.cpuMs', digits: 2 },
  { title: 'at 10 earlier messages: CPU ms a turn', metric: 'growth10.cpuMs', digits: 2, gate: 'below' },
  { title: 'at 1,000 earlier messages: CPU ms a turn', metric: 'growth1000.cpuMs', digits: 2, gate: 'below' },
  { title: '  messages sent to the model', metric: 'growth1000.promptMessages', digits: 0 },
  { title: 'at 10,000 earlier messages: CPU ms a turn', metric: 'growth10000.cpuMs', digits: 2 },
  {
    title: '  times that at 1,000',
    metric: 'growth10000.times',
    digits: 2,
    gate: { budget: { 'homard-postgres': GROWTH, 'homard-embedded': GROWTH } },
  },
  {
    title: 'start on existing data to /health 200: ms',
    metric: 'start.ms',
    digits: 0,
    gate: { budget: { 'homard-postgres': 1500, 'homard-embedded': 1500 }, orTimes: 6 },
  },
  {
    title: 'idle RSS MB',
    metric: 'idle.rssMb',
    digits: 0,
    gate: { budget: { 'homard-postgres': 150, 'homard-embedded': 300 } },
  },
  {
    title: 'first start, to /health 200: ms',
    metric: 'firstStart.ms',
    digits: 0,
    gate: { budget: { 'homard-embedded': 3000 } },
  },
  {
    title: 'RSS after 1,000 conversations, times that before',
    metric: 'opened.times',
    digits: 2,
    gate: { budget: { 'homard-postgres': 1.2, 'homard-embedded': 1.2 } },
  },
  { title: 'cores busy with other work, median', metric: 'all.otherCores', digits: 2 },
  { title: 'CPU ms of a fixed piece of work, median', metric: 'all.yardstickMs', digits: 1 },
];

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export interface Samples {
  /** Takes every number in `figures`, at any depth. */
  add: (subject: SubjectName, row: string, figures: object) => void;
  /**
   * Medians; over all rows also the failed turns, foreign load and yardstick. What the gate compares has a `.toAisdk`:
   * the median of the quotients of each round, since a round's figures were taken within seconds of each other.
   */
  summary: () => Results;
}

type Series = Map<string, number[]>;

export function createSamples(): Samples {
  const samples = new Map<SubjectName, Series>();
  const add = (subject: SubjectName, path: string, value: unknown) => {
    if (typeof value === 'object') {
      for (const [key, inner] of Object.entries(value ?? {})) add(subject, `${path}.${key}`, inner);
    } else if (typeof value === 'number') {
      const series = samples.get(subject) ?? new Map<string, number[]>();
      samples.set(subject, series);
      series.set(path, [...(series.get(path) ?? []), value]);
    }
  };
  const summary = () =>
    Object.fromEntries([...samples].map(([name, series]) => [name, summarize(series, samples.get('aisdk'))]));
  return { add, summary };
}

function summarize(series: Series, peer: Series | undefined): Figures {
  const figures: Figures = {};
  const put = (metric: string, values: number[]) => {
    if (values.length > 0) figures[metric] = Number(median(values).toFixed(3));
  };
  const all = (figure: string) => [...series].flatMap(([metric, values]) => (metric.endsWith(figure) ? values : []));
  for (const [metric, values] of series) put(metric, values);
  for (const { metric, gate } of peer && peer !== series ? rows : []) {
    const others = peer?.get(metric);
    const own = series.get(metric);
    if (typeof gate !== 'string' || !others || !own) continue;
    put(
      `${metric}.toAisdk`,
      own.map((value, round) => value / others[round]!),
    );
  }
  put('all.otherCores', all('.otherCores'));
  put('all.yardstickMs', all('.yardstickMs'));
  figures['all.errors'] = all('.errors').reduce((sum, errors) => sum + errors, 0);
  return figures;
}

export interface Verdict {
  held: number;
  failures: string[];
}

export function judge(results: Results): Verdict {
  const verdict: Verdict = { held: 0, failures: [] };
  for (const [name, figures] of Object.entries(results) as [SubjectName, Figures][]) {
    const errors = figures['all.errors'] ?? 0;
    if (errors > 0) verdict.failures.push(`${name}: ${errors} turns failed, its figures count for nothing`);
    if (!name.startsWith('homard')) continue;
    for (const row of rows) {
      const problem = row.except === name ? undefined : check(row, name, results);
      if (problem === '') verdict.held++;
      else if (problem) verdict.failures.push(`${name}: ${row.metric} ${problem}`);
    }
  }
  return verdict;
}

/** Empty when the row holds, undefined when there is nothing to compare. */
function check({ metric, gate }: Row, name: SubjectName, results: Results): string | undefined {
  const value = results[name]?.[metric];
  const peer = results.aisdk?.[metric];
  if (!gate || value === undefined) return undefined;
  if (typeof gate === 'string') {
    const ratio = results[name]?.[`${metric}.toAisdk`];
    if (ratio === undefined) return undefined;
    const holds = gate === 'below' ? ratio < 1 : ratio > 1;
    return holds ? '' : `is ${ratio} times that of the AI SDK server (${value} to ${peer})`;
  }
  const bound = Math.max(gate.budget[name] ?? Infinity, (gate.orTimes ?? 0) * (peer ?? 0));
  return value < bound ? '' : `is ${value}, not below ${bound}`;
}

export function formatTable(results: Results): string {
  const names = Object.keys(results) as SubjectName[];
  const lines = [['', ...names]];
  for (const { title, metric, digits } of rows) {
    if (names.every((name) => results[name]?.[metric] === undefined)) continue;
    const cells = names.map((name) => {
      const value = results[name]?.[metric]?.toFixed(digits) ?? '-';
      const ratio = results[name]?.[`${metric}.toAisdk`];
      return ratio === undefined ? value : `${value} (${ratio.toFixed(2)}x)`;
    });
    lines.push([title, ...cells]);
  }
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  return lines
    .map((line) => line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '))
    .join('\n');
}
