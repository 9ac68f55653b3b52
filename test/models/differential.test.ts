// Our chat-completions parser beside two packages of the AI SDK: every stream, cut in many ways, is read alike, or the
// difference is named.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import { callSamples } from './call-streams.ts';
import { cutEverywhere } from './streams/cuts.ts';
import type { PackageName } from './streams/differences.ts';
import { differences } from './streams/differences.ts';
import { brokenStreams } from './streams/broken.ts';
import type { HostStream } from './streams/hosts.ts';
import { hostStreams } from './streams/hosts.ts';
import { headers, ourReading, parse, theirReading } from './streams/reading.ts';
import { serverStreams } from './streams/servers.ts';
import { plainSamples, toBody } from './streams.ts';

const folder = join(import.meta.dirname, '../../../shared/streams');
const recorded = existsSync(folder)
  ? readdirSync(folder).filter((name) => name.endsWith('.jsonl') && !name.startsWith('anthropic--'))
  : [];

const streams: (Omit<HostStream, 'reads'> & { reads?: string[] })[] = [
  ...hostStreams,
  ...serverStreams,
  ...brokenStreams,
  ...[...plainSamples, ...callSamples].map(({ name, events }) => ({ name, body: toBody(events) })),
  ...recorded.map((name) => ({
    name: name.replace('.jsonl', ''),
    body: toBody(readFileSync(join(folder, name), 'utf8').trim().split('\n')),
  })),
];

/** How a package's reading differs from ours. */
function kindOf(ours: readonly string[], theirs: readonly string[]): string {
  if (JSON.stringify(ours) === JSON.stringify(theirs)) return 'same';
  const [our, their] = [ours.at(-1), theirs.at(-1)];
  if (our === 'error' && their !== 'error') return 'passes';
  if (their === 'error' && our !== 'error') return 'fails';
  return JSON.stringify(ours.slice(0, -1)) === JSON.stringify(theirs.slice(0, -1)) ? 'end' : 'parts';
}

const named = new Map<string, string>();
for (const { theirs, than, streams } of differences) {
  for (const name of than) for (const stream of streams) named.set(`${name}: ${stream}`, theirs);
}

let chunkings = 0;
afterAll(() => {
  console.log(
    `differential: ${streams.length} streams, ${chunkings} chunkings, ${differences.length} named differences`,
  );
});

describe.each(streams)('$name', ({ name, body, reads, code }) => {
  const cuts = cutEverywhere(Buffer.from(body));

  it('is read by us as it is meant, however it is cut', async () => {
    const whole = await parse(body, [Buffer.from(body)]);
    if (reads) expect(whole).toEqual({ lines: reads, ...(code && { code }) });
    for (const chunks of cuts) expect(await parse(body, chunks)).toEqual(whole);
    chunkings += cuts.length;
  });

  it.each<PackageName>(['compatible', 'deepseek'])('is read by %s as by us, or as named', async (other) => {
    const { lines } = await parse(body, [Buffer.from(body)]);
    const expected = named.get(`${other}: ${name}`) ?? 'same';
    // Their parsing is slow: of the long streams two chunkings are enough.
    for (const chunks of body.length > 20_000 ? cuts.slice(0, 2) : cuts) {
      const theirs = await theirReading(other, body, chunks);
      const wanted = expected === 'same' ? lines : theirs;
      expect({ kind: kindOf(lines, theirs), theirs }).toEqual({ kind: expected, theirs: wanted });
    }
  });
});

describe('the table of differences', () => {
  it('names each stream once, and only streams that are there', () => {
    const pairs = differences.flatMap(({ than, streams }) =>
      than.flatMap((name) => streams.map((s) => `${name}: ${s}`)),
    );
    expect(pairs).toHaveLength(new Set(pairs).size);
    const known = new Set(streams.map(({ name }) => name));
    // Recorded streams are not part of the repository.
    const missing = differences.flatMap(({ streams }) => streams).filter((name) => !known.has(name));
    expect(missing.filter((name) => recorded.length > 0 || !name.includes('--'))).toEqual([]);
    expect(known.size).toBe(streams.length);
    expect(hostStreams.length + serverStreams.length + brokenStreams.length).toBeGreaterThanOrEqual(40);
  });
});

describe('over HTTP', () => {
  const server = createServer((request, response) => {
    request.resume();
    const { body } = streams[Number(request.headers['x-stream'])]!;
    response.writeHead(200, headers);
    void (async () => {
      for (const chunk of cutEverywhere(Buffer.from(body)).at(-1)!) {
        response.write(chunk);
        await setImmediate();
      }
      response.end();
    })();
  });
  let baseUrl = '';
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  });
  afterAll(() => {
    server.closeAllConnections();
    return server[Symbol.asyncDispose]();
  });

  it('every stream is read the same', async () => {
    for (const [index, { name, body }] of streams.entries()) {
      const config = { name: 'm', model: 'm', provider: 'host', baseUrl, headers: { 'x-stream': `${index}` } };
      const model = createOpenAIWireModel(config);
      const request = { system: '', messages: [], tools: [] };
      const reading = await ourReading(body, (on) => model.call(request, new AbortController().signal, on));
      expect({ name, ...reading }).toEqual({ name, ...(await parse(body, [Buffer.from(body)])) });
    }
  });
});
