// One message and what comes of it at a terminal: events as lines, questions asked, stopped by the first Ctrl-C.
import type { AgentEvent } from '../kernel/index.ts';
import { isTerminal, messageOf } from '../kernel/index.ts';
import type { Client, Decision, Message } from './client.ts';
import type { Input } from './input.ts';
import type { Screen } from './screen.ts';
import { toLine, toPrintable } from './style.ts';
import type { Timeline } from './timeline.ts';

/** `left`: by a second Ctrl-C, or because nobody was there to answer a question; the run itself goes on or waits. */
export type Ending = 'done' | 'failed' | 'left';

export interface Session {
  say(message: Message): Promise<Ending>;
  /** The first one stops the run, the next one leaves. False where nothing runs. */
  interrupt(): boolean;
}

export interface SessionParts {
  client: Client;
  screen: Screen;
  timeline: Timeline;
  input: Input;
}

type Request = Extract<AgentEvent, { type: 'approval_request' }>;

export function createSession({ client, screen, timeline, input }: SessionParts): Session {
  let current: { interrupt: () => void } | undefined;

  async function say(message: Message): Promise<Ending> {
    const leaving = new AbortController();
    const questions = createQuestions({ client, screen, timeline, input }, { stop, leave: () => leaving.abort() });
    let run: string | undefined;
    let isStopping = false;
    let ending: Ending = 'failed';

    function stop(): void {
      if (isStopping) return leaving.abort();
      isStopping = true;
      screen.row(screen.style.dim('Stopping … (again: leave)'));
      if (run !== undefined) cancel(run);
    }
    function cancel(id: string): void {
      client.cancel(id).catch((error: unknown) => screen.row(screen.style.yellow(`! ${messageOf(error)}`)));
    }

    current = { interrupt: stop };
    screen.status(() => '…');
    try {
      for await (const event of client.talk(message, leaving.signal)) {
        if (event.type === 'run_start') {
          run = event.run;
          if (isStopping) cancel(run);
        }
        if (event.type === 'run_end' && event.reason === 'done') ending = 'done';
        questions.take(event);
      }
    } catch (error) {
      if (!leaving.signal.aborted) throw error;
      ending = 'left';
    } finally {
      current = undefined;
      screen.status(null);
      await questions.end();
    }
    return ending;
  }

  return {
    say,
    interrupt() {
      current?.interrupt();
      return current !== undefined;
    },
  };
}

interface Questions {
  /** Shows an event, or keeps it until the question that is open has its answer. */
  take(event: AgentEvent): void;
  end(): Promise<void>;
}

/** Asks one at a time; a question that was answered elsewhere, or whose run is over, is taken back. */
function createQuestions(parts: SessionParts, { stop, leave }: { stop: () => void; leave: () => void }): Questions {
  const { client, screen, timeline, input } = parts;
  const open: Request[] = [];
  const held: AgentEvent[] = [];
  let asking: Promise<void> | undefined;
  let answering: { id: string; away: AbortController } | undefined;

  async function askAll(): Promise<void> {
    for (let request = open.shift(); request; request = open.shift()) {
      const away = new AbortController();
      answering = { id: request.id, away };
      try {
        const decision = await askOne(parts, request, away.signal);
        if (decision) await client.decide(request.id, decision);
        else if (input.isLive) return stop();
        else {
          screen.row(
            `  Nobody answers here; the run waits. POST /approvals/${request.id} {"decision":"allow"} goes on with it.`,
          );
          return leave();
        }
      } catch (error) {
        if (!away.signal.aborted) screen.row(screen.style.yellow(`! ${messageOf(error)}`));
      }
    }
  }

  function settle(id: string | null): void {
    const rest = open.filter((request) => id !== null && request.id !== id);
    open.splice(0, open.length, ...rest);
    if (id === null || answering?.id === id)
      answering?.away.abort(new DOMException('Answered elsewhere.', 'AbortError'));
  }

  return {
    take(event) {
      if (event.type === 'approval_request') open.push(event);
      if (event.type === 'approval_decision') settle(event.id);
      if (isTerminal(event)) settle(null);
      if (asking) held.push(event);
      else timeline.show(event);
      if (!open.length || asking) return;
      asking = askAll().finally(() => {
        asking = undefined;
        answering = undefined;
        for (const kept of held.splice(0)) timeline.show(kept);
      });
    },
    async end() {
      settle(null);
      await asking;
    },
  };
}

/** Null where there is no more input. */
async function askOne(
  { screen, timeline, input }: SessionParts,
  { call, why, rule }: Request,
  signal: AbortSignal,
): Promise<Decision | null> {
  const { style } = screen;
  const { title = 'A call', args = null } = timeline.callOf(call) ?? {};
  screen.row(
    `${style.yellow('?')} ${style.bold(toLine(title))} ${style.dim(`${toLine(why)}${rule ? ` (${rule})` : ''}`)}`,
  );
  // All of it: nobody should allow what they could not see.
  for (const line of toPrintable(JSON.stringify(args, null, 2)).split('\n')) screen.row(`  ${line}`);
  for (;;) {
    const answer = await input.ask('  Allow it? y(es), n(o) and why, e(dit): ', { signal });
    if (answer === null) return null;
    const [, word = '', rest = ''] = /^\s*(y|yes|n|no|e|edit)\b[\s,;:.]*(.*)$/i.exec(answer) ?? [];
    const letter = word[0]?.toLowerCase();
    if (letter === 'y') return { decision: 'allow' };
    if (letter === 'n') return { decision: 'deny', ...(rest && { comment: rest }) };
    if (letter !== 'e') continue;
    const text = await input.ask('  Arguments: ', { initial: JSON.stringify(args), signal });
    if (text === null) return null;
    try {
      return { decision: 'allow', args: JSON.parse(text) };
    } catch (error) {
      screen.row(style.yellow(`! This is not JSON: ${messageOf(error)}`));
    }
  }
}
