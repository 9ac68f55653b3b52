// The events of a run as lines: reasoning folded, a row for each call, the text as it streams, and how it ended.
import type { AgentEvent, Json } from '../kernel/index.ts';
import type { Screen } from './screen.ts';
import { fit, toDuration, toLine, toPrintable } from './style.ts';

export interface Timeline {
  show(event: AgentEvent): void;
  /** A call that was shown, for a question about it. */
  callOf(id: string): { title: string; args: Json } | undefined;
  /** The server is away, or back. */
  lost(isLost: boolean): void;
}

type Of<T extends AgentEvent['type']> = Extract<AgentEvent, { type: T }>;

const TAIL_LINES = 5;
const endings: Record<Of<'run_end'>['reason'], string> = {
  done: '',
  length: 'The answer was cut: it reached the longest length that the model gives.',
  content_filter: 'The answer was cut by the content filter of the model host.',
  max_steps: 'The run stopped: it reached the limit of model calls (limits.steps).',
  cancelled: 'Stopped.',
};

export function createTimeline(screen: Screen, now: () => number = () => performance.now()): Timeline {
  const { style } = screen;
  const calls = new Map<string, { title: string; args: Json; since: number; output: string; isOver: boolean }>();
  let thought = '';
  let thinkingSince = 0;
  let model = '';

  function foldReasoning(): void {
    if (!thought) return;
    const time = ` (${toDuration(now() - thinkingSince)})`;
    const first = toPrintable(thought).trim().split('\n')[0] ?? '';
    screen.row(style.dim(`· ${fit(first, screen.columns - time.length - 2)}${time}`));
    thought = '';
  }

  function showWaiting(): void {
    const open = [...calls.values()].filter(({ isOver }) => !isOver);
    if (!open.length) return screen.status(null);
    const since = Math.min(...open.map((call) => call.since));
    screen.status(() => {
      const names = open.map(({ title }) => toLine(title)).join(', ');
      const said = toLine(
        open
          .findLast(({ output }) => output)
          ?.output.trimEnd()
          .split('\n')
          .at(-1) ?? '',
      );
      return `… ${names} ${toSeconds(now() - since)}${said ? ` | ${said}` : ''}`;
    });
  }

  function showResult({ id, name, result, isError, ms, args }: Of<'tool_result'>['results'][number]): void {
    const call = calls.get(id) ?? { title: name, args: null, since: 0, output: '', isOver: false };
    call.isOver = true;
    calls.set(id, call);
    const time = `  ${toDuration(ms)}`;
    const title = toLine(call.title);
    const given = fit(toArguments(args ?? call.args), screen.columns - title.length - time.length - 3);
    const mark = isError ? style.red('✗') : style.green('✓');
    screen.row(`${mark} ${style.bold(title)}${given ? ` ${given}` : ''}${style.dim(time)}`);
    const tail = toPrintable(call.output).trimEnd().split('\n').filter(Boolean).slice(-TAIL_LINES);
    for (const line of tail) screen.row(style.dim(`  | ${fit(line, screen.columns - 4)}`));
    const text = typeof result === 'string' ? result : JSON.stringify(result ?? null);
    screen.row((isError ? style.red : style.dim)(`  ${fit(toLine(text), screen.columns - 2)}`));
  }

  const shows: { [T in AgentEvent['type']]: (event: Of<T>) => void } = {
    run_start: (event) => {
      model = event.model;
      screen.status(() => `… ${toLine(model)}`);
    },
    reasoning: ({ text }) => {
      const isFirst = !thought;
      if (isFirst) thinkingSince = now();
      thought += text;
      if (isFirst) screen.status(() => `· thinking ${toSeconds(now() - thinkingSince)}`);
    },
    token: ({ text }) => screen.text(toPrintable(text)),
    tool_call: (event) => {
      for (const { id, title, args } of event.calls)
        calls.set(id, { title, args, since: now(), output: '', isOver: false });
      showWaiting();
    },
    tool_output: ({ id, text }) => {
      const call = calls.get(id);
      if (call) call.output = (call.output + text).slice(-4000);
      showWaiting();
    },
    tool_result: ({ results }) => {
      for (const result of results) showResult(result);
      showWaiting();
    },
    approval_request: () => undefined, // the question itself is asked by whoever can answer
    approval_decision: ({ call, effect, comment }) => {
      const word = effect === 'allow' ? style.green('allowed') : style.red('denied');
      const title = toLine(calls.get(call)?.title ?? 'The call');
      screen.row(`  ${title}: ${word}${comment ? `, ${toLine(comment)}` : ''}`);
      showWaiting();
    },
    step_restart: () => screen.row(style.yellow('↻ The answer broke off and begins anew.')),
    warning: ({ message, code }) => screen.row(style.yellow(`! ${toLine(message)} (${toLine(code)})`)),
    usage: (event) => {
      model = event.model;
    },
    run_end: ({ reason, usage, ms }) => {
      if (endings[reason]) screen.row(style.yellow(endings[reason]));
      const cached = usage.cachedTokens ? ` (${count(usage.cachedTokens)} cached)` : '';
      const tokens = `${count(usage.inputTokens)}${cached} in, ${count(usage.outputTokens)} out`;
      screen.row(style.dim(`${toLine(model)}: ${tokens}, ${toDuration(ms)}`));
    },
    error: ({ message, hint, code }) => {
      screen.row(style.red(`✗ ${toLine(message)}`));
      screen.row(`  ${toLine(hint)} (${toLine(code)})`);
    },
  };

  return {
    show(event) {
      if (event.type !== 'reasoning') foldReasoning();
      // A newer server may have events that this program does not know.
      const show = shows[event.type] as ((event: AgentEvent) => void) | undefined;
      show?.(event);
    },
    callOf: (id) => calls.get(id),
    lost(isLost) {
      foldReasoning();
      screen.row(style.yellow(isLost ? '! The server is away. Waiting for it …' : '! The server is back.'));
    },
  };
}

/** For what is counted while it is under way. */
const toSeconds = (ms: number) => `${Math.floor(ms / 1000)} s`;
const count = (tokens: number) => tokens.toLocaleString('en-US');

function toArguments(args: Json): string {
  if (args === null || (typeof args === 'object' && !Array.isArray(args) && !Object.keys(args).length)) return '';
  return toLine(typeof args === 'string' ? args : JSON.stringify(args));
}
