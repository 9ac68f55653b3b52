// homard chat: the conversation at a terminal, with the running server or, where there is none, with one in this process.
import { parseArgs } from 'node:util';
import { defineErrors, messageOf } from '../kernel/index.ts';
import type { ClientConfig } from '../terminal/client.ts';
import { createClient } from '../terminal/client.ts';
import type { Input } from '../terminal/input.ts';
import { createInput } from '../terminal/input.ts';
import type { Screen } from '../terminal/screen.ts';
import { createScreen } from '../terminal/screen.ts';
import type { Session } from '../terminal/session.ts';
import { createSession } from '../terminal/session.ts';
import { createTimeline } from '../terminal/timeline.ts';

export const chatError = defineErrors('chat', {
  invalid_arguments: {
    status: 400,
    hint: 'homard chat [--conversation NAME | --new] [--model NAME] [text]; a text that begins with "-" goes behind "--".',
  },
});

export interface ChatPlan {
  /** What follows `chat` on the command line. */
  arguments: string[];
  /** The server that runs on this data directory. */
  server: { address: string; token: string | undefined } | undefined;
  /** Builds one in this process. */
  open: () => Promise<{ fetch: ClientConfig['fetch']; close: () => Promise<void>; token: string | undefined }>;
}

interface Talk {
  conversation: string;
  model: string | undefined;
}

const LEFT = 130;
const INSIDE = 'http://localhost';

/** Resolves to the exit code: 0 where the answer came to its end, 1 where it did not, 130 where the person left. */
export async function chat({ arguments: given, server, open }: ChatPlan): Promise<number> {
  const { text, ...talk } = parse(given);
  const streams = { stdout: process.stdout, stderr: process.stderr, environment: process.env };
  const screen = createScreen(streams);
  const input = createInput(process.stdin, process.stderr);
  const inside = server ? undefined : await open();
  const timeline = createTimeline(screen);
  const { token } = server ?? inside ?? {};
  const client = createClient({
    fetch: inside ? (request) => inside.fetch(named(request)) : fetch,
    address: server ? server.address : INSIDE,
    ...(token !== undefined && { token }),
    onLost: (isLost) => timeline.lost(isLost),
  });
  const session = createSession({ client, screen, timeline, input });
  let close = async () => {
    input.close();
    close = async () => undefined;
    await inside?.close();
  };
  const interrupt = () => {
    if (!session.interrupt()) void close().finally(() => process.exit(LEFT));
  };
  process.on('SIGINT', interrupt);
  process.stdout.on('error', () => process.exit(1)); // whoever read the answer is gone
  try {
    if (text) {
      const ending = await session.say({ conversation: talk.conversation, query: text, ...modelOf(talk) });
      return ending === 'done' ? 0 : ending === 'left' && input.isLive ? LEFT : 1;
    }
    screen.row(
      screen.style.dim(
        `${talk.conversation} on ${server?.address ?? 'this data directory'}. /help says what else there is.`,
      ),
    );
    return await converse(session, { screen, input, talk });
  } finally {
    process.off('SIGINT', interrupt);
    await close();
  }
}

interface Desk {
  screen: Screen;
  input: Input;
  talk: Talk;
}

async function converse(session: Session, { screen, input, talk }: Desk): Promise<number> {
  let hasFailed = false;
  for (;;) {
    const text = await readMessage(input);
    if (text === null) return hasFailed && !input.isLive ? 1 : 0;
    const [, command, rest = ''] = /^\/(\w+)\s*(.*)$/s.exec(text.trim()) ?? [];
    if (command === 'quit' || command === 'exit') return 0;
    if (command === 'new' || command === 'model' || command === 'help') {
      if (command === 'new') talk.conversation = newConversation();
      if (command === 'model') talk.model = rest.trim() || undefined;
      const { conversation, model = 'the configured model' } = talk;
      screen.row(screen.style.dim(command === 'help' ? HELP : `${conversation}, ${model}`));
      continue;
    }
    if (!text.trim()) continue;
    try {
      const ending = await session.say({ conversation: talk.conversation, query: text, ...modelOf(talk) });
      if (ending === 'left') return input.isLive ? LEFT : 1;
      hasFailed ||= ending === 'failed';
    } catch (error) {
      hasFailed = true;
      screen.row(screen.style.red(`✗ ${messageOf(error)}`));
      const { hint, code } = error as { hint?: string; code?: string };
      if (hint) screen.row(`  ${hint} (${code})`);
    }
  }
}

const HELP = `/new           a new conversation
/model NAME    another model from now on; without a name the configured one
/quit          leave (or Ctrl-D)
A line that ends in "\\" goes on in the next one. Ctrl-C stops an answer.`;

/** A line, or several where one ends in a backslash; null at the end of input. */
async function readMessage(input: Input): Promise<string | null> {
  let text = '';
  for (let prompt = '> '; ; prompt = '. ') {
    const line = await input.ask(prompt);
    if (line === null) return text || null;
    if (!line.endsWith('\\')) return text + line;
    text += `${line.slice(0, -1)}\n`;
  }
}

/** As a network would send it: with the name of the server. */
function named(request: Request): Request {
  request.headers.set('host', new URL(request.url).host);
  return request;
}

const modelOf = ({ model }: Talk) => (model === undefined ? {} : { model });
const newConversation = () => `c-${crypto.randomUUID()}`;

function parse(given: string[]): Talk & { text: string } {
  try {
    const { values, positionals } = parseArgs({
      args: given,
      allowPositionals: true,
      options: { conversation: { type: 'string' }, model: { type: 'string' }, new: { type: 'boolean' } },
    });
    const conversation = values.new ? newConversation() : (values.conversation ?? 'web');
    return { text: positionals.join(' '), conversation, model: values.model };
  } catch (error) {
    throw chatError('invalid_arguments', messageOf(error).split('. ')[0] ?? '', { cause: error });
  }
}
