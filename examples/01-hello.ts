import { createHomard } from '../src/index.ts';
import { createScriptedModel } from '../src/testing/index.ts';

await using homard = await createHomard({
  model: createScriptedModel(['Hello! What you wrote is recorded, and so is this.']), // leave it out: the configured model
  identity: () => ({ tenant: 'acme', owner: 'ann' }), // your own users
  config: { data: 'data/hello' },
});
const headers = { 'content-type': 'application/json' };
const body = JSON.stringify({ conversationId: 'first', query: 'Hello, who are you?' });
const answer = await homard.fetch(new Request('http://localhost/chat', { method: 'POST', headers, body }));
console.log(((await answer.json()) as { text: string }).text);
