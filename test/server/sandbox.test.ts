import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createHomard } from '../../src/app.ts';
import type { ConfigInput } from '../../src/config.ts';
import { askForWrites } from '../../src/kernel/index.ts';
import type { ModelRequest } from '../../src/kernel/index.ts';
import type { ScriptedAnswer } from '../../src/models/scripted.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { Frame, TestServer } from './harness.ts';
import { createTestServer } from './harness.ts';

const local = { kind: 'local', local: { iKnowThisIsNoSandbox: true }, warm: 1 } as const;

/** Does what the message says: `Bash {"command": "ls"}` is a call, anything else is answered. */
const obedient = () =>
  createScriptedModel((request): ScriptedAnswer => {
    const last = request.messages.at(-1)!;
    const [, name, args] = /^(\w+) (\{.*\})$/s.exec(textOf(last)) ?? [];
    return name ? { calls: [{ name, args: JSON.parse(args!) as never }] } : { text: 'done' };
  });

const textOf = (message: ModelRequest['messages'][number]): string =>
  message.role === 'user' ? message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('') : '';

async function open(sandbox: ConfigInput['sandbox'] = local, more: object = {}): Promise<TestServer> {
  return await createTestServer('embedded', { model: obedient(), config: { sandbox }, ...more });
}

const bash = (command: string, more: object = {}) => `Bash ${JSON.stringify({ command, ...more })}`;

const ask = async (server: TestServer, query: string, more: object = {}) => {
  const { body } = await server.call('POST', '/chat', { body: { conversationId: 'web', query, ...more } });
  const [call] = body.toolCalls as unknown as { result: string; isError: boolean }[];
  return { ...call!, run: body.run as unknown as string };
};

const resultsOf = (frames: Frame[]) =>
  frames.flatMap(({ event, data }) => (event === 'tool_result' ? (data.results as { result: string }[]) : []));
const slotsOf = ({ folder }: TestServer) => readdirSync(join(folder, 'sandbox', 'slots'));
const statsOf = async (server: TestServer) => (await server.call('GET', '/health')).body.sandbox;

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 5000; !(await what()); await new Promise((resolve) => setTimeout(resolve, 10))) {
    if (Date.now() > end) throw new Error('It never came true.');
  }
}

