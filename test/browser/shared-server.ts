// A server for several people in the process of the test, with tools that wait and tools that ask.
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import type { Caller, Identity } from '../../src/access/identity.ts';
import type { HomardInput } from '../../src/app.ts';
import { askForWrites, defineTool } from '../../src/kernel/index.ts';
import type { TestServer } from '../server/harness.ts';
import { createTestServer } from '../server/harness.ts';
import type { Site } from './browser.ts';
import type { TalkModel } from './model.ts';
import { startTalkModel } from './model.ts';

/** By the cookie of a host's own session, and by a token where a test calls the server itself. */
const identity: Identity = (request): Caller | null => {
  const said = `${request.headers.get('cookie') ?? ''} ${request.headers.get('authorization') ?? ''}`;
  const owner = /\b(ann|bob)\b/.exec(said)?.[1];
  return owner === undefined ? null : { tenant: 'default', owner };
};

export interface SharedServer extends AsyncDisposable {
  server: TestServer;
  model: TalkModel;
  site(user: 'ann' | 'bob'): Site;
  /** Puts a file where the commands of a conversation find it. */
  bring(user: 'ann' | 'bob', file: { conversation: string; path: string; content: string | Uint8Array }): Promise<void>;
  /** Lets `watch_oven` and `follow_log` come to their end. */
  finish(): void;
}

/** Commands run without a sandbox: it is the page that is tried. */
export async function startSharedServer(input: HomardInput = {}): Promise<SharedServer> {
  const model = await startTalkModel();
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
  const findOrders = defineTool({
    name: 'find_orders',
    title: 'Find orders',
    icon: 'database',
    description: 'Orders by month.',
    parameters: z.object({ month: z.string(), status: z.string().optional() }),
    effect: 'read',
    async run({ month }, { signal }) {
      await sleep(420, undefined, { signal });
      return { month, orders: 1284, revenueEur: 96_310, returned: 41 };
    },
  });
  const sendMail = defineTool({
    name: 'send_mail',
    title: 'Send mail',
    icon: 'mail',
    description: 'Sends a mail.',
    parameters: z.object({ to: z.string(), subject: z.string(), text: z.string() }),
    effect: 'once',
    run: ({ to }) => `Sent to ${to}.`,
  });
  const watchOven = defineTool({
    name: 'watch_oven',
    // Until the suite is done.
    timeoutMs: 1_200_000,
    title: 'Watch the oven',
    icon: 'clock',
    description: 'Waits.',
    parameters: z.object({ dish: z.string() }),
    effect: 'read',
    async run({ dish }, { signal }) {
      const stopped = new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      );
      await Promise.race([finished, stopped]);
      return `${dish}: golden brown`;
    },
  });
  const followLog = defineTool({
    name: 'follow_log',
    timeoutMs: 1_200_000,
    title: 'Follow the log',
    icon: 'terminal',
    description: 'Shows a log as it is written.',
    parameters: z.object({ name: z.string() }),
    effect: 'read',
    async run({ name }, { signal, output }) {
      const isFinished = finished.then(() => true);
      for (let n = 1; !signal.aborted; n++) {
        output(`\x1b[32m${name}\x1b[0m  request ${n} answered 200 in ${(n * 37) % 90} ms\n`);
        if (await Promise.race([isFinished, sleep(100, false)])) break;
      }
      return 'The log has ended.';
    },
  });
  const readArchive = defineTool({
    name: 'read_archive',
    title: 'Read the archive',
    icon: 'library',
    description: 'Long.',
    parameters: z.object({ lines: z.int() }),
    effect: 'read',
    run: ({ lines }) => Array.from({ length: lines }, (_, n) => `Line ${n} of the archive.`).join('\n'),
  });
  const server = await createTestServer('embedded', {
    identity,
    maySetUp: ({ owner }) => owner === 'ann',
    policy: askForWrites,
    tools: [findOrders, sendMail, watchOven, followLog, readArchive],
    environment: model.environment,
    logger: { warn: () => undefined, error: () => undefined },
    config: { sandbox: { kind: 'local', local: { iKnowThisIsNoSandbox: true } } },
    ...input,
  });
  return {
    server,
    model,
    site: (user) => ({ address: server.address, cookie: `user=${user}` }),
    async bring(user, { conversation, path, content }) {
      const address = `${server.address}/conversations/${conversation}/files/content?path=${encodeURIComponent(path)}`;
      const headers = { authorization: `Bearer ${user}-token` };
      const response = await fetch(address, { method: 'PUT', headers, body: new Uint8Array(Buffer.from(content)) });
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    },
    finish,
    async [Symbol.asyncDispose]() {
      finish();
      await server[Symbol.asyncDispose]();
      await model[Symbol.asyncDispose]();
    },
  };
}
