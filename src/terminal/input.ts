// Lines from a person at a terminal, or from a pipe.
import type { Interface } from 'node:readline';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

export interface Input {
  /** A person sits there. */
  isLive: boolean;
  /** The next line; null at the end of input, on Ctrl-C or Ctrl-D. Rejects when `signal` aborts; the line is not lost then. */
  ask(prompt: string, options?: AskOptions): Promise<string | null>;
  close(): void;
}

export interface AskOptions {
  /** In the line already, to be edited. */
  initial?: string;
  /** What is typed is not shown. */
  isHidden?: boolean;
  signal?: AbortSignal;
}

type Source = NodeJS.ReadableStream & { isTTY?: boolean };

export function createInput(source: Source, output: NodeJS.WritableStream): Input {
  return source.isTTY ? createLiveInput(source, output) : createPipedInput(source);
}

/** One reader a question: between questions the terminal is its own, so that Ctrl-C is a signal again. */
function createLiveInput(source: Source, output: NodeJS.WritableStream): Input {
  let history: string[] = [];
  return {
    isLive: true,
    ask(prompt, { initial, isHidden = false, signal } = {}) {
      const shown = isHidden ? createMute(output, prompt) : output;
      const reader = createInterface({
        input: source,
        output: shown,
        terminal: true,
        history: isHidden ? [] : [...history],
        historySize: 200,
        removeHistoryDuplicates: true,
        prompt: isHidden ? '' : prompt,
      });
      return new Promise((resolve, reject) => {
        let isOver = false;
        const end = (line: string | null) => {
          if (isOver) return;
          isOver = true;
          signal?.removeEventListener('abort', leave);
          resolve(line);
          reader.close();
          if (isHidden || line === null) output.write('\n');
        };
        const leave = () => {
          isOver = true;
          reject(signal?.reason as Error);
          reader.close();
          output.write('\n');
        };
        if (!isHidden) reader.on('history', (lines: string[]) => (history = [...lines]));
        reader.once('line', end);
        reader.once('SIGINT', () => end(null));
        reader.once('close', () => end(null)); // Ctrl-D
        signal?.addEventListener('abort', leave, { once: true });
        if (signal?.aborted) return leave();
        reader.prompt();
        if (initial !== undefined) reader.write(initial);
      });
    },
    close: () => undefined,
  };
}

/** Shows the prompt and nothing of what is typed. */
function createMute(output: NodeJS.WritableStream, prompt: string): NodeJS.WritableStream {
  output.write(prompt);
  return new Writable({ write: (_chunk, _encoding, done) => done() });
}

function createPipedInput(source: Source): Input {
  let reader: Interface | undefined;
  let lines: AsyncIterator<string> | undefined;
  let next: Promise<IteratorResult<string>> | undefined;
  return {
    isLive: false,
    async ask(_prompt, { signal } = {}) {
      // Only now: a process that never asks must not wait for its input.
      reader ??= createInterface({ input: source, crlfDelay: Number.POSITIVE_INFINITY });
      lines ??= reader[Symbol.asyncIterator]();
      next ??= lines.next();
      const { done, value } = await untilAborted(next, signal);
      next = undefined;
      return done ? null : value;
    },
    close: () => reader?.close(),
  };
}

async function untilAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return await promise;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const leave = () => reject(signal.reason as Error);
  signal.addEventListener('abort', leave, { once: true });
  return await Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', leave));
}
