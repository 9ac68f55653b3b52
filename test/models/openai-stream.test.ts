import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/kernel/errors.ts';
import type { ModelFinish, ModelPart } from '../../src/kernel/model.ts';
import { createOpenAIStream } from '../../src/models/openai-stream.ts';
import { callSamples } from './call-streams.ts';
import type { Sample } from './streams.ts';
import { call, calls, delta, plainSamples, reasoning, stop, text, toBody } from './streams.ts';

interface Read {
  parts: ModelPart[];
  finish?: ModelFinish;
  code?: string;
  message?: string;
}

function read(body: string | Buffer, cuts: readonly number[] = []): Read {
  const bytes = Buffer.from(body);
  const parts: ModelPart[] = [];
  const stream = createOpenAIStream({
    provider: 'host',
    secrets: ['s3cret-key-of-the-host'],
    on: (p) => parts.push(p),
  });
  const decoder = new StringDecoder('utf8');
  const places = [0, ...[...cuts].map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  try {
    for (let i = 1; i < places.length; i++) {
      const piece = decoder.write(bytes.subarray(places[i - 1], places[i]));
      if (piece) stream.push(piece);
    }
    return { parts, finish: stream.end() };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { parts, code: error.code, message: error.message };
  }
}

const folder = join(import.meta.dirname, '../../../shared/streams');
const recorded = existsSync(folder)
  ? readdirSync(folder).filter((name) => name.endsWith('.jsonl') && !name.startsWith('anthropic--'))
  : [];
const recordedEvents = (name: string) => readFileSync(join(folder, name), 'utf8').trim().split('\n');

const samples: Sample[] = [...plainSamples, ...callSamples];

describe('a stream as hosts send it', () => {
  it.each(samples)('$name', ({ events, parts, finish }) => {
    const result = read(toBody(events));
    expect(result.parts).toEqual(parts);
    expect(result.finish).toMatchObject(finish);
  });

  it.each(recorded)('recorded: %s is read to its end', (name) => {
    const { parts, finish } = read(toBody(recordedEvents(name)));
    expect(finish?.usage.outputTokens).toBeGreaterThan(0);
    const said = name.includes('tool-call') ? 'tool_call' : 'text';
    expect(parts.some((part) => part.type === said)).toBe(true);
    expect(parts.some((part) => part.type === 'reasoning')).toBe(/reasoning|xai|deepseek-tool/.test(name));
  });
});

describe('framing', () => {
  const events = [delta({ content: 'Hé' }), delta({ content: '你🦞' }), stop];
  const expected = { parts: [text('Hé'), text('你🦞')] };

  it.each([
    ['CRLF', toBody(events, '\r\n\r\n')],
    ['one line end only', toBody(events, '\n')],
    ['CR only', toBody(events, '\r\r')],
    ['no blank after data:', toBody(events).replaceAll('data: ', 'data:')],
    ['a byte order mark', `\uFEFF${toBody(events)}`],
    ['blank lines first', `\n\r\n${toBody(events)}`],
    ['no [DONE]', toBody(events).replace('data: [DONE]\n\n', '')],
    ['no line end at the end', toBody(events).replace('data: [DONE]\n\n', '').trimEnd()],
    ['[DONE] without a line end', toBody(events).trimEnd()],
    ['comments', `: OPENROUTER PROCESSING\n\n${toBody(events).replaceAll('\n\n', '\n\n:ping\n\n: \n\n')}`],
    ['event, id and retry lines', toBody(events).replaceAll('data: ', 'id:1\nevent: message\nretry: 10\ndata: ')],
    ['empty and non-JSON data', `data:\n\ndata: \n\ndata: ping\n\ndata: null\n\n${toBody(events)}`],
    ['text after [DONE]', `${toBody(events)}data: {"error":"late"}\n\n`],
    [
      'data on several lines',
      events.map((event) => `data: ${JSON.stringify(event, null, 1).replaceAll('\n', '\ndata: ')}\n\n`).join(''),
    ],
  ])('takes %s', (_, body) => {
    expect(read(body)).toMatchObject({ ...expected, finish: { reason: 'stop' } });
  });

  it('tells parts from pings', () => {
    const stream = createOpenAIStream({ provider: 'host', on: () => undefined });
    const pieces = [': ping\n\n', 'data: {"choices":[]}\n\n', `data: ${JSON.stringify(delta({ content: '' }))}\n\n`];
    for (const piece of pieces) expect(stream.push(piece)).toBe(false);
    expect(stream.push(`data: ${JSON.stringify(delta({ content: 'a' }))}\n\n`)).toBe(true);
    expect(stream.push(`data: ${JSON.stringify(calls({ index: 0, function: { name: 'x' } }))}\n\n`)).toBe(true);
    expect(stream.isFinished).toBe(false);
    expect(stream.push(`data: ${JSON.stringify(stop)}\n\n`)).toBe(true);
    expect([stream.isFinished, stream.isDone]).toEqual([true, false]);
    stream.push('data: [DONE]\n\n');
    expect(stream.isDone).toBe(true);
  });

  it('takes a body that is one JSON answer instead of a stream', () => {
    const message = { content: 'Hi', reasoning_content: 'Hm', tool_calls: [{ id: 'a', function: { name: 'f' } }] };
    const body = { model: 'm', choices: [{ index: 0, message, finish_reason: 'stop' }], usage: { prompt_tokens: 1 } };
    const { parts, finish } = read(JSON.stringify(body, null, 2));
    expect(parts).toEqual([reasoning('Hm'), text('Hi'), call('a', 'f', '')]);
    expect(finish).toMatchObject({ reason: 'tool_calls', model: 'm', usage: { inputTokens: 1 } });
  });
});

describe('the reason to finish', () => {
  it.each([
    ['stop', 'stop'],
    ['STOP', 'stop'],
    ['end_turn', 'stop'],
    ['eos', 'stop'],
    ['length', 'length'],
    ['model_length', 'length'],
    ['max_tokens', 'length'],
    ['content_filter', 'content_filter'],
    ['sensitive', 'content_filter'],
  ])('%s is %s', (raw, reason) => {
    expect(read(toBody([delta({ content: 'a' }), delta({}, raw)]))).toMatchObject({
      parts: [text('a')],
      finish: { reason },
    });
  });

  it('an unknown one is an error: the answer may not be taken for a whole one', () => {
    const made = calls({ index: 0, id: 'a', function: { name: 'f', arguments: '{}' } });
    const { parts, ...failure } = read(
      toBody([delta({ content: 'a' }), made, delta({}, 'vibes s3cret-key-of-the-host')]),
    );
    expect(parts).toEqual([text('a')]);
    const message = 'host ended the answer for an unknown reason: vibes [masked].';
    expect(failure).toEqual({ code: 'models.error', message });
  });

  it.each(['', 'null'])('"%s" is none yet', (raw) => {
    const stream = createOpenAIStream({ provider: 'host', on: () => undefined });
    stream.push(`data: ${JSON.stringify(delta({ content: 'a' }, raw))}\n\n`);
    expect(stream.isFinished).toBe(false);
    stream.push(toBody([stop, delta({}, raw)]));
    expect(stream.end()).toMatchObject({ reason: 'stop' });
  });

  it.each([
    ['insufficient_system_resource', 'models.overloaded'],
    ['network_error', 'models.unavailable'],
    ['error', 'models.unavailable'],
    ['abort', 'models.stream_cut'],
  ])('%s is an error', (raw, code) => {
    expect(read(toBody([delta({ content: 'a' }), delta({}, raw)]))).toMatchObject({ code });
  });
});

describe('a stream that fails', () => {
  const begin = `data: ${JSON.stringify(delta({ content: 'a' }))}\n\n`;

  it.each([
    ['nothing at all', '', 'models.stream_cut'],
    ['no finish reason', begin, 'models.stream_cut'],
    ['[DONE] without a finish reason', `${begin}data: [DONE]\n\n`, 'models.stream_cut'],
    ['a cut in the middle of a line', `${begin}data: {"choices":[{"del`, 'models.stream_cut'],
    ['broken JSON in the middle', `${begin}data: {"choices":[{"del\n\n${begin}`, 'models.stream_invalid'],
    ['a web page', '<!DOCTYPE html><html>502</html>', 'models.stream_invalid'],
    ['an error event', `${begin}data: {"error":{"message":"Rate limit reached"}}\n\n`, 'models.rate_limited'],
    ['an error by numeric code', 'data: {"error":{"code":503,"message":"no"}}\n\n', 'models.overloaded'],
    ['an error as text', 'data: {"error":"Internal server error"}\n\n', 'models.unavailable'],
    ['an error beside choices', 'data: {"error":{"code":502},"choices":[{"delta":{}}]}\n\n', 'models.unavailable'],
    ['event: error', 'event:error\ndata:{"code":"Throttling","message":"slow down"}\n\n', 'models.rate_limited'],
    ['an error without data:', `${begin}{"error":{"message":"upstream"}}\n`, 'models.unavailable'],
    ['object error', 'data: {"object":"error","message":"x","code":40001}\n\n', 'models.error'],
    ['a JSON error body', '{"error":{"message":"Incorrect API key provided"}}', 'models.auth'],
    ['a JSON error body on lines', '{\n "code": "Arrearage",\n "message": "overdue"\n}', 'models.quota'],
    ['a list with an error', '[{"error":{"code":400,"message":"invalid"}}]', 'models.bad_request'],
    ['a JSON body that is cut', '{"choices":[{"mess', 'models.stream_cut'],
  ])('%s', (_, body, code) => {
    expect(read(body)).toMatchObject({ code });
  });

  const endless = 'x'.repeat(1024 * 1024);
  it.each([
    ['a line', 'data: {"choices":"', endless],
    ['data lines', 'data: {\n', `data: ${endless}\n`],
    ['a JSON body', '{"choices":"', endless],
  ])('%s without an end is not kept for ever', (_, begin, more) => {
    const stream = createOpenAIStream({ provider: 'host', on: () => undefined });
    stream.push(begin);
    const error = expect.objectContaining({ code: 'models.stream_invalid' }) as Error;
    expect(() => {
      for (let i = 0; i < 20; i++) stream.push(more);
    }).toThrow(error);
  });

  it('shows the message of the provider, and no key in it', () => {
    const leak = 'Bad key s3cret-key-of-the-host, s3cret-k******host and sk-abcdef123456 in Bearer abc.def';
    const { message } = read(`data: ${JSON.stringify({ error: { message: leak } })}\n\n`);
    expect(message).toBe('host reported an error: Bad key [masked], [masked] and [masked] in [masked]');
  });
});

describe('chunks cut anywhere', () => {
  it('cost the same for a long line in small pieces', { timeout: 3000 }, () => {
    const content = 'x'.repeat(4_000_000);
    const parts: ModelPart[] = [];
    const stream = createOpenAIStream({ provider: 'host', on: (part) => parts.push(part) });
    const body = toBody([delta({ content }), stop]);
    for (let i = 0; i < body.length; i += 100) stream.push(body.slice(i, i + 100));
    stream.end();
    expect(parts).toEqual([text(content)]);
  });

  const bodies = [
    ...samples.map(({ events }) => toBody(events)),
    ...callSamples.map(({ events }) => `\uFEFF${toBody(events, '\r\n\r\n')}`),
    ...recorded.map((name) => toBody(recordedEvents(name).slice(-60))),
  ].map((body) => ({ body: Buffer.from(body), whole: read(body) }));

  it('give the same parts at random places, also inside a character', () => {
    expect(bodies.length).toBeGreaterThan(25);
    const cuts = fc.array(fc.nat(), { maxLength: 40 });
    fc.assert(
      fc.property(fc.nat(bodies.length - 1), cuts, (which, places) => {
        const { body, whole } = bodies[which]!;
        expect(read(body, places)).toEqual(whole);
      }),
      { numRuns: 600 },
    );
  });

  it('give the same parts byte by byte', () => {
    for (const { body, whole } of bodies.filter(({ body }) => body.length < 4000)) {
      expect(read(body, [...body.keys()])).toEqual(whole);
    }
  });
});
