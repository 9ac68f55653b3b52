// What a running command writes, on its way to whoever watches: as text, in few pieces.

const GATHER_MS = 30;
const HOLD_MS = 250;
const MOST_CHARS = 100_000;

export interface LiveOutput {
  push(stream: 'stdout' | 'stderr', chunk: Uint8Array): void;
  /** Shows what is left, and nothing after it. Idempotent. */
  end(): void;
}

/**
 * The first line is shown at once, the next ones together every 30 ms, and no more than 100,000 characters in all. A line
 * that stays open is shown after a quarter of a second: half a line may be half a secret, which nobody knows as one.
 */
export function createLiveOutput(show: (text: string) => void): LiveOutput {
  // A character may be split between pieces, and each stream has its own.
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  let gathered = '';
  let room = MOST_CHARS;
  let timer: NodeJS.Timeout | undefined;
  let isFull = false;
  let heldSince: number | undefined;

  const flush = () => {
    const now = performance.now();
    const isLate = heldSince !== undefined && now - heldSince >= HOLD_MS;
    const end = isLate ? gathered.length : Math.max(gathered.lastIndexOf('\n'), gathered.lastIndexOf('\r')) + 1;
    const { ready, rest } = splitEscape(gathered.slice(0, end));
    gathered = rest + gathered.slice(end);
    if (ready || !gathered) heldSince = undefined;
    if (gathered) heldSince ??= now;
    const text = stripEscapes(ready);
    if (text) show(text);
    timer = text || gathered ? setTimeout(flush, GATHER_MS) : undefined;
  };
  return {
    push(stream, chunk) {
      if (isFull) return;
      const text = decoders[stream].decode(chunk, { stream: true });
      gathered += text.slice(0, room);
      room -= text.length;
      if (room < 0) {
        isFull = true;
        gathered += '\n[There is more. The result will tell.]\n';
      }
      if (!timer) flush();
    },
    end() {
      clearTimeout(timer);
      const text = stripEscapes(gathered);
      gathered = '';
      isFull = true;
      if (text) show(text);
    },
  };
}

/** Escape sequences of terminals: colours and cursor moves, titles, and two-character ones. */
const ESCAPES = /\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)|[ -/]{0,8}[0-Z\\^-~])/g;

export const stripEscapes = (text: string): string => (text.includes('\x1b') ? text.replaceAll(ESCAPES, '') : text);

/** What may be the beginning of an escape sequence waits for its rest. */
function splitEscape(text: string): { ready: string; rest: string } {
  const at = text.lastIndexOf('\x1b');
  const isOpen = at >= 0 && /^\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[ -/]{0,8})$/.test(text.slice(at));
  return isOpen ? { ready: text.slice(0, at), rest: text.slice(at) } : { ready: text, rest: '' };
}
