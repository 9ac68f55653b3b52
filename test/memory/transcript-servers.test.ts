// Readable conversations of a personal server, and of two servers on one database.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createHomard } from '../../src/app.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import { copyTemplate } from '../../src/testing/store.ts';
import { NOBODY, schemaTemplate } from '../server/harness.ts';
import { read, saidIn, until } from './transcript-files.ts';

describe('a personal server', () => {
  it('MEM-01 MEM-08 has conversations/ in its workspace', async () => {
    const data = mkdtempSync(join(tmpdir(), 'homard-data-'));
    try {
      await copyTemplate(join(data, 'db'), schemaTemplate);
      const model = createScriptedModel(() => ({ text: 'here' }));
      const workspace = join(data, 'mine');
      mkdirSync(join(workspace, 'conversations'), { recursive: true });
      writeFileSync(
        join(workspace, 'conversations', 'chat-old.yaml'),
        '---\ncreatedAt: 2026-03-21T10:00:00Z\nupdatedAt: 2026-03-21T10:05:30Z\n---\n- user: |\n    hello\n- assistant: |\n    hi\n',
      );
      const environment = { OLLAMA_HOST: NOBODY };
      await using homard = await createHomard({ config: { data, workspace }, token: 't', model, environment });
      const headers = { authorization: 'Bearer t', 'content-type': 'application/json' };
      const body = (conversationId: string) => JSON.stringify({ conversationId, query: 'go' });
      for (const id of ['old', 'web']) {
        const request = { method: 'POST', headers: { ...headers, host: 'localhost' }, body: body(id) };
        const response = await homard.fetch(new Request('http://localhost/chat', request));
        expect(response.status).toBe(200);
      }
      expect(saidIn(model.requests[0]!)).toEqual(['hello\n', 'hi\n', 'go']);
      const path = join(workspace, 'conversations', 'chat-web.yaml');
      await until(() => existsSync(path) && read(path).items.length === 2);
      await until(() => read(join(workspace, 'conversations', 'chat-old.yaml')).items.length === 4);
      const { head } = read(join(workspace, 'conversations', 'chat-old.yaml'));
      expect(head.createdAt).toBe('2026-03-21T10:00:00Z');
    } finally {
      rmSync(data, { recursive: true, force: true });
    }
  });
});

describe.skipIf(!process.env.HOMARD_TEST_POSTGRES)('two servers with one folder (needs HOMARD_TEST_POSTGRES)', () => {
  it.each([true, false])('write one file, whoever has the run; the folder is shared: %j', async (isShared) => {
    await using postgres = await createTemporaryPostgres();
    const data = mkdtempSync(join(tmpdir(), 'homard-two-'));
    const warnings: string[] = [];
    const logger = { warn: (_: object, m: string) => void warnings.push(m), error: () => undefined };
    const workspaces = ['a', 'b'].map((name) => join(data, isShared ? 'shared' : `own-${name}`));
    const model = createScriptedModel(() => ({ text: 'ok' }));
    const start = (name: string, workspace: string) =>
      createHomard({
        config: { data: join(data, name), workspace },
        database: postgres.url,
        token: 't',
        model,
        logger,
        environment: { OLLAMA_HOST: NOBODY },
      });
    const servers = [await start('a', workspaces[0]!), await start('b', workspaces[1]!)];
    try {
      for (let round = 0; round < 15; round++) {
        const say = (server: (typeof servers)[number], i: number) =>
          server.fetch(
            new Request('http://localhost/chat', {
              method: 'POST',
              headers: { host: 'localhost', authorization: 'Bearer t', 'content-type': 'application/json' },
              body: JSON.stringify({ conversationId: 'both', query: `${round} ${i}` }),
            }),
          );
        await Promise.all([...servers, ...servers].map(async (server, i) => await say(server, i)));
      }
      for (const server of servers) await server.close();
      const [path] = workspaces.map((workspace) => join(workspace, 'conversations', 'chat-both.yaml'));
      const whole = await start('a', workspaces[0]!);
      await until(() => read(path!).items.length === 120);
      await whole.close();
      const said = read(path!).items.filter((item) => 'user' in item);
      expect(new Set(said.map((item) => item.user)).size).toBe(60);
      expect(readdirSync(join(workspaces[0]!, 'conversations'))).toEqual(['chat-both.yaml']);
      expect(warnings).toEqual([]);
    } finally {
      rmSync(data, { recursive: true, force: true });
    }
  });
});
