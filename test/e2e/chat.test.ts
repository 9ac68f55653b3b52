// `homard chat` in a child process, with a server in this one, a server of its own, or none.
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { askForWrites, defineTool } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import type { TestServer } from '../server/harness.ts';
import { createTestServer, NOBODY, schemaTemplate } from '../server/harness.ts';

/** The machine may be busy with other tests. */
const PATIENT = { timeout: 30_000 };

let folder: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'homard-chat-'));
  await mkdir(join(folder, 'data'));
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    }
  }
  await rm(folder, { recursive: true, force: true });
});

function homard(arguments_: string[], environment: Record<string, string> = {}) {
  const child = spawn(process.execPath, ['--liftoff-only', resolve('src/cli.ts'), ...arguments_], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOMARD_DATA: join(folder, 'data'),
      HOMARD_PORT: '0',
      HOMARD_TOKEN: 'ann-token',
      OLLAMA_HOST: NOBODY,
      ...environment,
    },
  });
  children.push(child);
  const seen = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (seen.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (seen.stderr += String(chunk)));
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...seen }));
  return { child, seen, ended, say: (text: string) => child.stdin.write(text) };
}

/** Says that a server of this test is the one of the data directory. */
async function announce({ address }: TestServer): Promise<void> {
  await writeFile(join(folder, 'data', 'server.json'), JSON.stringify({ pid: process.pid, address }));
}

const sent: unknown[] = [];
const sendMail = defineTool({
  name: 'send_mail',
  title: 'Send mail',
  description: 'Sends a mail.',
  parameters: z.object({ to: z.string(), body: z.string().default('') }),
  effect: 'once',
  run: (args, { output }) => {
    output('connecting\nsending\n');
    sent.push(args);
    return { sent: args.to };
  },
});

/** Calls the tool once, then says what came of it. */
const mailer = () =>
  createScriptedModel(({ messages }) => {
    const last = messages.at(-1)!;
    return last.role === 'tool'
      ? `It said \x1b[31m${JSON.stringify(last.result)}.`
      : { reasoning: 'A mail is wanted.\nSo be it.', calls: [{ name: 'send_mail', args: { to: 'bob' } }] };
  });

const mailServer = async () => {
  sent.length = 0;
  const server = await createTestServer('embedded', { model: mailer(), tools: [sendMail], policy: askForWrites });
  await announce(server);
  return server;
};

it('CHAN-14 asks the running server once: the answer is all of standard output, the rest is beside it', async () => {
  await using server = await createTestServer('embedded', {
    model: createScriptedModel([{ reasoning: 'Simple.\nVery.', text: 'Fine: **bold** stays.\n- a' }]),
  });
  await announce(server);
  const { code, stdout, stderr } = await homard(['chat', 'how', 'are you?', '--conversation', 'talk']).ended;
  expect(stdout).toBe('Fine: **bold** stays.\n- a\n');
  expect(stderr).toMatch(/^· Simple\. \(\d+ ms\)\nscripted: 0 in, \d+ out, \d+ ms\n$/);
  expect(code).toBe(0);
  const { body } = await server.call('GET', '/conversations/talk/messages');
  expect(JSON.stringify(body)).toContain('how are you?');
});

