// A Homard server whose model runs each message as a command; the life tests kill it.
import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import type { ConfigInput } from '../../src/config.ts';
import { allowAll, createHomard } from '../../src/index.ts';
import { createScriptedModel } from '../../src/testing/index.ts';

const { HOMARD_DATA = '', SANDBOX = '{}' } = process.env;

const model = createScriptedModel(({ messages }) => {
  const last = messages.at(-1)!;
  const text = last.role === 'user' && last.parts[0]?.type === 'text' ? last.parts[0].text : '';
  return text ? { calls: [{ name: 'Bash', args: { command: text } }] } : 'done';
});

const homard = await createHomard({
  config: { data: HOMARD_DATA, sandbox: JSON.parse(SANDBOX) as ConfigInput['sandbox'] },
  token: 't',
  policy: allowAll,
  model,
});
const server = createAdaptorServer({ fetch: homard.fetch }) as Server;
server.listen(0, '127.0.0.1', () => console.log((server.address() as { port: number }).port));
process.on('SIGTERM', () => {
  server.close();
  void homard.close().then(() => process.exit(0));
});
