/** A clock that stands still until a test moves it. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  advance(ms: number): void;
}

export function createClock(startMs = Date.UTC(2026, 2, 21, 10)): Clock {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    advance(ms) {
      nowMs += ms;
    },
  };
}
