// A tool of your own: its schema checks what the model sends, and its effect says what running it twice would mean.
import * as z from 'zod';
import { createHomard, defineTool } from '../src/index.ts';
import { createScriptedModel } from '../src/testing/index.ts';

const stock: Record<string, number> = { apples: 12, pears: 3 };

const lookUpStock = defineTool({
  name: 'look_up_stock',
  title: 'Stock',
  description: 'How many pieces of a fruit are in stock.',
  parameters: z.object({ fruit: z.enum(['apples', 'pears']) }),
  effect: 'read', // may run again after a crash; 'once' never would
  run: ({ fruit }) => ({ fruit, pieces: stock[fruit] }),
});

// A model would decide this by itself: first a wrong call, which the schema refuses, then a right one.
const model = createScriptedModel([
  { calls: [{ name: 'look_up_stock', args: { fruit: 'nails' } }] },
  { calls: [{ name: 'look_up_stock', args: { fruit: 'pears' } }] },
  'There are three pears.',
]);

await using homard = await createHomard({
  model,
  tools: [lookUpStock],
  identity: () => ({ tenant: 'acme', owner: 'ann' }),
  config: { data: 'data/tool' },
});
const answer = await homard.fetch(
  new Request('http://localhost/chat', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: 'How many pears do we have?' }),
  }),
);
const { text, toolCalls } = (await answer.json()) as {
  text: string;
  toolCalls: { args: unknown; result: unknown; isError: boolean }[];
};
for (const { args, result, isError } of toolCalls) {
  console.log(isError ? 'refused' : 'ran', JSON.stringify(args), '->', JSON.stringify(result));
}
console.log(text);
