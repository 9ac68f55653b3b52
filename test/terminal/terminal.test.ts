import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Client } from '../../src/terminal/client.ts';
import type { Frame } from '../../src/terminal/frames.ts';
import { framesOf } from '../../src/terminal/frames.ts';
import { createInput } from '../../src/terminal/input.ts';
import { createScreen } from '../../src/terminal/screen.ts';
import { createSession } from '../../src/terminal/session.ts';
import { fit, toDuration, toPrintable } from '../../src/terminal/style.ts';
import { createTimeline } from '../../src/terminal/timeline.ts';
import { toFrame } from '../../src/server/sse.ts';

function createTerminal(environment: Record<string, string> = {}, columns = 60) {
  let written = '';
  const stream = { isTTY: true, columns, write: (text: string) => (written += text) };
  const screen = createScreen({ stdout: stream, stderr: stream, environment });
  return { screen, written: () => written };
}

/** What is on the screen: a carriage return with "erase line" takes back what stands on it. */
const seen = (text: string) => stripVTControlCharacters(text.replace(/[^\n]*\r\x1b\[K/g, ''));

const usage = { inputTokens: 1234, outputTokens: 56, reasoningTokens: 0, cachedTokens: 1000 };

describe('a timeline at a terminal', () => {
  it('folds reasoning, shows what runs, and leaves rows behind', () => {
    let clock = 0;
    const { screen, written } = createTerminal();
    const timeline = createTimeline(screen, () => clock);
    timeline.show({ type: 'run_start', run: 'r', conversation: 'web', agent: 'assistant', model: 'm', at: '' });
    timeline.show({ type: 'reasoning', text: 'First I look,\nthen ' });
    timeline.show({ type: 'reasoning', text: 'I answer.' });
    clock = 2300;
    timeline.show({
      type: 'tool_call',
      calls: [
        { id: 'a', name: 'look', title: 'Look', args: { where: '北京' } },
        { id: 'b', name: 'wait', title: 'Wait', args: {} },
      ],
    });
    timeline.show({ type: 'tool_output', id: 'a', text: 'line 1\nline 2\n' });
    expect(written()).toContain('… Look, Wait 0 s | line 2');
    timeline.show({
      type: 'tool_result',
      results: [{ id: 'a', name: 'look', result: 'found', isError: false, ms: 61_000 }],
    });
    timeline.show({
      type: 'tool_result',
      results: [{ id: 'b', name: 'wait', result: 'no\nluck', isError: true, ms: 3 }],
    });
    timeline.show({ type: 'token', text: 'Here' });
    timeline.show({ type: 'token', text: ' it is.' });
    timeline.show({ type: 'usage', usage, model: 'm-2' });
    timeline.show({ type: 'run_end', reason: 'length', usage, ms: 4200 });
    expect(seen(written()).split('\n')).toEqual([
      '· First I look, (2.3 s)',
      '✓ Look {"where":"北京"}  1 min 1 s',
      '  | line 1',
      '  | line 2',
      '  found',
      '✗ Wait  3 ms',
      '  no luck',
      'Here it is.',
      'The answer was cut: it reached the longest length that the model gives.',
      'm-2: 1,234 (1,000 cached) in, 56 out, 4.2 s',
      '',
    ]);
    expect(written()).toContain('\x1b[32m✓');
  });

  it('NO_COLOR leaves no colour, and no line is wider than the terminal', () => {
    const { screen, written } = createTerminal({ NO_COLOR: '1' }, 40);
    const timeline = createTimeline(screen);
    timeline.show({ type: 'reasoning', text: '很长的想法'.repeat(30) });
    timeline.show({
      type: 'tool_call',
      calls: [{ id: 'a', name: 'x', title: 'X', args: { text: 'long '.repeat(99) } }],
    });
    timeline.show({
      type: 'tool_result',
      results: [{ id: 'a', name: 'x', result: '结果'.repeat(99), isError: false, ms: 1 }],
    });
    timeline.show({ type: 'warning', code: 'model.fallback', message: 'Another host.' });
    expect(written()).not.toMatch(/\x1b\[\d+m/);
    for (const line of seen(written()).split('\n')) {
      const columns = Array.from(line).reduce((sum, letter) => sum + (/\p{Script=Han}/u.test(letter) ? 2 : 1), 0);
      expect(columns).toBeLessThanOrEqual(40);
    }
  });
});

describe('text from outside', () => {
  it('never moves the cursor, colours the screen or turns letters around', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(toPrintable(text)).not.toMatch(/[^\P{Cc}\n\t]/u);
        expect(toPrintable(text)).not.toMatch(/[\u2028-\u202e\u2066-\u2069]/);
      }),
    );
    expect(toPrintable('a\x1b[2Jb\r\nc\td\x9b1me\u202ef')).toBe('a[2Jb\nc\td1mef');
  });

  it('is cut at whole letters', () => {
    expect(fit('short', 5)).toBe('short');
    expect(fit('longer', 5)).toBe('long…');
    expect(fit('你好世界', 6)).toBe('你好…');
    expect(fit('👩‍👩‍👧‍👧 family', 3)).toBe('👩‍👩‍👧‍👧…');
  });

  it.each([
    [0.4, '0 ms'],
    [999.7, '1.0 s'],
    [59_970, '1 min 0 s'],
    [1000, '1.0 s'],
    [61_000, '1 min 1 s'],
    [119_900, '2 min 0 s'],
  ])('%d milliseconds are %s', (ms, text) => expect(toDuration(ms)).toBe(text));
});