describe('the life of a sandbox', () => {
  it('SBX-12 is made by the first call that needs one, and is gone after success', async () => {
    await using server = await open({ ...local, warm: 0 });
    await server.call('POST', '/chat', { body: { conversationId: 'web', query: 'hello' } });
    expect(slotsOf(server)).toEqual([]);
    expect((await ask(server, bash('echo hi > a.txt; cat a.txt'))).result).toBe('hi');
    await until(() => slotsOf(server).length === 0);
    expect((await ask(server, bash('cat a.txt'))).result).toBe('hi');
    await until(async () => ((await statsOf(server)) as unknown as { live: number }).live === 0);
    expect(await statsOf(server)).toMatchObject({ kind: 'local', isolation: 'none', waiting: 0 });
  });

  it('SBX-12 is gone after an error of the model and after an abort, with what ran in it', async () => {
    const failing = createScriptedModel([
      { calls: [{ name: 'Bash', args: { command: 'echo hi' } }] },
      { error: new Error('the model fell over') },
      { calls: [{ name: 'Bash', args: { command: 'echo $$ > pid; exec sleep 60' } }] },
    ]);
    await using server = await open({ ...local, warm: 0 }, { model: failing });
    await server.call('POST', '/chat', { body: { conversationId: 'web', query: 'x' } });
    await until(() => slotsOf(server).length === 0);
    await server.send('web', 'again');
    await until(async () => {
      const found = await server.call('GET', '/conversations/web/files/content?path=pid');
      return found.status === 200 && /^\d+\n$/.test(String(found.body.text));
    });
    const pid = Number((await server.call('GET', '/conversations/web/files/content?path=pid')).body.text);
    expect(process.kill(pid, 0)).toBe(true);
    const { body } = await server.call('GET', '/conversations/web');
    await server.call('DELETE', `/runs/${String(body.activeRun)}`);
    await until(() => slotsOf(server).length === 0);
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  it('SBX-23 a run above the cap of its user waits, says so, and goes on; one that waited too long is told', async () => {
    await using server = await open({ ...local, perUser: 1, waitSeconds: 30 });
    const first = server.stream('/chat/stream', {
      body: { conversationId: 'a', query: bash('echo go > go; sleep 1') },
    });
    await until(async () => (await server.call('GET', '/conversations/a/files/content?path=go')).status === 200);
    const second = await server.stream('/chat/stream', { body: { conversationId: 'b', query: bash('echo mine') } });
    expect(second.find(({ event }) => event === 'tool_output')?.data.text).toContain('Waiting for a free sandbox');
    expect(resultsOf(second)).toMatchObject([{ result: 'mine' }]);
    await first;
    await server.restart({ model: obedient(), config: { sandbox: { ...local, total: 1, waitSeconds: 0 } } });
    await server.send('a', bash('sleep 5'));
    await until(async () => ((await statsOf(server)) as unknown as { live: number }).live === 1);
    const refused = await server.stream('/chat/stream', { body: { conversationId: 'b', query: bash('echo x') } });
    expect(resultsOf(refused)).toMatchObject([
      { isError: true, result: expect.stringMatching(/1 sandboxes are in use.*Try again/) },
    ]);
  });

  it('SBX-16 what a command writes is shown while it runs', async () => {
    await using server = await open();
    const frames: (Frame & { at: number })[] = [];
    const query = bash('echo 中文 first; sleep 1; echo last >&2');
    await server.stream('/chat/stream', {
      body: { conversationId: 'web', query },
      until: (frame) => (frames.push({ ...frame, at: performance.now() }), false),
    });
    const at = (event: string) => frames.find((frame) => frame.event === event)!.at;
    expect(frames.find(({ event }) => event === 'tool_output')?.data.text).toBe('中文 first\n');
    expect(at('tool_output') - at('tool_call')).toBeLessThan(800);
    expect(at('tool_result') - at('tool_output')).toBeGreaterThan(700);
  });

  it('MEM-24 what was read in an earlier turn may be edited, also after a restart; what changed since may not', async () => {
    await using server = await open();
    await ask(server, bash('echo one > a.txt'));
    const edit = (from: string, to: string) =>
      `Edit ${JSON.stringify({ path: 'a.txt', oldString: from, newString: to })}`;
    expect(await ask(server, edit('one', 'two'))).toMatchObject({
      isError: true,
      result: expect.stringContaining('Read'),
    });
    await ask(server, 'Read {"path":"a.txt"}');
    expect((await ask(server, edit('one', 'two'))).isError).toBe(false);
    await server.restart({ model: obedient() });
    expect((await ask(server, edit('two', 'three'))).isError).toBe(false);
    await ask(server, bash('echo other > a.txt'));
    expect((await ask(server, edit('other', 'x'))).isError).toBe(true);
  });
});

describe('what a request brings', () => {
  const nasty = `it's "q" \`id\` $(id)\n中文 \\ end`;

  it('SBX-06 its environment arrives verbatim, and nothing of it is executed or told', async () => {
    await using server = await open({ ...local, env: { BASE: 'of the server' } });
    const { result, run } = await ask(server, bash('printf %s "$NASTY|$BASE|$LATER"'), {
      env: { NASTY: nasty, LATER: 'y' },
    });
    expect(result).toBe(`${nasty}|of the server|y`);
    expect(await ask(server, bash('printf %s "[$NASTY]"'))).toMatchObject({ result: '[]' });
    expect(JSON.stringify((await server.call('GET', `/runs/${run}`)).body)).not.toContain('LATER":');
    const bad = await server.call('POST', '/chat', { body: { query: 'x', env: { '1x': 'y' } } });
    expect(bad.body.error).toMatchObject({
      code: 'server.invalid_request',
      message: expect.stringContaining('env.1x'),
    });
    for (const [given, why] of [
      [{ A: 'a'.repeat(60_000), B: 'b'.repeat(60_000) }, 'at most 100,000 characters in all'],
      [{ A: 'a\n'.repeat(1_000) }, 'at most 1,000 lines in all'],
      [{ A: 'a'.repeat(10_001) }, 'lines of at most 10,000 characters'],
    ] as const) {
      const refused = await server.call('POST', '/chat', { body: { query: 'x', secrets: given } });
      expect(refused.body.error).toMatchObject({
        code: 'server.invalid_request',
        message: expect.stringContaining(`secrets: ${why}`),
      });
    }
  });

  it('its secrets, and those of the server, reach commands and nobody else', async () => {
    const model = obedient();
    const environment = { SERVER_KEY: 'server-secret-99' };
    await using server = await open({ ...local, secrets: ['SERVER_KEY'] }, { model, environment });
    const query = bash(
      'echo "$SERVER_KEY"; printf %s "$MINE" | cut -c1-8; sleep 0.1; printf %s "$MINE"; echo "$MINE" > kept; exit 3',
    );
    const body = { conversationId: 'web', query, secrets: { MINE: 'client-secret-77' } };
    const frames = await server.stream('/chat/stream', { body });
    expect(resultsOf(frames)[0]?.result).toBe('***\nclient-s\n***\n[exit code 3]');
    const messages = await server.call('GET', '/conversations/web/messages');
    // The readable file comes after the answer.
    const path = join(server.folder, 'workspace/owners/default/ann/conversations/chat-web.yaml');
    const readAll = () => {
      const text = readFileSync(path, 'utf8');
      expect(text).toContain('[exit code 3]');
      return text;
    };
    const yaml = await vi.waitFor(readAll, { timeout: 10_000 });
    for (const text of [JSON.stringify(frames), JSON.stringify(messages.body), yaml, JSON.stringify(model.requests)]) {
      expect(text).not.toMatch(/-secret-(?:77|99)/);
    }
    const kept = await server.call('GET', '/conversations/web/files/content?path=kept');
    expect(kept.body.text).toBe('client-secret-77\n');
  });
});

describe('which sandbox there is', () => {
  it('SBX-02 one key changes the back end, and the model sees the same tools', async () => {
    const specs: unknown[] = [];
    for (const sandbox of [local, { kind: 'virtual' }] as const) {
      const model = obedient();
      await using server = await open(sandbox, { model });
      expect((await server.call('GET', '/sandbox')).body).toMatchObject({ kind: sandbox.kind });
      expect((await ask(server, bash('echo $((1+2))'))).result).toBe('3');
      specs.push(model.requests[0]!.tools.map(({ name, schema }) => ({ name, schema })));
    }
    expect(specs[0]).toEqual(specs[1]);
    expect(specs[0]).toMatchObject(
      ['current_time', 'Bash', 'Read', 'Write', 'Edit', 'Grep', 'Glob', 'List'].map((name) => ({ name })),
    );
  });

  it('what stays in an isolated sandbox needs no approval, what does not asks', async () => {
    for (const [sandbox, status] of [
      [{ kind: 'virtual' }, 'done'],
      [local, 'waiting'],
    ] as const) {
      await using server = await open(sandbox, { policy: askForWrites });
      const { body } = await server.call('POST', '/chat', { body: { query: bash('echo x') } });
      expect(body.status).toBe(status);
    }
  });

  it('SBX-03 local is refused without its flag and in production, and warns at the start', async () => {
    const data = mkdtempSync(join(tmpdir(), 'homard-refused-'));
    onTestFinished(() => rmSync(data, { recursive: true, force: true }));
    const start = (sandbox: ConfigInput['sandbox'], environment = {}) =>
      createHomard({ config: { data, sandbox }, environment });
    const refused = (text: string) =>
      expect.objectContaining({ code: 'sandbox.refused', message: expect.stringContaining(text) });
    await expect(start({ kind: 'local' })).rejects.toEqual(refused('iKnowThisIsNoSandbox'));
    await expect(start(local, { NODE_ENV: 'production' })).rejects.toEqual(refused('inProduction'));
    await expect(start({ kind: 'virtual', requireIsolation: 'vm' })).rejects.toEqual(refused('requireIsolation'));
    const warnings: string[] = [];
    const logger = { warn: (_: object, message: string) => warnings.push(message), error: () => undefined };
    await using server = await open(local, { logger });
    expect(warnings).toEqual([expect.stringContaining('with all its rights')]);
    expect((await server.call('GET', '/sandbox')).body).toMatchObject({ isolation: 'none' });
  });

  it('off: there are no tools of a sandbox, and no files', async () => {
    const model = obedient();
    await using server = await open({ kind: 'off' }, { model });
    await server.call('POST', '/chat', { body: { conversationId: 'web', query: 'x' } });
    expect(model.requests[0]!.tools.map(({ name }) => name)).toEqual(['current_time']);
    expect((await server.call('GET', '/sandbox')).body).toEqual({ kind: 'off' });
    expect((await server.call('GET', '/conversations/web/files')).body.error?.code).toBe('server.no_sandbox');
  });
});
