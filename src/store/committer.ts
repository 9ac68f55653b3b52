// Group commit: while a lane is busy, whatever becomes ready is gathered and goes as one statement. No timer, so one
// run alone waits for nobody; under load many runs share one round trip and one fsync.

export interface BatcherConfig<T, R> {
  /** Batches under way at once. */
  lanes: number;
  /** Applies items in their order; one answer an item, in any order of `i`. */
  send: (items: T[]) => Promise<R[]>;
  /** Batches are sorted by it, so that two of them never lock in opposite order. */
  orderBy: (item: T) => string;
  /** The outcome of the item is unknown and it may be sent again. */
  isTransient: (error: unknown) => boolean;
  /** What is sent when an item is sent again. */
  toRetry: (item: T) => T;
  /** Milliseconds after which an item that cannot be sent is given up. */
  retryForMs: number;
}

const MOST = 64;

export function createBatcher<T, R>(config: BatcherConfig<T, R>): (item: T) => Promise<R> {
  const { lanes, send, orderBy, isTransient, toRetry, retryForMs } = config;
  interface Waiting {
    item: T;
    resolve: (answer: R) => void;
    reject: (error: unknown) => void;
  }
  let queue: Waiting[] = [];
  let busy = 0;
  let isArmed = false;

  function pump(): void {
    isArmed = false;
    while (busy < lanes && queue.length) {
      const batch = queue.splice(0, MOST);
      busy++;
      void apply(batch).finally(() => {
        busy--;
        if (queue.length) pump();
      });
    }
  }

  async function apply(batch: Waiting[]): Promise<void> {
    if (batch.length > 1) batch.sort((a, b) => (orderBy(a.item) < orderBy(b.item) ? -1 : 1));
    try {
      const answers = await send(batch.map(({ item }) => item));
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve(answers[i]!);
    } catch (error) {
      // One bad item must not take its neighbours with it, and a lost answer must not be a lost commit.
      if (batch.length === 1 && !isTransient(error)) return batch[0]!.reject(error);
      await Promise.all(batch.map((waiting) => alone(waiting)));
    }
  }

  async function alone({ item, resolve, reject }: Waiting): Promise<void> {
    const until = Date.now() + retryForMs;
    for (let pauseMs = 20; ; pauseMs = Math.min(pauseMs * 2, 1000)) {
      try {
        return resolve((await send([toRetry(item)]))[0]!);
      } catch (error) {
        if (!isTransient(error) || Date.now() + pauseMs > until) return reject(error);
        await new Promise((wake) => setTimeout(wake, pauseMs));
      }
    }
  }

  return (item) =>
    new Promise<R>((resolve, reject) => {
      queue.push({ item, resolve, reject });
      if (isArmed || busy >= lanes) return;
      isArmed = true;
      setImmediate(pump);
    });
}
