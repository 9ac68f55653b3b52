// What readable conversations ask of the database and of the disk, at a start and while runs go on.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createHomard } from '../../src/app.ts';
import { createTokenIdentity } from '../../src/access/identity.ts';
import type { HomardInput } from '../../src/app.ts';
import { allowAll, defineTool } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { createTranscriptFolders } from '../../src/memory/transcript-folders.ts';
import { createTranscripts } from '../../src/memory/transcripts.ts';
import { createConversations } from '../../src/store/conversations.ts';
import { openDatabase } from '../../src/store/open.ts';
import { createTranscriptStore } from '../../src/store/transcripts.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import { NOBODY, schemaTemplate } from '../server/harness.ts';
import { read, until } from './transcript-files.ts';

const head = '---\ncreatedAt: 2026-01-01T00:00:00Z\nupdatedAt: 2026-01-01T00:00:00Z\n---\n';

describe('what readable conversations cost', () => {
  let data: string;
  /** Names of statements on what readable files need, in order. */
  const asked: string[] = [];
  const warnings: string[] = [];
  beforeEach(async () => {
    data = mkdtempSync(join(tmpdir(), 'homard-cost-'));
    await copyTemplate(join(data, 'db'), schemaTemplate);
    asked.length = warnings.length = 0;
  });
  afterEach(() => rmSync(data, { recursive: true, force: true }));

  async function start(input: HomardInput) {
    const database = await openDatabase({ directory: data });
    const counted = {
      ...database,
      exec(...[name, ...rest]: Parameters<typeof database.exec>) {
        if (name.startsWith('homard_transcript')) asked.push(name);
        return database.exec(name, ...rest);
      },
    };
    const logger = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined };
    const more = { logger, policy: allowAll, environment: { OLLAMA_HOST: NOBODY } };
    return await createHomard({ ...more, ...input, config: { data } }, Promise.resolve(counted));
  }
  const reads = () => asked.filter((name) => name.startsWith('homard_transcripts_') && !/page|present/.test(name));
  const say = async (homard: Awaited<ReturnType<typeof start>>, conversationId: string, query: string) => {
    const headers = { authorization: 'Bearer t', 'content-type': 'application/json', host: 'localhost' };
    const request = { method: 'POST', headers, body: JSON.stringify({ conversationId, query }) };
    const response = await homard.fetch(new Request('http://localhost/chat', request));
    expect(response.status).toBe(200);
  };

  it('a turn of several tools that tell their progress is read in two pieces at most', async () => {
    const talker = defineTool({
      name: 'talker',
      description: 'Tells its progress.',
      effect: 'read',
      parameters: z.object({}),
      async run(_, { output }) {
        for (let i = 0; i < 20; i++) {
          output(`line ${i}\n`);
          await sleep(10);
        }
        return 'done';
      },
    });
    let calls = 0;
    const model = createScriptedModel(() =>
      calls++ < 2 ? { calls: [{ name: 'talker', id: `c${calls}` }] } : { text: 'ready' },
    );
    await using homard = await start({ token: 't', model, tools: [talker] });
    await say(homard, 'busy', 'go');
    const path = join(data, 'workspace', 'conversations', 'chat-busy.yaml');
    await until(() => read(path).items.length === 6);
    expect(reads().length).toBeLessThanOrEqual(3);
  });

  it('a start looks into the folders that are there, and one that cannot be read stops no other', async () => {
    const owners = join(data, 'workspace', 'owners');
    const place = (path: string, text: string) => {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    };
    place(join(owners, 'a', 'ann', 'conversations', 'chat-here.yaml'), `${head}- user: here\n`);
    place(join(owners, 'z', 'zoe', 'conversations', 'chat-there.yaml'), `${head}- user: there\n`);
    mkdirSync(join(owners, 'm', 'max'), { recursive: true });
    // A loop of links can be read by nobody, not by root either.
    symlinkSync('conversations', join(owners, 'm', 'max', 'conversations'));
    const identity = createTokenIdentity({ t: { tenant: 'z', owner: 'zoe' } });
    const model = createScriptedModel(() => ({ text: 'ok' }));
    await using homard = await start({ identity, model });
    const told = warnings.filter((warning) => warning.includes(join('m', 'max', 'conversations')));
    expect(told).toHaveLength(1);
    expect(asked.filter((name) => name.includes('present'))).toHaveLength(1);
    const get = await homard.fetch(
      new Request('http://x/conversations/there', { headers: { authorization: 'Bearer t' } }),
    );
    expect(get.status).toBe(200);
  });

  it("a file of an owner whose folder's name was cut comes back to that owner", async () => {
    const long = 'n'.repeat(200);
    const identity = createTokenIdentity({ t: { tenant: 'z', owner: long } });
    const model = createScriptedModel(() => ({ text: 'ok' }));
    const first = await start({ identity, model });
    await say(first, 'one', 'go');
    await first.close();
    const tenant = join(data, 'workspace', 'owners', 'z');
    const folder = join(tenant, readdirSync(tenant)[0]!, 'conversations');
    writeFileSync(join(folder, 'chat-two.yaml'), `${head}- user: two\n`);
    await using homard = await start({ identity, model });
    const headers = { authorization: 'Bearer t' };
    expect((await homard.fetch(new Request('http://x/conversations/two', { headers }))).status).toBe(200);
    expect(readFileSync(join(folder, 'chat-one.yaml'), 'utf8')).toContain('- user: |-\n    go');
  });
});

