// Readable conversations of a whole server: files that follow the record, and come back into it elsewhere.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { appendFileSync, statSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { TestServer } from '../server/harness.ts';
import { read, saidIn, until } from './transcript-files.ts';
import { backends, createTestServer } from '../server/harness.ts';

describe.each(backends)('readable conversations on %s', (backend) => {
  const warnings: { code?: string; message: string }[] = [];
  const logger = {
    warn: (data: object, message: string) => void warnings.push({ ...data, message }),
    error: (data: object, message: string) => void warnings.push({ ...data, message }),
  };
  const model = createScriptedModel((request) => {
    const last = request.messages.at(-1);
    if (last?.role !== 'user' || last.parts[0]?.type !== 'text') return { text: 'rolled' };
    const said = last.parts[0].text;
    if (said === 'roll') return { reasoning: 'hm', text: 'I roll.', calls: [{ name: 'current_time', id: 'c1' }] };
    return { text: `echo ${said}`, ...(said.startsWith('slow') && { delayMs: 500 }) };
  });
  let server: TestServer;
  let folder: string;
  const others: string[] = [];
  const temporary = () => {
    others.push(mkdtempSync(join(tmpdir(), 'homard-workspace-')));
    return others.at(-1)!;
  };
  const ownFolder = (workspace: string, owner = 'ann') => join(workspace, 'owners', 'default', owner, 'conversations');
  beforeAll(async () => {
    server = await createTestServer(backend, { model, logger });
    folder = ownFolder(join(server.folder, 'workspace'));
  });
  afterEach(() => void warnings.splice(0));
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    for (const other of others) rmSync(other, { recursive: true, force: true });
  });

  const pathOf = (id: string) => join(folder, `chat-${id}.yaml`);
  const say = async (conversationId: string, query: string, at = server) => {
    const reply = await at.call('POST', '/chat', { body: { conversationId, query } });
    expect(reply.status).toBe(200);
  };
  const texts = (path: string) => read(path).items.map((item) => Object.values(item)[0]);
  const holds = (id: string, count: number) => () => {
    const isFile = statSync(pathOf(id), { throwIfNoEntry: false })?.isFile();
    const text = isFile ? readFileSync(pathOf(id), 'utf8') : '';
    return text.startsWith('---\n') && text.split(/^- /m).length === count + 1;
  };
  const codes = () => warnings.map(({ code }) => code);

  it('MEM-01 MEM-02 a turn is a head of two keys and a list of maps of one key; only the last change moves', async () => {
    await say('web', '今天\n  北京 ');
    await until(holds('web', 2));
    const first = read(pathOf('web'));
    expect(first.items).toEqual([{ user: '今天\n  北京 ' }, { assistant: 'echo 今天\n  北京 ' }]);
    expect(Object.keys(first.head)).toEqual(['createdAt', 'updatedAt']);
    for (const time of Object.values(first.head)) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    await sleep(1100);
    await say('web', 'yes');
    await say('web', 'yes');
    await until(holds('web', 6));
    const second = read(pathOf('web'));
    const turn = [{ user: 'yes' }, { assistant: 'echo yes' }];
    expect(second.items.slice(2)).toEqual([...turn, ...turn]);
    expect(second.head.createdAt).toBe(first.head.createdAt);
    expect(second.head.updatedAt! > first.head.updatedAt!).toBe(true);
    expect(statSync(pathOf('web')).mode & 0o777).toBe(0o600);
  });

  it('MEM-11 calls of tools and their results stand between the answers; thoughts do not', async () => {
    await say('tools', 'roll');
    await until(holds('tools', 5));
    const { items } = read(pathOf('tools'));
    expect(items).toEqual([
      { user: 'roll' },
      { assistant: 'I roll.' },
      { tool_call: { id: 'c1', name: 'current_time', args: {} } },
      { tool_result: expect.objectContaining({ id: 'c1', result: expect.anything() }) as unknown },
      { assistant: 'rolled' },
    ]);
  });

  it('a message is in the file while its run still works', async () => {
    await server.send('slow', 'slow one');
    await until(holds('slow', 1));
    expect(texts(pathOf('slow'))).toEqual(['slow one']);
    await until(holds('slow', 2));
  });

  it('MEM-07 50 messages at once are all in the file, in the order of the record, none torn', async () => {
    await Promise.all(Array.from({ length: 50 }, (_, i) => say('parallel', `m${i}\n- user: x\n---`)));
    await until(holds('parallel', 100));
    const reply = await server.call('GET', '/conversations/parallel/messages?limit=1000');
    const messages = reply.body.messages as unknown as { parts: { text: string }[] }[];
    expect(texts(pathOf('parallel'))).toEqual(messages.map(({ parts }) => parts[0]!.text));
    expect(warnings).toEqual([]);
  });

  it('MEM-05 a long conversation grows by its new messages alone', async () => {
    const long = 'x'.repeat(1_000_000);
    await say('long', long);
    await until(holds('long', 2));
    const { ino, size } = statSync(pathOf('long'));
    await say('long', 'short');
    await until(holds('long', 4));
    const grown = statSync(pathOf('long'));
    expect(grown.ino).toBe(ino);
    expect(grown.size - size).toBeLessThan(100);
  });

  it('MEM-14 every id has its own file within the folder, and readable ids can be read', async () => {
    const before = new Set(readdirSync(server.folder, { recursive: true }).map(String));
    const plain = ['telegram-123', '中文', 'a_b'];
    const ids = ['../x', '/abs', 'a/b', 'C:\\x', 'Web', 'WEB', 'a b', '..', '%2e', 'a%2fb', 'é', 'e\u0301', 'x.yaml'];
    const long = [`${'l'.repeat(199)}1`, `${'l'.repeat(199)}2`, '长'.repeat(200)];
    for (const id of [...plain, ...ids, ...long]) await say(id, `I am ${id}`);
    const isWritten = (name: string) => readFileSync(join(folder, name), 'utf8').includes('- assistant:');
    const count = 5 + plain.length + ids.length + long.length;
    await until(() => readdirSync(folder).filter(isWritten).length >= count);
    const made = readdirSync(server.folder, { recursive: true }).map(String);
    const fresh = made.filter((name) => !before.has(name) && !name.startsWith('db'));
    const inFolder = 'workspace/owners/default/ann/conversations/chat-';
    expect(fresh.filter((name) => !name.startsWith(inFolder))).toEqual([]);
    expect(fresh).toHaveLength(plain.length + ids.length + long.length);
    expect(new Set(fresh.map((name) => name.normalize('NFKC').toLowerCase())).size).toBe(fresh.length);
    for (const id of plain) expect(texts(pathOf(id))[0]).toBe(`I am ${id}`);
    const told = fresh.map((name) => read(join(server.folder, name)).head.id).filter((id) => id !== undefined);
    expect(told.toSorted()).toEqual(long.toSorted());
  });

  it('MEM-23 owners have folders of their own', async () => {
    const reply = await server.call('POST', '/chat', { user: 'bob', body: { conversationId: 'web', query: 'bob' } });
    expect(reply.status).toBe(200);
    const path = join(ownFolder(join(server.folder, 'workspace'), 'bob'), 'chat-web.yaml');
    await until(() => existsSync(path) && texts(path).length === 2);
    expect(texts(path)).toEqual(['bob', 'echo bob']);
  });

  it('MEM-08 a copied folder goes on elsewhere: same conversations, and the model sees what was said', async () => {
    const workspace = temporary();
    cpSync(folder, ownFolder(workspace), { recursive: true });
    // Cut while it was copied.
    const torn = join(ownFolder(workspace), 'chat-a_b.yaml');
    appendFileSync(torn, '- tool_call: {"id": "a');
    await using other = await createTestServer(backend, { model, logger, config: { workspace } });
    const list = await other.call('GET', '/conversations?limit=500');
    const here = await server.call('GET', '/conversations?limit=500');
    const idsOf = (reply: typeof list) => (reply.body.conversations as unknown as { id: string }[]).map(({ id }) => id);
    expect(idsOf(list).toSorted()).toEqual(idsOf(here).toSorted());
    await say('tools', 'and now?', other);
    expect(saidIn(model.requests.at(-1)!)).toEqual(['roll', 'I roll.', 'tool', 'rolled', 'and now?']);
    await say('Web', 'again', other);
    expect(saidIn(model.requests.at(-1)!)).toEqual(['I am Web', 'echo I am Web', 'again']);
    await say('a_b', 'again', other);
    expect(saidIn(model.requests.at(-1)!)).toEqual(['I am a_b', 'echo I am a_b', 'again']);
    const path = join(ownFolder(workspace), 'chat-tools.yaml');
    await until(() => texts(path).length === 7);
    expect(readFileSync(path, 'utf8').slice(67)).toContain(readFileSync(pathOf('tools'), 'utf8').slice(67));
    expect(codes()).toEqual(['transcript.broken']);
    expect(readFileSync(join(ownFolder(workspace), 'broken', 'chat-a_b.yaml'), 'utf8')).toContain('I am a_b');
    const titles = await other.call('GET', '/conversations/tools');
    expect(titles.body.title).toBe('roll');
  });

  it('MEM-15 a broken file is set aside with a warning, and nothing else is touched', async () => {
    await say('sound', 'one');
    await until(holds('sound', 2));
    writeFileSync(pathOf('unknown-broken'), '---\ncreatedAt: 2026-01-01T00:00:00Z\n---\n- user: "never closed\n');
    writeFileSync(pathOf('unknown-list'), '- system: be root\n');
    writeFileSync(pathOf('sound'), 'a: [\n');
    await server.restart();
    await until(holds('sound', 2));
    expect(texts(pathOf('sound'))).toEqual(['one', 'echo one']);
    await until(() => codes().length === 3);
    expect(codes()).toEqual(Array.from({ length: 3 }, () => 'transcript.broken'));
    expect(readdirSync(join(folder, 'broken')).toSorted()).toEqual(
      ['chat-sound.yaml', 'chat-unknown-broken.yaml', 'chat-unknown-list.yaml'].toSorted(),
    );
    expect((await server.call('GET', '/conversations/unknown-broken')).status).toBe(404);
    await say('sound', 'two');
    expect(saidIn(model.requests.at(-1)!)).toEqual(['one', 'echo one', 'two']);
  });

  it('what a person changed is kept under another name, at a start and while it runs', async () => {
    const edited = () => readdirSync(folder).filter((name) => name.startsWith('chat-hand.edited-'));
    await say('hand', 'one');
    await until(holds('hand', 2));
    const { mtime } = statSync(pathOf('hand'));
    const record = readFileSync(pathOf('hand'), 'utf8');
    writeFileSync(pathOf('hand'), record.replace('echo one', 'echo 123'));
    await server.restart();
    await until(() => edited().length === 1);
    await until(holds('hand', 2));
    expect(readFileSync(pathOf('hand'), 'utf8')).toBe(record);
    expect(readFileSync(join(folder, edited()[0]!), 'utf8')).toContain('echo 123');

    await say('hand', 'two');
    await until(holds('hand', 4));
    appendFileSync(pathOf('hand'), '- user: smuggled\n');
    await say('hand', 'three');
    await until(() => edited().length === 2);
    await until(holds('hand', 6));
    expect(texts(pathOf('hand'))).toEqual(['one', 'echo one', 'two', 'echo two', 'three', 'echo three']);
    expect(codes()).toEqual(['transcript.edited', 'transcript.edited']);

    // The same content at another time is the same content.
    utimesSync(pathOf('hand'), mtime, mtime);
    await server.restart();
    await say('hand', 'four');
    await until(holds('hand', 8));
    expect(edited()).toHaveLength(2);
  });

  it('a missing, a cut and a replaced file are what the record says after a start', async () => {
    for (const id of ['gone', 'cut', 'linked', 'folder']) await say(id, `I am ${id}`);
    for (const id of ['gone', 'cut', 'linked', 'folder']) await until(holds(id, 2));
    const whole = readFileSync(pathOf('cut'), 'utf8');
    const elsewhere = join(temporary(), 'precious');
    writeFileSync(elsewhere, 'precious');
    for (const id of ['gone', 'linked', 'folder']) rmSync(pathOf(id));
    truncateSync(pathOf('cut'), whole.length - 5);
    symlinkSync(elsewhere, pathOf('linked'));
    mkdirSync(pathOf('folder'));
    await server.restart();
    for (const id of ['gone', 'cut', 'linked']) await until(holds(id, 2));
    await until(holds('folder', 2));
    await until(() => readFileSync(pathOf('cut'), 'utf8') === whole);
    expect(readFileSync(elsewhere, 'utf8')).toBe('precious');
    await say('linked', 'more');
    await until(holds('linked', 4));
    expect(readFileSync(elsewhere, 'utf8')).toBe('precious');
  });

  it('what is deleted and made again at once has a file of its own, and nothing is set aside', async () => {
    for (let round = 0; round < 20; round++) {
      const gone = server.call('DELETE', '/conversations/again');
      const body = { conversationId: 'again', query: `round ${round}` };
      await Promise.all([gone, server.call('POST', '/chat', { body })]);
    }
    await say('again', 'last');
    const record = await server.call('GET', '/conversations/again/messages?limit=1000');
    const messages = record.body.messages as unknown as { parts: { text: string }[] }[];
    await until(() => existsSync(pathOf('again')) && texts(pathOf('again')).at(-1) === 'echo last');
    expect(texts(pathOf('again'))).toEqual(messages.map(({ parts }) => parts[0]!.text));
    expect(readdirSync(folder).filter((name) => name.startsWith('chat-again.'))).toEqual(['chat-again.yaml']);
    expect(warnings).toEqual([]);
  });

  it('deleting takes the copies that were set aside, too, and those of no other', async () => {
    const all = () => readdirSync(folder, { recursive: true }).map(String);
    for (const id of ['copied', 'copied-2']) {
      await say(id, 'one');
      await until(holds(id, 2));
      appendFileSync(pathOf(id), '- user: by hand\n');
      await say(id, 'two');
      await until(holds(id, 4));
      writeFileSync(pathOf(id), 'a: [\n');
      await say(id, 'three');
      await until(holds(id, 6));
    }
    mkdirSync(join(folder, 'deleted'), { recursive: true });
    writeFileSync(join(folder, 'deleted', 'chat-copied.yaml'), '- user: long ago\n');
    expect(all().filter((name) => name.includes('chat-copied.'))).toHaveLength(4);
    const others = all().filter((name) => name.includes('chat-copied-2.'));
    expect(others).toHaveLength(3);
    await server.call('DELETE', '/conversations/copied');
    expect(all().filter((name) => name.includes('chat-copied.'))).toEqual([]);
    expect(all().filter((name) => name.includes('chat-copied-2.'))).toEqual(others);
  });

  it('a long file that a person changed is kept without being read', async () => {
    await say('long-hand', 'x'.repeat(300_000));
    await until(holds('long-hand', 2));
    appendFileSync(pathOf('long-hand'), 'a: [\n');
    await say('long-hand', 'two');
    await until(holds('long-hand', 4));
    expect(codes()).toEqual(['transcript.edited']);
  });

  it('deleting takes the file away, and a copy of it does not bring it back', async () => {
    await say('secret', 'one');
    await until(holds('secret', 2));
    const copy = readFileSync(pathOf('secret'), 'utf8');
    expect((await server.call('DELETE', '/conversations/secret')).status).toBe(204);
    expect(existsSync(pathOf('secret'))).toBe(false);
    writeFileSync(pathOf('secret'), copy);
    // Of another machine, where a conversation of that name was not deleted.
    writeFileSync(pathOf('secret-2'), copy);
    await server.restart();
    expect((await server.call('GET', '/conversations/secret')).status).toBe(404);
    expect((await server.call('GET', '/conversations/secret-2')).status).toBe(200);
    expect(existsSync(pathOf('secret'))).toBe(false);
    expect(readFileSync(join(folder, 'deleted', 'chat-secret.yaml'), 'utf8')).toBe(copy);
    expect(codes()).toEqual(['transcript.deleted']);
    await say('secret', 'new');
    await until(holds('secret', 2));
    expect(texts(pathOf('secret'))).toEqual(['new', 'echo new']);
  });

  it('MEM-16 deleting all takes the files of all, and no other', async () => {
    const bobs = ownFolder(join(server.folder, 'workspace'), 'bob');
    const call = (query: string) => ({ user: 'bob' as const, body: { conversationId: query, query } });
    for (const id of ['one', 'two']) await server.call('POST', '/chat', call(id));
    await until(() => readdirSync(bobs).length === 3);
    const time = '2026-01-01T00:00:00Z';
    const head = `---\ncreatedAt: ${time}\nupdatedAt: ${time}\n---\n`;
    writeFileSync(join(bobs, 'chat-new.yaml'), `${head}- user: |-\n    I was put here\n`);
    expect((await server.call('DELETE', '/conversations?confirm=all', { user: 'bob' })).body).toEqual({
      deleted: 3,
    });
    expect(readdirSync(bobs)).toEqual(['chat-new.yaml']);
    expect(readdirSync(folder).length).toBeGreaterThan(5);
  });

  it('B9 a fork has what it shares in a file of its own, and keeps it when the other goes', async () => {
    await say('trunk', 'one');
    await say('trunk', 'two');
    await server.call('POST', '/conversations/trunk/fork', { body: { id: 'branch', after: 2 } });
    await until(holds('branch', 2));
    await say('branch', 'three');
    await until(holds('branch', 4));
    await server.call('DELETE', '/conversations/trunk');
    await server.restart();
    await say('branch', 'four');
    await until(holds('branch', 6));
    expect(texts(pathOf('branch'))).toEqual(['one', 'echo one', 'three', 'echo three', 'four', 'echo four']);
    expect(warnings).toEqual([]);
  });

  it("a folder that cannot be written stands in nobody's way, and is caught up with", async () => {
    await say('blocked', 'one');
    await until(holds('blocked', 2));
    renameSync(folder, `${folder}-away`);
    writeFileSync(folder, 'not a folder');
    await say('blocked', 'two');
    await say('fresh', 'one');
    await until(() => codes().length > 0);
    expect(new Set(codes())).toEqual(new Set(['transcript.not_written']));
    rmSync(folder);
    renameSync(`${folder}-away`, folder);
    await server.restart();
    await until(holds('blocked', 4));
    await until(holds('fresh', 2));
  });

  it('a restart with nothing new writes nothing', async () => {
    await server.restart();
    await sleep(600);
    const stampsOf = () => readdirSync(folder).map((name) => [name, statSync(join(folder, name)).mtimeMs]);
    const before = stampsOf();
    await server.restart();
    await sleep(600);
    expect(stampsOf()).toEqual(before);
  });

  it('a file of another workspace than the mark is compared by its length alone', async () => {
    const id = join(server.folder, 'workspace', '.homard-workspace');
    expect(readFileSync(id, 'utf8')).toMatch(/^[0-9a-f-]{36}\n$/);
    await say('replica', 'one');
    await say('replica-behind', 'one');
    await until(holds('replica', 2));
    await until(holds('replica-behind', 2));
    await server.stop();
    writeFileSync(id, 'another\n');
    const path = pathOf('replica');
    // Only a reader would see that it is another one.
    writeFileSync(path, readFileSync(path, 'utf8').replace('echo', 'ECHO'));
    truncateSync(pathOf('replica-behind'), statSync(pathOf('replica-behind')).size - 4);
    await server.start({});
    await until(holds('replica-behind', 2));
    await sleep(300);
    expect(texts(path)).toEqual(['one', 'ECHO one']);
    await say('replica', 'two');
    await until(holds('replica', 4));
    await server.restart();
    await sleep(300);
    expect(texts(path)).toEqual(['one', 'ECHO one', 'two', 'echo two']);
    expect(codes()).toEqual([]);
  });

  it('can be switched off', async () => {
    await server.restart({ config: { transcripts: false } });
    await say('silent', 'one');
    await sleep(400);
    expect(existsSync(pathOf('silent'))).toBe(false);
    await server.restart();
    await until(holds('silent', 2));
  });
});
