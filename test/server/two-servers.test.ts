import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Homard } from '../../src/app.ts';
import { createHomard } from '../../src/app.ts';
import type { Model } from '../../src/kernel/index.ts';
import { noUsage } from '../../src/kernel/index.ts';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';

describe.skipIf(!process.env.HOMARD_TEST_POSTGRES)('two servers on one PostgreSQL (needs HOMARD_TEST_POSTGRES)', () => {
  it('GOV-76 of two messages at the same instant one runs; the other is refused or waits, before any model call', async () => {
    await using postgres = await createTemporaryPostgres();
    const folder = mkdtempSync(join(tmpdir(), 'homard-two-'));
    let calls = 0;
    let isSpeaking = false;
    const overlaps: string[] = [];
    const model: Model = {
      name: 'careful',
      async call(_, __, on) {
        if (isSpeaking) overlaps.push('two at once');
        isSpeaking = true;
        calls++;
        await sleep(20);
        on({ type: 'text', text: 'ok' });
        isSpeaking = false;
        return { reason: 'stop', usage: noUsage };
      },
    };
    const start = (name: string) =>
      createHomard({
        config: { data: join(folder, name) },
        database: postgres.url,
        token: 't',
        model,
        environment: {},
      });
    const servers: Homard[] = [await start('a'), await start('b')];
    const say = async (server: Homard, body: object): Promise<Response> =>
      await server.fetch(
        new Request('http://localhost/chat', {
          method: 'POST',
          headers: { host: 'localhost', authorization: 'Bearer t', 'content-type': 'application/json' },
          body: JSON.stringify({ query: 'x', ...body }),
        }),
      );
    try {
      for (let round = 0; round < 8; round++) {
        const before = calls;
        const created = { conversationId: `new ${round}`, expectedVersion: 0 };
        const answers = await Promise.all(servers.map((server) => say(server, created)));
        expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
        expect(calls).toBe(before + 1);
        const queued = await Promise.all(servers.map((server) => say(server, { conversationId: `both ${round}` })));
        expect(queued.map(({ status }) => status)).toEqual([200, 200]);
        expect(calls).toBe(before + 3);
      }
      expect(overlaps).toEqual([]);
    } finally {
      for (const server of servers) await server.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