it('all conversations come in pages, each once, whatever they are called', async () => {
  const data = mkdtempSync(join(tmpdir(), 'homard-pages-'));
  await copyTemplate(join(data, 'db'), schemaTemplate);
  const database = await openDatabase({ directory: data });
  try {
    const store = createTranscriptStore(database);
    const ids = ['', 'a', 'B', 'b', '中', 'z\0z', '~'];
    const keys = ['', 't', '租'].flatMap((tenant) =>
      ['', 'ann', 'Ann'].flatMap((owner) => ids.map((conversation) => ({ tenant, owner, conversation }))),
    );
    const at = '2026-01-01T00:00:00Z';
    for (const key of keys) await store.adopt({ key, createdAt: at, updatedAt: at, entries: [] });
    const seen: object[] = [];
    for (let last; ;) {
      const page = await store.page(last, 5);
      seen.push(...page.map(({ key }) => key));
      last = page.at(-1)?.key;
      if (page.length < 5) break;
    }
    const inOrder = (list: object[]) => list.map((key) => JSON.stringify(key)).toSorted();
    expect(inOrder(seen)).toEqual(inOrder(keys));
    const absent = { tenant: 't', owner: 'ann', conversation: 'absent' };
    expect(inOrder(await store.present([absent, ...keys]))).toEqual(inOrder(keys));
  } finally {
    await database[Symbol.asyncDispose]();
    rmSync(data, { recursive: true, force: true });
  }
});

describe('what is deleted while others write', () => {
  let data: string;
  const warnings: string[] = [];
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined };
  const owner = { tenant: 'default', owner: 'owner' };
  const key = { ...owner, conversation: 'again' };
  beforeEach(async () => {
    data = mkdtempSync(join(tmpdir(), 'homard-again-'));
    await copyTemplate(join(data, 'db'), schemaTemplate);
    warnings.length = 0;
  });
  afterEach(() => rmSync(data, { recursive: true, force: true }));

  async function open() {
    const database = await openDatabase({ directory: data, log });
    const store = createTranscriptStore(database);
    const folders = createTranscriptFolders(join(data, 'workspace'), owner);
    const transcripts = createTranscripts({ store, folders, log, workspace: 'here', retryMs: 100 });
    const make = async (text: string, createdAt: string) => {
      const body = { parts: [{ type: 'text' as const, text }] };
      await store.adopt({ key, createdAt, updatedAt: createdAt, entries: [{ kind: 'user', body }] });
      transcripts.hint(key);
      await transcripts.flush();
    };
    const close = async () => {
      await transcripts[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    };
    const path = folders.pathOf(key);
    return { conversations: createConversations(database), transcripts, make, path, [Symbol.asyncDispose]: close };
  }

  it('keeps the file of what was made again under its name, and sets nothing aside', async () => {
    await using opened = await open();
    const { conversations, transcripts, make, path } = opened;
    await make('one', '2026-01-01T00:00:00Z');
    expect(read(path).items).toEqual([{ user: 'one' }]);
    await conversations.remove(key);
    await make('two', '2026-02-01T00:00:00Z');
    await transcripts.remove(key);
    await transcripts.flush();
    expect(read(path)).toMatchObject({ head: { createdAt: '2026-02-01T00:00:00Z' }, items: [{ user: 'two' }] });
    expect(readdirSync(dirname(path))).toEqual(['chat-again.yaml']);
    await conversations.remove(key);
    await transcripts.remove(key);
    expect(readdirSync(dirname(path))).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('takes a file away as soon as its folder can be read again', async () => {
    await using opened = await open();
    const { conversations, transcripts, make, path } = opened;
    await make('one', '2026-01-01T00:00:00Z');
    const folder = dirname(path);
    renameSync(folder, `${folder}-away`);
    symlinkSync('conversations', folder);
    await conversations.remove(key);
    await transcripts.remove(key);
    expect(warnings).toHaveLength(1);
    rmSync(folder);
    renameSync(`${folder}-away`, folder);
    await until(() => !existsSync(path));
  });

  it('takes the files of those that are gone, also where deleting all stopped halfway', async () => {
    await using opened = await open();
    const { conversations, transcripts, make, path } = opened;
    await make('one', '2026-01-01T00:00:00Z');
    const all = transcripts.removeAll(owner, async () => {
      await conversations.remove(key);
      throw new TypeError('halfway');
    });
    await expect(all).rejects.toThrow('halfway');
    expect(readdirSync(dirname(path))).toEqual([]);
  });
});
