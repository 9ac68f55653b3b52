export interface Frame {
  event: string;
  id: string | undefined;
  data: Record<string, unknown>;
}

/** Server-sent events of our own server: one `data:` line each, comments in between. Ends where the body ends or breaks. */
export async function* framesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Frame> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body ?? []) {
    const frames = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1];
      const event = field('event');
      if (event === undefined) continue;
      yield { event, id: field('id'), data: JSON.parse(field('data') ?? '{}') as Record<string, unknown> };
    }
  }
}
