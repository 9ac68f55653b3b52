import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { converse, createDemux, toExecOptions } from '../../src/sandbox/docker/command.ts';

function toFrame(stream: number, text: string | Buffer): Buffer {
  const body = Buffer.from(text);
  const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(body.length, 4);
  return Buffer.concat([header, body]);
}

test('frames are taken apart wherever they are cut', () => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const frames = [toFrame(1, 'one'), toFrame(2, 'wrong'), toFrame(1, ''), toFrame(1, bytes), toFrame(2, '!')];
  const sent = Buffer.concat(frames);
  for (const size of [1, 3, 7, 8, 9, 64, sent.length]) {
    const seen: Record<string, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
    const demux = createDemux((stream, chunk) => {
      seen[stream] = Buffer.concat([seen[stream]!, chunk]);
    });
    for (let at = 0; at < sent.length; at += size) demux(sent.subarray(at, at + size));
    expect(seen.stdout?.equals(Buffer.concat([Buffer.from('one'), bytes])), `${size}`).toBe(true);
    expect(seen.stderr?.toString()).toBe('wrong!');
  }
});

test('a hundred thousand small frames at once are no trouble', () => {
  let bytes = 0;
  createDemux((_, chunk) => void (bytes += chunk.length))(Buffer.concat(Array<Buffer>(100_000).fill(toFrame(1, 'x'))));
  expect(bytes).toBe(100_000);
});

test('a connection that breaks ends a conversation', async () => {
  const stream = new PassThrough();
  const conversation = converse(stream, { stdin: undefined, push: () => undefined });
  stream.destroy(new RangeError('broken'));
  expect(await conversation).toEqual({ hasNoFolder: false });
});

test('what cannot be run is refused', () => {
  const refused = expect.objectContaining({ code: 'sandbox.invalid_command' });
  expect(() => toExecOptions({ argv: [''] })).toThrow(refused);
  expect(() => toExecOptions({ argv: ['a\0'] })).toThrow(refused);
  expect(() => toExecOptions({ argv: ['a'], env: { 'A B': '' } })).toThrow(refused);
  expect(() => toExecOptions({ argv: ['a'], env: { A: '\0' } })).toThrow(refused);
  for (const cwd of ['..', '/etc', '/workspace/../etc', '/workspaces']) {
    expect(() => toExecOptions({ argv: ['a'], cwd })).toThrow(refused);
  }
  expect(toExecOptions({ argv: ['a', 'b c'], cwd: 'sub' }).Cmd?.slice(-3)).toEqual(['/workspace/sub', 'a', 'b c']);
});
