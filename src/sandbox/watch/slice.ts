import { setImmediate } from 'node:timers/promises';

/** A long piece of work that is done in slices, between which the event loop runs. */
export interface Slice {
  /** Called between small steps: a promise to wait for when a slice is over. */
  pause(): Promise<void> | undefined;
  /** CPU time that the work has taken until now, without the pauses. */
  readonly busyMs: number;
}

/** CPU time of this thread; other than the time that passes, it is not more where others keep the machine busy. */
export function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

export function createSlice(sliceMs = 2): Slice {
  let began = performance.now();
  let beganCpuMs = cpuMs();
  let passedMs = 0;
  return {
    get busyMs() {
      return passedMs + cpuMs() - beganCpuMs;
    },
    pause() {
      if (performance.now() - began < sliceMs) return undefined;
      passedMs += cpuMs() - beganCpuMs;
      return setImmediate().then(() => {
        began = performance.now();
        beganCpuMs = cpuMs();
      });
    },
  };
}
