// What can still be done where the disk is full: ending work, starting, reading; and a backup that does not fill it.
import { globSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createHomard } from '../../src/app.ts';
import { askForWrites, defineTool } from '../../src/kernel/index.ts';
import type { Model } from '../../src/kernel/index.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import { readArchive } from '../../src/store/archive-reader.ts';
import { packArchive } from '../../src/store/backup-file.ts';
import { createHealth } from '../../src/store/health.ts';
import { migrate } from '../../src/store/migrations/index.ts';
import { openPglite } from '../../src/store/pglite/open.ts';
import { copyTemplate, preparePgliteTemplate } from '../../src/testing/store.ts';
import { fill } from '../store/content.ts';
import { NOBODY, createTestServer, schemaTemplate } from './harness.ts';
import type { SmallDisk } from './small-disk.ts';
import { canMount, createSmallDisk } from './small-disk.ts';

// Ten seconds, until readable files are tried again.
const isFast = !process.env.HOMARD_TEST_POSTGRES;

const quiet = { warn: () => undefined, error: () => undefined };

describe.skipIf(!canMount)(`a full disk${canMount ? '' : ' (skipped: this user cannot mount a small one)'}`, () => {
  let disk: SmallDisk;
  let before: string | undefined;
  beforeAll(async () => {
    await preparePgliteTemplate(schemaTemplate);
    disk = createSmallDisk(200);
    before = process.env.TMPDIR;
    process.env.TMPDIR = disk.path; // where the servers of this suite live
  });
  beforeEach(() => disk.makeSpace());
  afterAll(() => {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    disk[Symbol.dispose]();
  });

  it('B6 lets people stop a run and deny a call, but begins nothing', async () => {
    const stopped = Promise.withResolvers<void>();
    const asking = createScriptedModel((request) =>
      JSON.stringify(request).includes('write it') ? { calls: [{ name: 'write', args: {} }] } : 'done',
    );
    const model: Model = {
      name: 'two',
      async call(request, signal, on) {
        if (!JSON.stringify(request).includes('never ends')) return await asking.call(request, signal, on);
        await new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            stopped.resolve();
            reject(signal.reason as Error);
          });
        });
        return { reason: 'stop', usage: { inputTokens: 1, outputTokens: 1, reasoningTokens: 0, cachedTokens: 0 } };
      },
    };
    const write = defineTool({
      name: 'write',
      description: 'Writes.',
      parameters: z.object({}),
      effect: 'once',
      run: () => 'written',
    });
    await using server = await createTestServer('embedded', {
      model,
      logger: quiet,
      policy: askForWrites,
      tools: [write],
    });
    await server.send('long', 'it never ends');
    await Promise.all(['first', 'second'].map((id) => server.send(id, 'write it')));
    const runOf = async (id: string) =>
      (await server.call('GET', `/conversations/${id}`)).body.activeRun as unknown as string;
    const ids = await Promise.all(['first', 'second'].map(runOf));
    const approvalOf = async (run: string) =>
      ((await server.call('GET', `/runs/${run}`)).body.approvals as unknown as { id: string }[])[0]?.id;
    for (const id of ids) await expect.poll(() => approvalOf(id), { timeout: 10_000 }).toBeDefined();
    const approvals = await Promise.all(ids.map(approvalOf));
    const long = await runOf('long');
    disk.fillUp(20_000_000);
    const health = async () => (await server.call('GET', '/health')).body.status;
    await expect.poll(health, { timeout: 10_000 }).toBe('degraded');
    const answer = (id: string | undefined, decision: string) =>
      server.call('POST', `/approvals/${id}`, { body: { decision } });
    expect(await answer(approvals[0], 'allow')).toMatchObject({
      status: 503,
      body: { error: { code: 'store.read_only' } },
    });
    expect((await answer(approvals[1], 'deny')).status).toBe(200);
    expect((await server.call('DELETE', `/runs/${long}`)).status).toBe(200);
    await stopped.promise;
    await expect.poll(async () => (await server.call('GET', `/runs/${long}`)).body.status).toBe('cancelled');
    expect((await server.call('DELETE', '/conversations/long')).status).toBe(503);
  });

  it.skipIf(isFast)(
    'B6 at the start: the owner is let in, and readable conversations are written when there is space',
    async () => {
      const data = join(disk.path, 'owned');
      await copyTemplate(join(data, 'db'), schemaTemplate);
      const start = () =>
        createHomard({
          config: { data },
          logger: quiet,
          model: createScriptedModel(() => 'fine'),
          environment: { OLLAMA_HOST: NOBODY },
          token: 't',
        });
      const headers = { authorization: 'Bearer t', 'content-type': 'application/json', host: 'localhost' };
      const ask = async ({ fetch }: Awaited<ReturnType<typeof start>>, path: string, body?: unknown) =>
        await fetch(
          new Request(`http://localhost${path}`, {
            headers,
            method: body === undefined ? 'GET' : 'POST',
            ...(body !== undefined && { body: JSON.stringify(body) }),
          }),
        );
      const files = () => globSync('workspace/conversations/*.yaml', { cwd: data });
      {
        await using homard = await start();
        expect((await ask(homard, '/chat', { conversationId: 'early', query: 'hello' })).status).toBe(200);
        await expect.poll(files, { timeout: 5000 }).toHaveLength(1);
      }
      await rename(join(data, files()[0]!), join(data, 'moved.md'));
      disk.fillUp(100_000);
      await using homard = await start();
      const health = async () => (await (await ask(homard, '/health')).json()) as Record<string, unknown>;
      expect(await health()).toMatchObject({ status: 'degraded', problem: { code: 'store.disk_full' } });
      expect((await ask(homard, '/conversations/early/messages')).status).toBe(200);
      const refused = await ask(homard, '/backup', {});
      expect(refused.status).toBe(503);
      expect(await refused.json()).toMatchObject({
        error: { code: 'store.disk_full', hint: expect.stringContaining('homard backup /another/disk') },
      });
      expect(files()).toEqual([]);
      disk.makeSpace();
      await expect.poll(async () => (await health()).status, { timeout: 10_000 }).toBe('ok');
      await expect.poll(files, { timeout: 15_000 }).toHaveLength(1);
      expect((await ask(homard, '/chat', { conversationId: 'later', query: 'hello' })).status).toBe(200);
      await expect.poll(files, { timeout: 5000 }).toHaveLength(2);
    },
  );

  it('B6 is not what a backup makes: it is refused with figures before it is begun, and goes elsewhere', async () => {
    const directory = join(disk.path, 'backed');
    await copyTemplate(join(directory, 'db'), schemaTemplate);
    await using database = await openPglite(join(directory, 'db'));
    await migrate(database.kysely);
    await fill(database, { conversations: 5, entries: 5 });
    using health = createHealth({ database, directory, log: quiet, lookMs: 20 });
    disk.fillUp(36_000_000);
    const config = { directory, version: '1' };
    const refusal: unknown = await packArchive(database, { ...config, isKept: true }).catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: 'store.disk_full',
      message: expect.stringMatching(/needs \d+ MB .*and 3\d MB are free/),
      data: { neededBytes: expect.any(Number), freeBytes: expect.any(Number) },
    });
    // The rest of the server has what it needs.
    expect(health.observe(refusal)).toBe(refusal);
    expect(health.problem()).toBeUndefined();
    disk.fillUp(8_000_000);
    await expect(packArchive(database, config)).rejects.toMatchObject({ code: 'store.disk_full' });
    const alone = await packArchive(database, { ...config, isAlone: true });
    expect((await readArchive('It', alone)).total.tables.journal?.rows).toBe(25);
    disk.makeSpace();
    const kept = await packArchive(database, { ...config, isKept: true });
    expect((await readArchive('It', kept)).total.tables.journal?.rows).toBe(25);
  });
});
