import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { toFrame } from '../../src/server/sse.ts';
import type { SseEvent } from '../../web/src/api/sse.ts';
import { createSseParser } from '../../web/src/api/sse.ts';

function parse(pieces: readonly string[]): SseEvent[] {
  const seen: SseEvent[] = [];
  const take = createSseParser((event) => seen.push(event));
  for (const piece of pieces) take(piece);
  return seen;
}

it('the page reads what the server writes, wherever the network cuts it (OBS-07)', () => {
  const event = fc.record({
    name: fc.constantFrom('token', 'run_end'),
    value: fc.string({ unit: 'binary' }),
    id: fc.nat(),
  });
  const property = fc.property(fc.array(event), fc.array(fc.nat(12), { minLength: 1 }), (events, sizes) => {
    const text = events
      .map(({ name, value, id }) => `: still working\n\n${toFrame(name, JSON.stringify(value), `r:${id}`)}`)
      .join('');
    const pieces: string[] = [];
    for (let at = 0, i = 0; at < text.length; i++) {
      const size = (sizes[i % sizes.length] ?? 0) + 1;
      pieces.push(text.slice(at, at + size));
      at += size;
    }
    const expected = events.map(({ name, value, id }) => ({ event: name, data: JSON.stringify(value), id: `r:${id}` }));
    expect(parse(pieces)).toEqual(expected);
  });
  fc.assert(property);
});

it('takes every kind of line break, several data lines, and fields without a blank', () => {
  const text = 'id: 1\r\nevent: token\r\ndata: a\r\ndata: b\r\n\r\ndata:c\r\r: ping\n\ndata: 中\n\n';
  const expected = [
    { id: '1', event: 'token', data: 'a\nb' },
    { id: '', event: 'message', data: 'c' },
    { id: '', event: 'message', data: '中' },
  ];
  for (let size = 1; size <= text.length; size++) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      text.slice(i * size, (i + 1) * size),
    );
    expect(parse(pieces)).toEqual(expected);
  }
});
