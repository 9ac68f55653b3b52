import { createHash, randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from './harness.ts';
import { createTestServer } from './harness.ts';

const sandbox = { kind: 'local', local: { iKnowThisIsNoSandbox: true } } as const;

/** Runs each message but a greeting as a command. */
const shell = () =>
  createScriptedModel(({ messages }) => {
    const last = messages.at(-1)!;
    const text = last.role === 'user' && last.parts[0]?.type === 'text' ? last.parts[0].text : '';
    return text && text !== 'hello' ? { calls: [{ name: 'Bash', args: { command: text } }] } : 'done';
  });

const open = () => createTestServer('embedded', { model: shell(), config: { sandbox, fileLimitBytes: 20_000_000 } });

const run = (server: TestServer, conversationId: string, query: string) =>
  server.call('POST', '/chat', { body: { conversationId, query } });

const pathOf = (conversation: string, path: string) =>
  `/conversations/${conversation}/files/content?path=${encodeURIComponent(path)}`;

async function put(server: TestServer, address: string, body: Uint8Array, user: 'ann' | 'bob' = 'ann') {
  const headers = { authorization: `Bearer ${user}-token` };
  return await fetch(server.address + address, { method: 'PUT', headers, body: new Uint8Array(body) });
}

async function get(server: TestServer, address: string) {
  return await fetch(server.address + address, { headers: { authorization: 'Bearer ann-token' } });
}

it('SBX-09 files are brought, seen by commands, listed and taken away, byte by byte', async () => {
  await using server = await open();
  await run(server, 'web', 'mkdir -p out; printf "a\\n" > "out/b c\n中.txt"; ln -s /etc/passwd out/link');
  const big = randomBytes(10_000_000);
  const written = await put(server, pathOf('web', '/workspace/in/big.bin'), big);
  expect(written.status).toBe(201);
  expect(await written.json()).toMatchObject({ path: 'in/big.bin', kind: 'file', bytes: 10_000_000 });
  const { body } = await run(server, 'web', 'sha256sum in/big.bin | cut -c1-64');
  const hash = createHash('sha256').update(big).digest('hex');
  expect(body.toolCalls).toMatchObject([{ result: hash }]);
  const got = await get(server, pathOf('web', 'in/big.bin'));
  expect(
    createHash('sha256')
      .update(new Uint8Array(await got.arrayBuffer()))
      .digest('hex'),
  ).toBe(hash);
  expect(got.headers.get('content-disposition')).toContain('attachment; filename="big.bin"');
  const listed = await server.call('GET', '/conversations/web/files?recursive=true');
  expect(listed.body).toMatchObject({
    isComplete: true,
    files: [
      { path: 'in', kind: 'folder' },
      { path: 'in/big.bin', kind: 'file', bytes: 10_000_000 },
      { path: 'out', kind: 'folder' },
      { path: 'out/b c\n中.txt', kind: 'file', bytes: 2 },
      { path: 'out/link', kind: 'link' },
    ],
  });
  expect((await server.call('GET', '/conversations/web/files?path=out')).body.files).toHaveLength(2);
  expect((await server.call('DELETE', pathOf('web', 'in'))).status).toBe(204);
  expect((await get(server, pathOf('web', 'in/big.bin'))).status).toBe(404);
});

it('while a run has the files they are the same ones', async () => {
  await using server = await open();
  await run(server, 'web', 'echo old > a');
  const running = run(server, 'web', 'echo started > started; while [ ! -f go ]; do sleep 0.05; done; cat go');
  for (;;) if ((await get(server, pathOf('web', 'started'))).status === 200) break;
  expect(await (await get(server, pathOf('web', 'a'))).text()).toBe('old\n');
  await put(server, pathOf('web', 'go'), Buffer.from('from outside'));
  expect((await running).body.toolCalls).toMatchObject([{ result: 'from outside' }]);
  expect(await (await get(server, pathOf('web', 'go'))).text()).toBe('from outside');
});

it('SBX-08 paths that lead out, links and others’ conversations are refused, and nothing is written', async () => {
  await using server = await open();
  await run(server, 'web', 'ln -s /etc etc; ln -s /etc/passwd passwd; ln -s ../.. up; mkfifo pipe');
  for (const path of ['../x', '/etc/passwd', 'etc/passwd', 'passwd', 'up/owner.json', 'a/../../x', 'pipe', 'a\0b']) {
    const read = await get(server, pathOf('web', path));
    expect([read.status, path]).toEqual([expect.toBeOneOf([400, 404]), path]);
    const write = await put(server, pathOf('web', path), Buffer.from('x'));
    expect([write.status, path]).toEqual([400, path]);
    expect(await write.json()).toMatchObject({ error: { code: 'sandbox.path_refused', hint: expect.any(String) } });
  }
  const bob = await server.call('GET', '/conversations/web/files', { user: 'bob' });
  expect(bob.body.error?.code).toBe('server.conversation_not_found');
  expect((await put(server, pathOf('web', 'x'), Buffer.from('x'), 'bob')).status).toBe(404);
  const large = await put(server, pathOf('web', 'large'), Buffer.alloc(20_000_001));
  expect(await large.json()).toMatchObject({ error: { code: 'server.file_too_large' } });
});

it('the files of a conversation are no more than the configuration allows, and a full one can be emptied', async () => {
  const limits = { diskBytes: 1_000_000, fileBytes: 1_000_000 };
  await using server = await createTestServer('embedded', {
    model: shell(),
    config: { sandbox: { ...sandbox, limits } },
  });
  await run(server, 'web', 'hello');
  expect((await put(server, pathOf('web', 'a'), Buffer.alloc(900_000))).status).toBe(201);
  const refused = await put(server, pathOf('web', 'b'), Buffer.alloc(200_000));
  expect([refused.status, await refused.json()]).toMatchObject([507, { error: { code: 'sandbox.disk_full' } }]);
  await server.call('DELETE', pathOf('web', 'a'));
  expect((await put(server, pathOf('web', 'b'), Buffer.alloc(200_000))).status).toBe(201);
  expect((await put(server, pathOf('web', 'empty'), Buffer.alloc(0))).status).toBe(201);
});

it('a conversation without files has an empty list and no folder; a fork begins with a copy; deleting leaves nothing', async () => {
  await using server = await open();
  const folders = () => readdirSync(join(server.folder, 'sandbox', 'conversations'));
  await run(server, 'plain', 'hello');
  expect((await server.call('GET', '/conversations/plain/files')).body).toEqual({
    path: '',
    files: [],
    isComplete: true,
  });
  expect(folders()).toEqual([]);
  await run(server, 'web', 'mkdir d; echo one > d/a; chmod +x d/a');
  await server.call('POST', '/conversations/web/fork', { body: { id: 'other', after: 1 } });
  await run(server, 'other', 'echo two >> d/a');
  expect(await (await get(server, pathOf('web', 'd/a'))).text()).toBe('one\n');
  expect(await (await get(server, pathOf('other', 'd/a'))).text()).toBe('one\ntwo\n');
  const { body } = await server.call('GET', '/conversations/other/files?path=d');
  expect(body.files).toMatchObject([{ isExecutable: true }]);
  expect(folders()).toHaveLength(2);
  await server.call('DELETE', '/conversations/web');
  expect(folders()).toEqual([expect.stringMatching(/^other-/)]);
  await server.call('DELETE', '/conversations?confirm=all');
  expect(folders()).toEqual([]);
});

it('a fork copies many files in the time of as many writes', async () => {
  await using server = await open();
  await run(server, 'web', 'mkdir d && cd d && split -l 1 -a 4 <(seq 2000)');
  const before = performance.now();
  const forked = await server.call('POST', '/conversations/web/fork', { body: { id: 'other', after: 1 } });
  expect(forked.status).toBe(201);
  expect(performance.now() - before).toBeLessThan(8000);
  const { body } = await server.call('GET', '/conversations/other/files?path=d');
  expect(body.files).toHaveLength(2000);
}, 30_000);

it('of files that are more than may be there, a fork gets what fits, and tells of the rest', async () => {
  const limits = { diskBytes: 1_000_000, fileBytes: 1_000_000 };
  await using server = await createTestServer('embedded', {
    model: shell(),
    config: { sandbox: { ...sandbox, limits } },
  });
  // The first one has no blocks on the disk.
  await run(
    server,
    'web',
    'truncate -s 900000 a; head -c 200000 /dev/zero > b; echo small > c; ln -s c link; mkfifo pipe',
  );
  await server.call('POST', '/conversations/web/fork', { body: { id: 'other', after: 1 } });
  const { body } = await server.call('GET', '/conversations/other/files');
  expect(body.files).toMatchObject([
    { path: 'a', bytes: 900_000 },
    { path: 'c', bytes: 6 },
  ]);
});
