// What the model says, by the question: each test brings its own.
import type { ModelServer, ModelServerReply, ModelServerStep } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';

export interface Gate {
  /** Holds the answer here until `open`, for half a minute at most. */
  steps: ModelServerStep[];
  open(): void;
}

export function createGate(): Gate {
  let isOpen = false;
  const wait = {
    get delayMs() {
      return isOpen ? 0 : 100;
    },
  };
  return { steps: Array.from({ length: 300 }, () => wait), open: () => (isOpen = true) };
}

/** The second argument counts from 0 how often it was asked for before. */
type Reply = ModelServerReply | ((before: number) => ModelServerReply);

export interface TalkModel extends AsyncDisposable {
  server: ModelServer;
  /** The environment of a server that asks this model. */
  environment: Record<string, string>;
  /** To messages that hold `question`: one reply for each call of the model within the turn. */
  on(question: string, ...replies: Reply[]): void;
}

export async function startTalkModel(): Promise<TalkModel> {
  const script = new Map<string, { replies: Reply[]; asked: number[] }>();
  const server = await createModelServer(({ body: { messages } }) => {
    const at = messages.findLastIndex(({ role }) => role === 'user');
    const text = JSON.stringify(messages[at]?.content ?? '');
    const [, entry] = [...script].find(([question]) => text.includes(question)) ?? [];
    const turn = messages.slice(at + 1).filter(({ role }) => role === 'assistant').length;
    const reply = entry?.replies[turn];
    if (!entry || !reply) return [{ text: `No script for ${text.slice(0, 200)}, call ${turn}.` }];
    const before = entry.asked[turn] ?? 0;
    entry.asked[turn] = before + 1;
    return typeof reply === 'function' ? reply(before) : reply;
  });
  return {
    server,
    environment: { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: 'sk-of-the-tests-0123', OPENAI_MODEL: 'north-1' },
    on: (question, ...replies) => void script.set(question, { replies, asked: [] }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
