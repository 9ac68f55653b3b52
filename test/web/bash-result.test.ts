import { expect, it } from 'vitest';
import { createBashTool } from '../../src/tools/bash.ts';
import { parseBashResult } from '../../web/src/chat/bash-result.ts';

type Cases = [what: string, result: string, parts: ReturnType<typeof parseBashResult>][];

it.each<Cases[number]>([
  ['only output', 'a\nb', { stdout: 'a\nb', stderr: '' }],
  ['nothing', '(no output)', { stdout: '(no output)', stderr: '' }],
  ['only errors', '[stderr]\noops', { stdout: '', stderr: 'oops' }],
  [
    'all of it',
    'a\n[stderr]\noops\n[truncated: the output has 90,000 bytes; all of it is in .outputs/call_0.txt]\n[exit code 3]',
    {
      stdout: 'a',
      stderr: 'oops',
      cut: 'the output has 90,000 bytes; all of it is in .outputs/call_0.txt',
      ending: { kind: 'code', code: 3 },
    },
  ],
  ['only an exit code', '[exit code 1]', { stdout: '', stderr: '', ending: { kind: 'code', code: 1 } }],
  [
    'a lost sandbox',
    'a\n[The sandbox went away while it ran: look.]',
    { stdout: 'a', stderr: '', ending: { kind: 'early', text: 'The sandbox went away while it ran: look.' } },
  ],
  ['what only looks like a marker', '[exit code 3]\nand more', { stdout: '[exit code 3]\nand more', stderr: '' }],
])('takes apart %s', (_what, result, parts) => {
  expect(parseBashResult(result)).toEqual(parts);
});

const bytes = (text: string) => ({ head: Buffer.from(text), tail: Buffer.alloc(0), omittedBytes: 0 });

it.each([
  ['exit', 3, { kind: 'code', code: 3 }],
  ['timeout', null, { kind: 'timeout', text: expect.stringContaining('ran longer than 5 s') as string }],
  ['memory_limit', null, { kind: 'early', text: expect.stringContaining('memory') as string }],
  ['lost', null, { kind: 'early', text: expect.stringContaining('went away') as string }],
] as const)('understands what the tool itself tells of the end "%s"', async (reason, exitCode, ending) => {
  const result = { reason, exitCode, stdout: bytes('out\n'), stderr: bytes('err\n'), ms: 5 };
  const sandbox = { exec: () => Promise.resolve(result) };
  const source = { backend: { advice: '', capabilities: { isolation: 'vm' } }, of: () => Promise.resolve(sandbox) };
  const tool = createBashTool(source as never);
  const context = { signal: new AbortController().signal, output: () => undefined, scrub: String };
  const told = await tool.run({ command: 'x', timeoutSeconds: 5 } as never, context as never);
  expect(parseBashResult(String(told))).toEqual({ stdout: 'out', stderr: 'err', ending });
});
