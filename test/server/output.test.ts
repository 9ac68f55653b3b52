import { describe, expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { ScriptedAnswer } from '../../src/models/scripted.ts';
import { backends, createTestServer } from './harness.ts';

const output = { type: 'object', properties: { city: { type: 'string' }, n: { type: 'integer' } }, required: ['city'] };
const final = (args: ScriptedAnswer['calls'] extends (infer C)[] | undefined ? C : never): ScriptedAnswer => ({
  calls: [args],
});
const give = (args: object): ScriptedAnswer => final({ name: 'final_answer', args: args as never });

describe.each(backends)('a structured final answer on %s', (backend) => {
  const ask = async (script: (string | ScriptedAnswer)[], schema: object = output) => {
    const model = createScriptedModel(script);
    await using server = await createTestServer(backend, { model });
    const reply = await server.call('POST', '/chat', {
      body: { conversationId: 'c', query: 'where?', output: schema },
    });
    const messages = (await server.call('GET', '/conversations/c/messages')).body.messages as unknown as {
      kind: string;
    }[];
    return { reply, model, kinds: messages?.map(({ kind }) => kind) };
  };

  it('ends the run with what was validated against the schema, and the record has call and result', async () => {
    const { reply, model, kinds } = await ask([give({ city: '北京', n: 3 })]);
    expect(reply).toMatchObject({
      status: 200,
      body: { status: 'done', reason: 'done', final: { city: '北京', n: 3 } },
    });
    expect(kinds).toEqual(['user', 'assistant', 'tool_result']);
    expect(model.requests[0]!.tools.find(({ name }) => name === 'final_answer')?.schema).toEqual(output);
  });

  it('may be repaired once, then the run ends with an error that says so', async () => {
    const repaired = await ask([give({ city: 7 }), give({ city: 'Paris' })]);
    expect(repaired.reply.body).toMatchObject({ final: { city: 'Paris' } });
    expect(JSON.stringify(repaired.model.requests[1]!.messages)).toContain('Invalid arguments: city');
    const failed = await ask([give({ city: 7 }), give({})]);
    expect(failed.reply).toMatchObject({
      status: 502,
      body: { status: 'failed', error: { code: 'run.output_invalid' } },
    });
  });

  it('a model that answers in words is asked once for the form', async () => {
    const asked = await ask(['It is Paris.', give({ city: 'Paris' })]);
    expect(asked.reply.body).toMatchObject({ final: { city: 'Paris' } });
    const stubborn = await ask(['It is Paris.', 'As I said.']);
    expect(stubborn.reply.body.error).toMatchObject({ code: 'run.output_invalid' });
  });

  it('any schema will do, and what is none is refused before anything is recorded', async () => {
    const { reply } = await ask([give({ value: [1, 2] })], { type: 'array', items: { type: 'integer' } });
    expect(reply.body.final).toEqual([1, 2]);
    const refused = await ask([], { type: 'hologram' });
    expect(refused.reply).toMatchObject({ status: 400, body: { error: { code: 'agents.invalid_output' } } });
    expect(refused.kinds).toBeUndefined();
  });
});
