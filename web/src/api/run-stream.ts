// Follows one run to its end over any number of connections. Leaving never stops the run.
import { ApiError, send } from './http.ts';
import type { SseEvent } from './sse.ts';
import { pause, readEvents } from './sse.ts';
import type { AgentEvent, Signal } from './types.ts';

export interface RunStream {
  /** Undefined until the server has named it. */
  run?: string;
  /** The first connection, where there is one: the answer to POST /chat/stream; asked again until the run has a name. */
  open?: (signal: AbortSignal) => Promise<Response>;
  onSignal: (signal: Signal) => void;
  onLink: (isUp: boolean) => void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;

/** Resolves at the run's last event, or when there is nothing more to come. Throws ApiError where the server refuses. */
export async function followRun({ run, open, onSignal, onLink }: RunStream, signal: AbortSignal): Promise<void> {
  let known = run;
  let last = '';
  let isOver = false;
  let waitMs = FIRST_WAIT_MS;

  const onEvent = ({ id, event, data }: SseEvent): void => {
    const parsed = { type: event, ...(JSON.parse(data) as object) } as AgentEvent;
    if (id) last = id;
    if (parsed.type === 'run_start') known = parsed.run;
    if (parsed.type === 'run_end' || parsed.type === 'error') isOver = true;
    onSignal({ event: parsed, at: performance.now(), ...(id && { epoch: epochOf(id) }) });
  };
  const connect = (): Promise<Response> => {
    if (known === undefined && open) return open(signal);
    const headers: HeadersInit = last ? { 'last-event-id': last } : {};
    return send(`/runs/${encodeURIComponent(known ?? '')}/events`, { headers, signal });
  };

  while (!isOver && !signal.aborted) {
    try {
      const response = await connect();
      onLink(true);
      waitMs = FIRST_WAIT_MS;
      if (response.status === 204) return;
      await readEvents(response, onEvent);
    } catch (error) {
      if (signal.aborted) return;
      // A refusal stands; a server that is just starting or overloaded is asked again.
      if (error instanceof ApiError && error.status < 500) throw error;
    }
    if (isOver || signal.aborted) return;
    onLink(false);
    await pause(waitMs, signal);
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
  }
}

/** Ids are `run:commit:epoch:k`. */
function epochOf(id: string): number {
  return Number(id.split(':').at(-2));
}
