// Ways to cut a body into pieces, as networks do.

/** The same numbers each time: a failure can be repeated. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function cutAt(body: Buffer, places: Iterable<number>): Buffer[] {
  const sorted = [...new Set(places)].filter((place) => place > 0 && place < body.length).sort((a, b) => a - b);
  return [...sorted, body.length].map((place, i) => body.subarray(sorted[i - 1] ?? 0, place));
}

/** Inside each character of several bytes, and inside each CRLF; at most `limit` places. */
function* fragile(body: Buffer, limit: number): Generator<number> {
  let found = 0;
  for (let i = 1; i < body.length && found < limit; i++) {
    const isInside = (body[i]! & 0xc0) === 0x80 || (body[i] === 0x0a && body[i - 1] === 0x0d);
    if (!isInside) continue;
    found++;
    yield i;
  }
}

/** All at once, at random places, inside characters and line ends, small steps, and byte by byte where it is short. */
export function cutEverywhere(body: Buffer): Buffer[][] {
  const random = createRandom(body.length + 1);
  const randomly = (count: number) =>
    cutAt(
      body,
      Array.from({ length: count }, () => random(body.length)),
    );
  const step = Math.max(1, Math.ceil(body.length / 400));
  return [
    [body],
    randomly(12),
    cutAt(body, fragile(body, 2000)),
    cutAt(
      body,
      Array.from({ length: Math.floor(body.length / step) }, (_, i) => (i + 1) * step),
    ),
    ...(body.length <= 3000 ? [cutAt(body, body.keys())] : []),
    randomly(Math.min(60, Math.ceil(body.length / 20))),
    randomly(5),
  ];
}
