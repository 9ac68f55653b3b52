import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLiveOutput } from '../../src/tools/bash-live.ts';
import { MOST_CHARS, shareOut, shorten, toShown } from '../../src/tools/bash-result.ts';
import { advice, createRig } from './hands.ts';

describe('what the model is told', () => {
  test('output alone where all is well, stderr apart, and an exit code that is not 0', async () => {
    await using rig = await createRig();
    expect(await rig.call('Bash', { command: 'echo one; echo two' })).toBe('one\ntwo');
    expect(await rig.call('Bash', { command: 'true' })).toBe('(no output)');
    expect(await rig.call('Bash', { command: 'echo out; echo bad >&2; exit 3' })).toBe(
      'out\n[stderr]\nbad\n[exit code 3]',
    );
    expect(await rig.call('Bash', { command: 'mkdir -p a; echo x > a/f' })).toBe('(no output)');
    expect(await rig.call('Bash', { command: 'cat f', cwd: 'a' })).toBe('x');
  });

  test('SBX-04: long output keeps head, tail, stderr and exit code, says that it is truncated, and all of it can be read', async () => {
    await using rig = await createRig();
    const command =
      'echo FIRST; seq 1 40000; echo LAST; echo first-error >&2; seq 1 9000 >&2; echo last-error >&2; exit 7';
    const result = await rig.call('Bash', { command });
    expect(result.length).toBeLessThan(MOST_CHARS + 500);
    expect(result.length).toBeGreaterThan(MOST_CHARS - 500);
    expect(result).toMatch(/^FIRST\n1\n2\n/);
    expect(result).toMatch(/\n40000\nLAST\n\[stderr\]\nfirst-error\n1\n/);
    expect(result).toMatch(
      /\n9000\nlast-error\n\[truncated: the output has [\d,]+ bytes; all of it is in \.outputs\/call_0\.txt\]\n\[exit code 7\]$/,
    );
    const kept = await readFile(join(rig.root, '.outputs/call_0.txt'), 'utf8');
    expect(kept).toContain('\n20000\n20001\n');
    expect(kept).toContain('LAST\n\n[stderr]\nfirst-error\n');
    expect(await rig.call('Grep', { pattern: '^23456$', path: '.outputs/call_0.txt', output: 'content' })).toMatch(
      /:23457:23456/,
    );
    expect(await rig.call('Read', { path: '.outputs/call_0.txt', offset: 30000, limit: 1 })).toMatch(/^30000\t29999\n/);
  });

  test('SBX-04: the kept output of another call with the same id stays', async () => {
    await using rig = await createRig();
    const command = 'seq 1 20000';
    await rig.call('Bash', { command }, { call: 'same', run: 'first' });
    expect(await rig.call('Bash', { command }, { call: 'same', run: 'second' })).toContain('.outputs/same-second.txt');
  });

  test('SBX-04: output that cannot be kept is told', async () => {
    await using rig = await createRig({ fileBytes: 10_000 });
    expect(await rig.call('Bash', { command: 'seq 1 20000' })).toMatch(
      /could not be kept in a file: .*more than 10000/,
    );
  });

  test.concurrent('SBX-05: at the time limit, what was written so far and what to do', async () => {
    await using rig = await createRig();
    const result = await rig.call('Bash', { command: 'echo begun; sleep 30', timeoutSeconds: 1 });
    expect(result).toMatch(/^begun\n\[It ran longer than 1 s and was ended\. Give timeoutSeconds up to 600/);
    await expect(rig.call('Bash', { command: 'true', timeoutSeconds: 601 })).rejects.toThrow('timeoutSeconds');
    await expect(rig.call('Bash', { command: 'true', timeout: 5000 })).rejects.toThrow('"timeout"');
    expect(rig.tools[0]!.timeoutMs).toBeGreaterThan(600_000);
  });

  test('too much output is told with its ends', async () => {
    await using rig = await createRig({ outputBytes: 400_000 });
    const result = await rig.call('Bash', { command: 'echo FIRST; yes' });
    expect(result).toMatch(/^FIRST\ny\n/);
    expect(result).toMatch(/\[truncated: .*\]\n\[It was ended because it wrote too much output/);
  });

  test('colours, progress bars and bytes that are no text are not shown to it', async () => {
    await using rig = await createRig();
    const command = String.raw`printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\r\n\033]0;title\007end\a\n'`;
    expect(await rig.call('Bash', { command })).toBe('red\n100%\nend');
    expect(await rig.call('Bash', { command: String.raw`printf '\x89PNG\r\n\x1a\n\0\0\0'` })).toBe(
      '[binary output (image/png, 11 bytes) is not shown: write it to a file]',
    );
    expect(await rig.call('Bash', { command: String.raw`printf '\xc4\xe3\xba\xc3'` })).toBe('你好');
  });

  test('a line that is written over and over is read in time in proportion to it', async () => {
    await using rig = await createRig();
    const began = process.cpuUsage();
    expect(await rig.call('Bash', { command: String.raw`head -c 60000 /dev/zero | tr '\0' '\r'; echo x` })).toBe('x');
    expect(process.cpuUsage(began).user).toBeLessThan(500_000);
  });

  test('SBX-02: only the description of Bash tells of the back end', async () => {
    await using rig = await createRig();
    const [bash, ...others] = rig.tools;
    expect(rig.tools.map(({ name }) => name)).toEqual(['Bash', 'Read', 'Write', 'Edit', 'Grep', 'Glob', 'List']);
    expect(bash!.description.endsWith(` ${advice}`)).toBe(true);
    for (const { description } of others) expect(description).not.toContain(advice);
  });
});

describe('what people see while it runs', () => {
  test.concurrent('SBX-16: what a command writes is there within 300 ms, while it runs', async () => {
    await using rig = await createRig();
    const result = await rig.call('Bash', {
      command: 'echo $EPOCHREALTIME; sleep 0.5; echo $EPOCHREALTIME; sleep 0.5',
    });
    const [first, second] = rig.shown;
    expect(`${first!.text}${second!.text}`.trim()).toBe(result);
    const delays = rig.shown.map(({ text, at }) => at - 1000 * Number(text.replace(',', '.')));
    // The least: other tests keep the processors busy meanwhile.
    expect(Math.min(...delays)).toBeLessThan(300);
    expect(second!.at - first!.at).toBeGreaterThan(200);
  });

  test.concurrent('SBX-18: 中文 split over pieces is whole, also where the other stream comes between', async () => {
    const seen: string[] = [];
    const live = createLiveOutput((text) => seen.push(text));
    for (const byte of Buffer.from('中文')) {
      live.push('stdout', Uint8Array.of(byte));
      live.push('stderr', Buffer.from('.'));
    }
    live.end();
    expect(seen.join('')).toBe('..中...文.');
    await using rig = await createRig();
    const command = String.raw`printf '\xe4\xb8'; sleep 0.1; printf '\xad\xe6\x96'; sleep 0.1; printf '\x87\n'`;
    expect(await rig.call('Bash', { command })).toBe('中文');
    expect(rig.shown.map(({ text }) => text).join('')).toBe('中文\n');
  });

  test('many pieces are gathered, endless output is not all shown, and colours are taken out wherever they are split', async () => {
    const seen: string[] = [];
    const live = createLiveOutput((text) => seen.push(text));
    for (const part of ['a', '\x1b', '[3', '1m', 'b', '\x1b[0']) live.push('stdout', Buffer.from(part));
    live.push('stdout', Buffer.from('mc'));
    live.end();
    expect(seen).toEqual(['abc']);
    await using rig = await createRig();
    await rig.call('Bash', { command: 'seq 1 100000' });
    const text = rig.shown.map((piece) => piece.text).join('');
    expect(text.length).toBeLessThan(101_000);
    expect(text).toMatch(/\[There is more\. The result will tell\.\]\n$/);
    expect(rig.shown.length).toBeLessThan(40);
  });
});

describe('SBX-04: the cut', () => {
  const whole = (text: string) => ({ head: text, tail: '', isCut: false });

  test('has at most as many characters as it may, and is head and tail of the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), fc.integer({ min: 40, max: 300 }), (text, limit) => {
        const cut = shorten(whole(text), limit);
        if (text.length <= limit) return cut === text;
        const [head = '', tail = ''] = cut.split('\n[... left out ...]\n');
        const isFair = Math.abs(head.length - tail.length) <= 3 && cut.length > limit - 4;
        return cut.length <= limit && isFair && text.startsWith(head) && text.endsWith(tail) && cut.isWellFormed();
      }),
    );
  });

  test('leaves each stream what the other does not need', () => {
    const sizes = (out: number, err: number) => {
      const { stdout, stderr } = shareOut(whole('o'.repeat(out)), whole('e'.repeat(err)));
      return [stdout.length, stderr.length];
    };
    expect(sizes(10, 20)).toEqual([10, 20]);
    expect(sizes(90_000, 100)).toEqual([29_900, 100]);
    expect(sizes(100, 90_000)).toEqual([100, 29_900]);
    expect(sizes(90_000, 90_000)).toEqual([15_000, 15_000]);
  });

  test('never splits a character, wherever the bytes were cut', () => {
    const text = '中文字符🙂'.repeat(60_000);
    for (const shift of [0, 1, 2, 3]) {
      const bytes = Buffer.from('x'.repeat(shift) + text);
      const head = bytes.subarray(0, 500_001);
      const tail = bytes.subarray(-500_001);
      const shown = toShown({ head, tail, omittedBytes: bytes.length - 1_000_002 }, String);
      expect(shown.head + shown.tail).not.toMatch(/\ufffd/);
      expect(shown.isCut).toBe(true);
      expect(text.endsWith(shown.tail)).toBe(true);
    }
  });
});
