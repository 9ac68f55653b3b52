// What must hold after any number of kills, checked from the outside: the record as HTTP shows it, what clients saw, and what the
// tools really did.
import assert from 'node:assert/strict';
import type { Told } from './client.ts';
import type { Effect } from './harness.ts';
import { CALLS } from './model.ts';

interface Message {
  id: number;
  kind: string;
  run: string;
  at: string;
  parts?: { type: string; text?: string; id?: string }[];
  call?: string;
  result?: unknown;
  isError?: boolean;
}

export interface Facts {
  runs: number;
  unknown: number;
  repeatedBeforeResult: number;
  returns: number;
}

type Get = (path: string) => Promise<{ status: number; body: unknown }>;

const UNKNOWN = 'tool.outcome_unknown';

export async function verify(
  get: Get,
  world: { conversations: Map<string, { texts: string[]; told: Told[] }>; effects: Effect[] },
): Promise<Facts> {
  const facts: Facts = { runs: 0, unknown: 0, repeatedBeforeResult: 0, returns: 0 };
  const begins = Map.groupBy(
    world.effects.filter((effect) => effect.what === 'begin'),
    (effect) => effect.key,
  );
  const ends = new Set(world.effects.filter((effect) => effect.what === 'end').map((effect) => effect.key));
  for (const [key, list] of begins) {
    if (list[0]!.tool === 'once') assert.equal(list.length, 1, `the once call ${key} began ${list.length} times`);
    else facts.repeatedBeforeResult += list.length - 1;
  }
  const keysOfRecord = new Set<string>();
  for (const [conversation, { texts, told }] of world.conversations) {
    const messages = await messagesOf(get, conversation);
    assert.deepEqual(
      messages.map((message) => message.id),
      messages.map((_, i) => i + 1),
      `gap in ${conversation}`,
    );
    const users = messages.filter((message) => message.kind === 'user');
    assert.deepEqual(
      users.map((user) => user.parts?.[0]?.text),
      texts,
      `order of messages in ${conversation}`,
    );
    for (const [index, user] of users.entries()) {
      const own = messages.filter((message) => message.run === user.run);
      checkRun(own, { told: told[index]!, begins, ends, facts });
      const run = await get(`/runs/${user.run}`);
      const view = run.body as { status: string; steps: { n: number; call: string | null }[] };
      assert.equal(view.status, 'done', `run ${user.run} is ${view.status}`);
      const byCall = new Map(view.steps.map((step) => [step.call, `${user.run}:${step.n}`]));
      for (const message of own) {
        if (message.kind !== 'tool_result') continue;
        const key = byCall.get(message.call!)!;
        keysOfRecord.add(key);
        checkResult(message, { key, begins: begins.get(key) ?? [], ends });
      }
    }
  }
  for (const key of begins.keys()) assert(keysOfRecord.has(key), `${key} ran but the record has no result of it`);
  return facts;
}

function checkRun(
  own: Message[],
  { told, facts }: { told: Told; begins: Map<string, Effect[]>; ends: Set<string>; facts: Facts },
): void {
  facts.runs++;
  facts.returns += told.returns;
  const results = own.filter((message) => message.kind === 'tool_result');
  assert.equal(results.length, CALLS, `run ${told.run} has ${results.length} results`);
  facts.unknown += results.filter((message) => String(message.result).includes(UNKNOWN)).length;
  const answers = own.filter((message) => message.kind === 'assistant');
  const texts = answers.map((answer) =>
    (answer.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join(''),
  );
  assert.deepEqual(told.steps, texts, 'a client that came back has another text than the record');
  const calls = answers.flatMap((answer) =>
    (answer.parts ?? []).flatMap((part) => (part.type === 'tool_call' ? [part.id] : [])),
  );
  assert.deepEqual(told.calls, calls);
  assert.deepEqual(told.results.map((result) => result.id).sort(), results.map((message) => message.call).sort());
  assert.deepEqual(told.terminals, ['done'], `run ${told.run} ended with ${told.terminals.join()}`);
}

/** What the model was told about a call is true, and nothing ran again after that was recorded. */
function checkResult(
  message: Message,
  { key, begins, ends }: { key: string; begins: Effect[]; ends: Set<string> },
): void {
  for (const begin of begins) {
    assert(begin.at <= Date.parse(message.at) + 5, `${key} began after its result was recorded`);
  }
  if (message.isError) {
    assert.match(
      String(message.result),
      /may or may not/,
      `a result claims more than is known: ${String(message.result)}`,
    );
    assert.equal(begins.length <= 1, true);
    return;
  }
  assert.equal((message.result as { key: string }).key, key);
  assert(ends.has(key), `${key} is said to be done but never ended`);
}

async function messagesOf(get: Get, conversation: string): Promise<Message[]> {
  const all: Message[] = [];
  for (let after = 0; ;) {
    const { body } = await get(`/conversations/${encodeURIComponent(conversation)}/messages?limit=1000&after=${after}`);
    const page = body as { messages: Message[]; next: number | null };
    all.push(...page.messages);
    if (page.next === null) return all.sort((a, b) => a.id - b.id);
    after = page.next;
  }
}
