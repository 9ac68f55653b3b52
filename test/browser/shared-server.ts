// A server for several people in the process of the test, with tools that wait and tools that ask.
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import type { Caller, Identity } from '../../src/access/identity.ts';
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
  /** Lets `watch_oven` come to its end. */
  finish(): void;
}

export async function startSharedServer(
  maySetUp: (caller: Caller) => boolean = ({ owner }) => owner === 'ann',
): Promise<SharedServer> {
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
  const server = await createTestServer('embedded', {
    identity,
    maySetUp,
    policy: askForWrites,
    tools: [findOrders, sendMail, watchOven],
    environment: model.environment,
    logger: { warn: () => undefined, error: () => undefined },
  });
  return {
    server,
    model,
    site: (user) => ({ address: server.address, cookie: `user=${user}` }),
    finish,
    async [Symbol.asyncDispose]() {
      finish();
      await server[Symbol.asyncDispose]();
      await model[Symbol.asyncDispose]();
    },
  };
}
