// A client as people have them: sends a message, reads events, and comes back with Last-Event-ID whenever it is cut off.

export interface Told {
  run: string;
  /** The text of each model step, as it stood when the step was over. */
  steps: string[];
  calls: string[];
  results: { id: string; result: unknown; isError: boolean }[];
  terminals: string[];
  /** Times the stream broke and was taken up again. */
  returns: number;
}

interface Frame {
  event: string;
  id: string | undefined;
  data: Record<string, unknown>;
}

/** Frames of an SSE body until it ends or breaks. */
export async function* framesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const frames = rest.split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const fields = new Map(
        frame.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      );
      const event = fields.get('event');
      if (event) yield { event, id: fields.get('id'), data: JSON.parse(fields.get('data') ?? '{}') as Frame['data'] };
    }
  }
}

/** Between two attempts to come back: from the first to the last, twice as long each time. */
const WAIT_MS = { first: 25, last: 400 };

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export interface Target {
  /** Addresses of servers on one store; any of them serves any run. */
  addresses: () => string[];
  token: string;
}

/** Sends a message, again and again with one Idempotency-Key until a server has it, and follows its run to the end. */
export async function talk(
  target: Target,
  message: { conversation: string; text: string; accepted: () => void },
): Promise<Told> {
  const told: Told = { run: '', steps: [], calls: [], results: [], terminals: [], returns: 0 };
  const key = crypto.randomUUID();
  let last: string | undefined;
  let open = '';
  const closeStep = () => {
    if (open) told.steps.push(open);
    open = '';
  };
  const take = ({ event, id, data }: Frame) => {
    if (id !== undefined) last = id;
    if (event === 'run_start') told.run = String(data.run);
    else if (event === 'token') open += String(data.text);
    else if (event === 'step_restart') open = '';
    else if (event === 'tool_call') {
      closeStep();
      told.calls.push(...(data.calls as { id: string }[]).map((call) => call.id));
    } else if (event === 'tool_result') told.results.push(...(data.results as Told['results']));
    else if (event === 'run_end' || event === 'error') {
      closeStep();
      told.terminals.push(event === 'error' ? `error ${String(data.code)}` : String(data.reason));
    }
  };
  let wait = WAIT_MS.first;
  for (let isFirst = true; !told.terminals.length;) {
    try {
      const response = await open_(target, told.run, { key, last, ...message });
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      if (isFirst) message.accepted();
      isFirst = false;
      wait = WAIT_MS.first;
      for await (const frame of framesOf(response.body!)) take(frame);
    } catch {
      // The server died: that is what is tested.
    }
    if (told.terminals.length) break;
    told.returns++;
    await sleep(wait);
    wait = Math.min(2 * wait, WAIT_MS.last);
  }
  return told;
}

function open_(
  { addresses, token }: Target,
  run: string,
  { conversation, text, key, last }: { conversation: string; text: string; key: string; last: string | undefined },
): Promise<Response> {
  const list = addresses();
  const address = list[Math.floor(Math.random() * list.length)]!;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  if (!run) {
    const body = JSON.stringify({ conversationId: conversation, query: text });
    return fetch(`${address}/chat/stream`, { method: 'POST', headers: { ...headers, 'idempotency-key': key }, body });
  }
  return fetch(`${address}/runs/${run}/events`, {
    headers: { ...headers, ...(last !== undefined && { 'last-event-id': last }) },
  });
}
