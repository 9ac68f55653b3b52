// A call that changes something waits for a person: here for an HTTP call, a second or a week later, on any process.
import * as z from 'zod';
import { createHomard, defineTool } from '../src/index.ts';
import { createScriptedModel } from '../src/testing/index.ts';

const refund = defineTool({
  name: 'refund',
  title: 'Refund',
  description: 'Pays an order back.',
  parameters: z.object({ order: z.string(), euros: z.number().positive() }),
  effect: 'once', // never begins twice, whatever dies
  run: ({ order, euros }, { key }) => ({ order, euros, key }), // hand the key to your bank
});

const model = createScriptedModel(({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? 'The money is on its way.'
    : { calls: [{ name: 'refund', args: { order: 'A-17', euros: 250 } }] },
);

await using homard = await createHomard({
  model,
  tools: [refund], // the default policy lets reads run and asks about everything else
  identity: () => ({ tenant: 'acme', owner: 'ann' }),
  config: { data: 'data/approval' },
});

interface Run {
  run: string;
  status: string;
  text: string;
  approvals: { id: string; why: string }[];
  toolCalls: { args: unknown; result?: unknown }[];
}

async function call(method: string, path: string, body?: object): Promise<Response> {
  const request = new Request(`http://localhost${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const response = await homard.fetch(request);
  console.log(method, path.replace(/[0-9a-f-]{36}/, '<run>'), response.status);
  return response;
}

const asked = (await (await call('POST', '/chat', { query: 'Pay order A-17 back, please.' })).json()) as Run;
const [approval] = asked.approvals;
console.log(asked.status, '-', approval?.why, JSON.stringify(asked.toolCalls[0]?.args));

// The person allows less than the model wanted.
await call('POST', `/approvals/${approval?.id}`, { decision: 'allow', args: { order: 'A-17', euros: 25 } });

await (await call('GET', `/runs/${asked.run}/events`)).text(); // ends when the run does
const run = (await (await call('GET', `/runs/${asked.run}`)).json()) as Run;
console.log(run.status, '-', run.text);
