import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createTemporaryPostgres } from '../../src/testing/postgres.ts';
import type { Told } from './client.ts';
import { talk } from './client.ts';
import type { ServerProcess } from './harness.ts';
import { createServerProcess, effectsOf, sleep } from './harness.ts';
import type { CrashModel } from './model.ts';
import { createCrashModel } from './model.ts';
import { verify } from './verify.ts';

const KILLS = Number(process.env.HOMARD_CRASH_KILLS ?? 60);
const CONVERSATIONS = 6;
const TOKEN = 't';

interface World extends AsyncDisposable {
  model: CrashModel;
  servers: ServerProcess[];
  effects: string;
  get: (path: string) => Promise<{ status: number; body: unknown }>;
}

async function createWorld(processes: number, database?: string): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'homard-crash-'));
  const model = await createCrashModel();
  const effects = join(folder, 'effects.jsonl');
  appendFileSync(effects, '');
  const servers: ServerProcess[] = [];
  for (let i = 0; i < processes; i++) {
    const environment = {
      EFFECTS: effects,
      HOMARD_DATA: join(folder, database ? `data-${i}` : 'data'),
      HOMARD_TOKEN: TOKEN,
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: 'x',
      ...(database && { HOMARD_DATABASE_URL: database }),
    };
    servers.push(await createServerProcess(environment));
  }
  return {
    model,
    servers,
    effects,
    async get(path) {
      const response = await fetch(`${servers[0]!.address}${path}`, { headers: { authorization: `Bearer ${TOKEN}` } });
      return { status: response.status, body: await response.json() };
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) await server.kill();
      await model[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

type Conversations = Map<string, { texts: string[]; told: Told[] }>;

/** People who send two messages at a time, one behind the other, until told to stop. */
async function keepTalking({ servers }: World, until: () => boolean): Promise<Conversations> {
  const conversations: Conversations = new Map();
  const target = { addresses: () => servers.map((server) => server.address), token: TOKEN };
  await Promise.all(
    Array.from({ length: CONVERSATIONS }, async (_, person) => {
      const conversation = `talk ${person} 谈`;
      const own = { texts: [] as string[], told: [] as Told[] };
      conversations.set(conversation, own);
      while (!until()) {
        const first = say(target, conversation, own.texts);
        await first.accepted;
        const second = say(target, conversation, own.texts);
        own.told.push(await first.told, await second.told);
      }
    }),
  );
  return conversations;
}

function say(target: Parameters<typeof talk>[0], conversation: string, texts: string[]) {
  const text = `message ${texts.length + 1}`;
  texts.push(text);
  const { promise: accepted, resolve } = Promise.withResolvers<void>();
  return { accepted, told: talk(target, { conversation, text, accepted: resolve }) };
}

async function killRandomly({ servers }: World, kills: number): Promise<number[]> {
  const starts: number[] = [];
  for (let i = 0; i < kills; i++) {
    await sleep(150 + Math.random() * 900);
    const victim = servers[Math.floor(Math.random() * servers.length)]!;
    await victim.kill();
    await victim.start();
    starts.push(victim.startMs);
  }
  return starts;
}

async function survives(world: World): Promise<void> {
  let isOver = false;
  const talking = keepTalking(world, () => isOver);
  const starts = await killRandomly(world, KILLS);
  isOver = true;
  const conversations = await talking;
  const effects = effectsOf(world.effects);
  const facts = await verify(world.get, { conversations, effects });
  expect(world.model.problems).toEqual([]);
  expect(facts.returns).toBeGreaterThan(KILLS / 2);
  const median = starts.sort((a, b) => a - b)[starts.length >> 1]!;
  console.log(
    `${KILLS} kills: ${facts.runs} runs, all done; ${effects.length} effects, ${facts.unknown} outcomes unknown, ` +
      `${facts.repeatedBeforeResult} read/idempotent calls begun again before a result was recorded, ` +
      `${facts.returns} returns of clients, start p50 ${Math.round(median)} ms`,
  );
}

describe('kill -9', () => {
  it(
    `B1 B2 B11 B16 B20 GOV-82 MEM-07 OBS-07: ${KILLS} kills of the embedded server lose and repeat nothing`,
    { timeout: 600_000 },
    async () => {
      await using world = await createWorld(1);
      await survives(world);
    },
  );

  it(`the same for ${KILLS} kills of two servers on one PostgreSQL`, { timeout: 600_000 }, async () => {
    await using database = await createTemporaryPostgres();
    await using world = await createWorld(2, database.url);
    await survives(world);
  });
});

describe('two servers on one PostgreSQL', () => {
  it("GOV-77 a killed server's run is continued by the other within 8 s", { timeout: 120_000 }, async () => {
    await using database = await createTemporaryPostgres();
    await using world = await createWorld(2, database.url);
    const [first] = world.servers as [ServerProcess, ServerProcess];
    const { promise: accepted, resolve } = Promise.withResolvers<void>();
    const target = { addresses: () => [first.address], token: TOKEN };
    const started = talk(target, { conversation: 'a', text: 'go', accepted: resolve });
    await accepted;
    while (!effectsOf(world.effects).length) await sleep(20);
    const before = effectsOf(world.effects).length;
    await first.kill();
    const killedAt = Date.now();
    while (effectsOf(world.effects).length === before) {
      expect(Date.now() - killedAt).toBeLessThan(8000);
      await sleep(50);
    }
    console.log(`taken over after ${Date.now() - killedAt} ms`);
    await first.start();
    const told = await started;
    const conversations = new Map([['a', { texts: ['go'], told: [told] }]]);
    await verify(world.get, { conversations, effects: effectsOf(world.effects) });
  });

  it('GOV-77 a zombie (SIGSTOP, SIGCONT) changes nothing', { timeout: 120_000 }, async () => {
    await using database = await createTemporaryPostgres();
    await using world = await createWorld(2, database.url);
    const [zombie, other] = world.servers as [ServerProcess, ServerProcess];
    const told = [];
    for (let round = 0; round < 3; round++) {
      const conversation = `zombie ${round}`;
      const talking = talk(
        { addresses: () => [zombie.address], token: TOKEN },
        { conversation, text: 'go', accepted: () => undefined },
      );
      await sleep(200 + 150 * round);
      zombie.signal('SIGSTOP');
      await waitUntilDone(other.address, conversation);
      const before = await recordOf(other.address, conversation);
      zombie.signal('SIGCONT');
      told.push(await talking);
      await sleep(1500);
      expect(await recordOf(other.address, conversation)).toEqual(before);
    }
    expect(told.map((one) => one.terminals)).toEqual([['done'], ['done'], ['done']]);
    const once = effectsOf(world.effects).filter((effect) => effect.tool === 'once' && effect.what === 'begin');
    expect(new Set(once.map((effect) => effect.key)).size).toBe(once.length);
    expect(world.model.problems).toEqual([]);
  });
});

async function recordOf(address: string, conversation: string): Promise<unknown> {
  const path = `/conversations/${encodeURIComponent(conversation)}/messages?limit=1000`;
  const response = await fetch(address + path, { headers: { authorization: `Bearer ${TOKEN}` } });
  return await response.json();
}

async function waitUntilDone(address: string, conversation: string): Promise<void> {
  for (let i = 0; i < 400; i++) {
    const response = await fetch(`${address}/conversations/${encodeURIComponent(conversation)}`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    const { activeRun } = (await response.json()) as { activeRun: string | null };
    if (response.ok && activeRun === null) return;
    await sleep(50);
  }
  throw new Error('the other server did not finish the run in 20 s');
}