it('CHAN-14 without a server it answers from the data directory, and remembers', { timeout: 60_000 }, async () => {
  await copyTemplate(join(folder, 'data', 'db'), schemaTemplate);
  await writeFile(join(folder, 'data', 'server.json'), JSON.stringify({ pid: 1e9, address: 'http://127.0.0.1:1' }));
  expect((await homard(['chat', 'first']).ended).code).toBe(0);
  const { code, stdout, stderr } = await homard(['chat', 'second']).ended;
  expect(code).toBe(0);
  expect(stdout).toContain('You wrote: "second". Before that: "first".');
  expect(stderr).toMatch(/✓ Current time {2}\d+ ms\n {2}\{"utc"/);
  expect(stdout + stderr).not.toContain('\x1b');
  // The owner's own place: the same that a server writes to.
  const file = join(folder, 'data', 'workspace', 'conversations', 'chat-web.yaml');
  expect(await readFile(file, 'utf8')).toContain('second');
});

it('asks about a call that writes: yes, no and why, other arguments', async () => {
  await using _server = await mailServer();
  const yes = homard(['chat', '--new', 'mail']);
  yes.say('perhaps\ny\n');
  const allowed = await yes.ended;
  expect(allowed.stderr).toContain(
    '? Send mail Send mail changes something. (default.write_asks)\n  {\n    "to": "bob"',
  );
  expect(allowed.stderr).toMatch(
    /Send mail: allowed\n✓ Send mail {"to":"bob".*} {2}\d+ ms\n {2}\| connecting\n {2}\| sending\n/,
  );
  expect(allowed.stdout).toBe('It said [31m{"sent":"bob"}.\n');
  expect(allowed.code).toBe(0);

  const no = homard(['chat', '--new', 'mail']);
  no.say('no, not to bob\n');
  const denied = await no.ended;
  expect(denied.stderr).toContain('Send mail: denied, not to bob\n');
  expect(denied.stdout).toContain('not to bob');
  expect(denied.code).toBe(0);

  const edit = homard(['chat', '--new', 'mail']);
  edit.say('e\n{nonsense\ne\n{"to":"carol"}\n');
  const edited = await edit.ended;
  expect(edited.stderr).toContain('This is not JSON');
  expect(edited.stdout).toContain('carol');
  expect(sent).toEqual([
    { to: 'bob', body: '' },
    { to: 'carol', body: '' },
  ]);
});

it('a question that nobody answers here waits for somebody elsewhere', async () => {
  await using server = await mailServer();
  const alone = homard(['chat', 'mail']);
  alone.child.stdin.end();
  const { code, stderr } = await alone.ended;
  expect(code).toBe(1);
  const [, approval] = /POST \/approvals\/(\S+) /.exec(stderr)!;
  const { status } = await server.call('POST', `/approvals/${approval}`, { body: { decision: 'allow' } });
  expect(status).toBe(200);

  const beside = homard(['chat', '--new', 'mail']);
  await expect.poll(() => beside.seen.stderr, PATIENT).toContain('? Send mail');
  const { body } = await server.call('GET', '/conversations');
  const [{ id }] = body.conversations as unknown as [{ id: string }];
  const { body: talk } = await server.call('GET', `/conversations/${id}`);
  const [{ run }] = talk.runs as unknown as [{ run: string }];
  const { body: view } = await server.call('GET', `/runs/${run}`);
  const [{ id: open }] = view.approvals as unknown as [{ id: string }];
  await server.call('POST', `/approvals/${open}`, { body: { decision: 'deny', comment: 'from the page' } });
  expect(await beside.ended).toMatchObject({ code: 0, stderr: expect.stringContaining('denied, from the page') });
});

it('Ctrl-C stops the run', async () => {
  await using server = await createTestServer('embedded', {
    model: createScriptedModel(() => 'word '.repeat(500), { paceMs: 20 }),
  });
  await announce(server);
  const stopped = homard(['chat', 'go']);
  await expect.poll(() => stopped.seen.stdout, PATIENT).toContain('word');
  stopped.child.kill('SIGINT');
  expect(await stopped.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('Stopped.') });
});

it('a run that fails says what to do, and ends with 1', async () => {
  await using server = await createTestServer('embedded', { model: createScriptedModel([]) });
  await announce(server);
  const { code, stdout, stderr } = await homard(['chat', 'hello']).ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/✗ The script of scripted has no answer 1\.\n {2}.+ \(models\.error\)\n/);
  const wrong = await homard(['chat', 'hello'], { HOMARD_TOKEN: 'nobody' }).ended;
  expect(wrong).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('(server.unauthorized)') });
  const unknown = await homard(['chat', '--colour', 'hello']).ended;
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('(chat.invalid_arguments)') });
  expect(unknown.stderr.trim().split('\n')).toHaveLength(2);
});

it('several messages from a pipe are one conversation, and commands change it', async () => {
  const model = createScriptedModel(
    ({ messages }) => `answer to ${messages.filter(({ role }) => role === 'user').length}`,
  );
  await using server = await createTestServer('embedded', { model });
  await announce(server);
  const piped = homard(['chat', '--conversation', 'pipe']);
  piped.child.stdin.end('one\n\ntwo\\\nlines\n/new\nthree\n/help\n/quit\nnever\n');
  const { code, stdout, stderr } = await piped.ended;
  expect(stdout).toBe('answer to 1\nanswer to 2\nanswer to 1\n');
  expect(code).toBe(0);
  expect(stderr).toContain('/model NAME');
  const { body } = await server.call('GET', '/conversations/pipe/messages');
  expect(JSON.stringify(body)).toContain('two\\nlines');
});

it('CHAN-14 goes on when the server is killed in mid-run and starts again', { timeout: 90_000 }, async () => {
  await copyTemplate(join(folder, 'data', 'db'), schemaTemplate);
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  const environment = { HOMARD_PORT: String(port) };
  const first = homard(['start'], environment);
  await expect.poll(() => first.seen.stdout, PATIENT).toContain('Sign in');
  const talk = homard(['chat', 'tell me']);
  await expect.poll(() => talk.seen.stdout, PATIENT).toContain('You wrote');
  first.child.kill('SIGKILL');
  await expect.poll(() => talk.seen.stderr, PATIENT).toContain('The server is away');
  homard(['start'], environment);
  const { code, stdout, stderr } = await talk.ended;
  expect(stderr).toContain('The server is back');
  expect(code).toBe(0);
  expect(stdout.trim()).toMatch(/start again\.$/);
});
