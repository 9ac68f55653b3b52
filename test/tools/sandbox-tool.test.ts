import * as z from 'zod';
import { expect, test } from 'vitest';
import { sandboxError } from '../../src/sandbox/errors.ts';
import type { Sandboxes } from '../../src/sandbox/sandboxes.ts';
import { defineSandboxTool } from '../../src/tools/sandbox-tool.ts';

const where = { tenant: 't', owner: 'o', conversation: 'c', run: 'r', key: 'r:1', call: 'call_1' };

const backend = {
  kind: 'local' as const,
  description: '',
  advice: '',
  capabilities: {
    isolation: 'none' as const,
    hasPrograms: true,
    hasNetwork: true,
    keepsBackground: true,
    killsAll: false,
    memoryLimit: 'none' as const,
    diskLimit: 'none' as const,
    hasProcessLimit: false,
  },
};

function call(of: Sandboxes['of']): { result: Promise<unknown>; shown: string[]; signal: AbortSignal } {
  const tool = defineSandboxTool(
    { of, backend },
    { name: 'x', description: '', parameters: z.object({}), effect: 'read', run: async () => 'done' },
  );
  const shown: string[] = [];
  const { signal } = new AbortController();
  const context = { ...where, signal, scrub: String, output: (text: string) => void shown.push(text) };
  return { result: tool.run({} as never, context) as Promise<unknown>, shown, signal };
}

test('SBX-23: who watches sees that a call waits for a sandbox, and the model what to do where it gets none', async () => {
  const { result, shown } = call(async (_, { onWait }) => {
    onWait?.(3);
    throw sandboxError('too_many', 'No sandbox was free for 60 s');
  });
  await expect(result).rejects.toThrow(
    'No sandbox was free for 60 s. Try again when other runs have ended, or raise sandbox.perUser and sandbox.total.',
  );
  expect(shown).toEqual(['Waiting for a free sandbox (3 before this one)\n']);
});

test('SBX-12: the sandbox is that of the run, and the call stops waiting with its signal', async () => {
  const asked: unknown[] = [];
  const { result, signal } = call(async (key, options) => {
    asked.push(key, options.signal);
    throw new Error('enough');
  });
  await expect(result).rejects.toThrow('enough');
  expect(asked).toEqual([{ tenant: 't', owner: 'o', conversation: 'c', run: 'r' }, signal]);
});
