// The result of Bash, which is text for the model, taken apart for people; src/tools/bash.ts writes it.

interface BashResult {
  stdout: string;
  stderr: string;
  /** What was left out, and where all of it is. */
  cut?: string;
  /** How it ended, where that was not exit code 0. */
  ending?: BashEnding;
}

type BashEnding = { kind: 'code'; code: number } | { kind: 'timeout' | 'early'; text: string };

const CODE = /^\[exit code (-?\d+)\]$/;
const ENDED = /^\[((?:It (?:ran longer than|was ended because)|The sandbox went away) .*)\]$/;
const CUT = /^\[truncated: (.*)\]$/;

export function parseBashResult(result: string): BashResult {
  let rest = result;
  const takeLastLine = (pattern: RegExp): string | undefined => {
    const at = rest.lastIndexOf('\n') + 1;
    const [, found] = pattern.exec(rest.slice(at)) ?? [];
    if (found !== undefined) rest = rest.slice(0, Math.max(0, at - 1));
    return found;
  };
  const code = takeLastLine(CODE);
  const text = code === undefined ? takeLastLine(ENDED) : undefined;
  const cut = takeLastLine(CUT);
  const [stdout = '', stderr = ''] = `\n${rest}`.split(/\n\[stderr\]\n([^]*)/);
  return {
    stdout: stdout.slice(1),
    stderr,
    ...(cut !== undefined && { cut }),
    ...(code !== undefined && { ending: { kind: 'code', code: Number(code) } }),
    ...(text !== undefined && { ending: { kind: text.startsWith('It ran longer') ? 'timeout' : 'early', text } }),
  };
}
