// An agent as a value in your own code: `for await (const event of agent.run({ text: 'Hello' })) ...`
import { messageOf } from './errors.ts';
import type { AgentEvent } from './events.ts';
import type { ConversationKey, Journal } from './journal.ts';
import type { Limits } from './assembly.ts';
import { defaultLimits } from './assembly.ts';
import { createMemoryJournal } from './memory-journal.ts';
import type { UserBody } from './messages.ts';
import type { Middleware } from './middleware.ts';
import type { Model } from './model.ts';
import type { Answer, Policy } from './policy.ts';
import { askForWrites } from './policy.ts';
import type { Window } from './project.ts';
import { defaultWindow } from './project.ts';
import type { Log } from './runner.ts';
import { createRunner } from './runner.ts';
import type { Tool } from './tool.ts';

export interface AgentConfig {
  name?: string;
  model: Model;
  system?: string;
  tools?: readonly Tool[];
  /** Reads run and everything else asks, unless told otherwise. */
  policy?: Policy;
  middleware?: readonly Middleware[];
  limits?: Partial<Limits>;
  window?: Partial<Window>;
  /** In memory when absent. */
  journal?: Journal;
  log?: Log;
}

export interface RunInput extends Partial<ConversationKey> {
  /** Both or one of them. */
  text?: string;
  message?: UserBody;
  expected?: number;
  /** Ends the run, not only the watching. */
  signal?: AbortSignal;
}

export interface Agent extends AsyncDisposable {
  /**
   * Runs one message to its end. Ends with exactly one `run_end` or `error`; a run that waits for a person goes on
   * when `answer` is called. Throws what `Journal.submit` throws.
   */
  run(input: RunInput): AsyncGenerator<AgentEvent, void, undefined>;
  /** Answers an `approval_request` by its id. */
  answer(approval: string, answer: Omit<Answer, 'by'>, owner?: Partial<ConversationKey>): Promise<void>;
}

export function createAgent(config: AgentConfig): Agent {
  const { name = 'agent', model, system = '', policy = askForWrites, middleware = [] } = config;
  const tools = new Map((config.tools ?? []).map((tool) => [tool.name, tool]));
  const limits = { ...defaultLimits, ...config.limits };
  const window = { ...defaultWindow, ...config.window };
  const log = config.log ?? { warn: () => undefined, error: (_, message) => console.error(message) };
  const runner = createRunner({
    journal: config.journal ?? createMemoryJournal(),
    worker: crypto.randomUUID(),
    assemble: () => ({ agent: name, model, system, tools, policy, middleware, limits, window }),
    log,
  });

  return {
    async *run({ tenant = 'default', owner = 'owner', conversation, text, message, expected, signal }) {
      const run = crypto.randomUUID();
      const events: AgentEvent[] = [];
      const watching = new AbortController();
      let wake = () => {};
      let isOver = false;
      const cancel = () => {
        runner.cancel({ tenant, owner }, run).catch((error: unknown) => {
          log.error({ err: error, run }, `A run could not be cancelled: ${messageOf(error)}`);
        });
      };
      const submitted = await runner.submit(
        {
          tenant,
          owner,
          run,
          conversation: conversation ?? run,
          request: { agent: name, model: model.name },
          message: message ?? { parts: [{ type: 'text', text: text ?? '' }] },
          ...(expected !== undefined && { expected }),
        },
        { on: ({ event }) => (events.push(event), wake()), signal: watching.signal },
      );
      const over = submitted.watched.finally(() => ((isOver = true), wake()));
      // Thrown to who iterates, whenever that is; nobody may do so any more.
      over.catch(() => undefined);
      if (signal?.aborted) cancel();
      signal?.addEventListener('abort', cancel, { once: true });
      try {
        for (;;) {
          for (let event; (event = events.shift());) yield event;
          if (isOver) return await over;
          await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        watching.abort();
        signal?.removeEventListener('abort', cancel);
      }
    },
    async answer(approval, answer, { tenant = 'default', owner = 'owner' } = {}) {
      const [run = '', step] = approval.split(/:(?=\d+$)/);
      await runner.answer({ tenant, owner }, { run, step: Number(step), answer: { ...answer, by: owner } });
    },
    [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose](),
  };
}
