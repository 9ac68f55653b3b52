// Two streams as one screen: the answer goes to standard output and nothing else does, so that it can be piped; all that is
// said about it goes to standard error.
import type { Style } from './style.ts';
import { createStyle, fit, isColored } from './style.ts';

export interface Stream {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
}

export interface Streams {
  stdout: Stream;
  stderr: Stream;
  environment: Record<string, string | undefined>;
}

export interface Screen {
  style: Style;
  /** Of a line. */
  readonly columns: number;
  /** A piece of the answer. */
  text(text: string): void;
  /** A whole line about the answer, on a line of its own. */
  row(line: string): void;
  /** Shown until something else is, anew each second; nothing where there is no terminal. */
  status(render: (() => string) | null): void;
}

const CLEAR = '\r\x1b[K';
const PLAIN_COLUMNS = 200;

export function createScreen({ stdout, stderr, environment }: Streams): Screen {
  const isLive = stderr.isTTY === true && environment.TERM !== 'dumb';
  let isMidLine = false;
  let shown = '';
  let ticking: NodeJS.Timeout | undefined;

  function clear(): void {
    clearInterval(ticking);
    if (shown) stderr.write(CLEAR);
    shown = '';
  }

  const screen: Screen = {
    style: createStyle(isColored({ isTTY: isLive }, environment)),
    get columns() {
      return isLive ? Math.max(20, (stderr.columns || 80) - 1) : PLAIN_COLUMNS;
    },
    text(text) {
      if (!text) return;
      clear();
      stdout.write(text);
      isMidLine = !text.endsWith('\n');
    },
    row(line) {
      clear();
      if (isMidLine) stdout.write('\n');
      isMidLine = false;
      stderr.write(`${line}\n`);
    },
    status(render) {
      if (!render || !isLive || isMidLine) return clear();
      const show = () => {
        const line = fit(render(), screen.columns);
        if (line !== shown) stderr.write(`${CLEAR}${screen.style.dim(line)}`);
        shown = line;
      };
      clearInterval(ticking);
      show();
      ticking = setInterval(show, 1000);
      ticking.unref();
    },
  };
  return screen;
}