it('frames are the same however the bytes are cut', async () => {
  const data = { text: 'Ä 你 🙂 "quoted"\n\nid: fake' };
  const bytes = new TextEncoder().encode(
    `: still working\n\n${toFrame('token', JSON.stringify(data), 'r:1:1:5')}${toFrame('usage', '{}')}`,
  );
  for (let size = 1; size <= bytes.length; size += 3) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const frames: Frame[] = [];
    for await (const frame of framesOf(body)) frames.push(frame);
    expect(frames).toEqual([
      { event: 'token', id: 'r:1:1:5', data },
      { event: 'usage', id: undefined, data: {} },
    ]);
  }
});

it('a second Ctrl-C leaves a run that does not stop', async () => {
  const { screen, written } = createTerminal();
  const cancelled: string[] = [];
  const client: Client = {
    async *talk(_message, signal) {
      yield { type: 'run_start', run: 'r', conversation: 'web', agent: 'assistant', model: 'm', at: '' };
      await once(signal, 'abort');
      signal.throwIfAborted();
    },
    cancel: async (run) => void cancelled.push(run),
    decide: async () => undefined,
    call: async () => undefined,
  };
  const input = createInput(new PassThrough(), new PassThrough());
  const session = createSession({ client, screen, timeline: createTimeline(screen), input });
  expect(session.interrupt()).toBe(false);
  const saying = session.say({ conversation: 'web', query: 'go' });
  await expect.poll(() => written()).toContain('… m');
  expect(session.interrupt()).toBe(true);
  expect(cancelled).toEqual(['r']);
  session.interrupt();
  expect(await saying).toBe('left');
  expect(session.interrupt()).toBe(false);
});

describe('input', () => {
  function createKeyboard() {
    const keys = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => undefined });
    const output = new PassThrough();
    let shown = '';
    output.on('data', (chunk) => (shown += String(chunk)));
    return { keys, input: createInput(keys, output), shown: () => shown };
  }

  it('takes lines, keeps what was typed before for the arrow key, and ends with Ctrl-C and Ctrl-D', async () => {
    const { keys, input } = createKeyboard();
    const asking = input.ask('> ');
    keys.write('first\r');
    expect(await asking).toBe('first');
    const again = input.ask('> ');
    keys.write('\x1b[A!\r');
    expect(await again).toBe('first!');
    const edited = input.ask('args: ', { initial: '{"a":1}' });
    keys.write('\x7f2}\r');
    expect(await edited).toBe('{"a":12}');
    for (const key of ['\x03', '\x04']) {
      const ending = input.ask('> ');
      keys.write(key);
      expect(await ending).toBeNull();
    }
  });

  it('what is hidden is neither shown nor remembered', async () => {
    const { keys, input, shown } = createKeyboard();
    const asking = input.ask('Key: ', { isHidden: true });
    keys.write('sk-secret\r');
    expect(await asking).toBe('sk-secret');
    const next = input.ask('> ');
    keys.write('\x1b[A\r');
    expect(await next).toBe('');
    expect(shown()).toContain('Key: ');
    expect(shown()).not.toContain('secret');
  });

  it('a question that is taken back leaves the next line to the next question', async () => {
    for (const { keys, input } of [createKeyboard(), { keys: new PassThrough(), input: undefined }]) {
      const lines = input ?? createInput(keys, new PassThrough());
      const away = new AbortController();
      const asking = lines.ask('? ', { signal: away.signal });
      away.abort();
      await expect(asking).rejects.toThrow(/abort/i);
      const next = lines.ask('? ');
      keys.write('here\r\n');
      expect(await next).toBe('here');
      lines.close();
    }
  });
});
