// A Homard server with three tools that write down every effect; the crash tests kill it.
import { appendFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import * as z from 'zod';
import { allowAll, createHomard, defineTool } from '../../src/index.ts';

const { EFFECTS = '', HOMARD_DATA = '', HOMARD_PORT = '0', HOMARD_DATABASE_URL, HOMARD_TOKEN = 't' } = process.env;

/** One line an effect; O_APPEND, so lines of several processes never mix. */
const note = (what: 'begin' | 'end', tool: string, key: string) =>
  appendFileSync(EFFECTS, `${JSON.stringify({ what, tool, key, at: Date.now(), pid: process.pid })}\n`);

const tools = (['read', 'idempotent', 'once'] as const).map((effect) =>
  defineTool({
    name: `do_${effect}`,
    description: `Has an effect of the kind ${effect}.`,
    parameters: z.object({ n: z.int() }),
    effect,
    async run({ n }, { key }) {
      note('begin', effect, key);
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 60));
      note('end', effect, key);
      return { key, n };
    },
  }),
);

const homard = await createHomard({
  config: { data: HOMARD_DATA, models: { default: 'crash-model' } },
  token: HOMARD_TOKEN,
  tools,
  policy: allowAll,
  ...(HOMARD_DATABASE_URL && { database: HOMARD_DATABASE_URL }),
});
const server = createAdaptorServer({ fetch: homard.fetch }) as Server;
server.listen(Number(HOMARD_PORT), '127.0.0.1', () => console.log('ready'));
process.on('SIGTERM', () => {
  server.close();
  void homard.close().then(() => process.exit(0));
});
