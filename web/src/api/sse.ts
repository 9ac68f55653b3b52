// Server-sent events from a fetch: a parser that does not care where the chunks are cut, and the reading of one response.
export interface SseEvent {
  id: string;
  event: string;
  data: string;
}

/** Returns a function that takes the text as it comes. */
export function createSseParser(onEvent: (event: SseEvent) => void): (chunk: string) => void {
  let buffer = '';
  let id = '';
  let event = '';
  let data: string[] = [];

  function take(line: string): void {
    if (line === '') {
      if (data.length) onEvent({ id, event: event || 'message', data: data.join('\n') });
      id = event = '';
      data = [];
      return;
    }
    if (line.startsWith(':')) return;
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') data.push(value);
    else if (name === 'event') event = value;
    else if (name === 'id') id = value;
  }

  return (chunk) => {
    buffer += chunk;
    let from = 0;
    // A carriage return at the very end may be the first half of a line break.
    for (const match of buffer.matchAll(/\r\n|\n|\r(?!$)/g)) {
      take(buffer.slice(from, match.index));
      from = match.index + match[0].length;
    }
    buffer = buffer.slice(from);
  };
}

/** Resolves when the response is over. */
export async function readEvents(response: Response, onEvent: (event: SseEvent) => void): Promise<void> {
  if (!response.body) return;
  const parse = createSseParser(onEvent);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) parse(piece.value);
}

/** Waits; resolves at once when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}
