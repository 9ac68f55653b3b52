import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createSeal } from '../../src/access/seal.ts';

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'homard-seal-'));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

test('what is sealed is not to be read, and another server of the same directory opens it', async () => {
  const directory = await folder();
  const seal = await createSeal(directory);
  const sealed = seal.close('geheim 密码');
  expect(sealed).not.toContain('geheim');
  expect(Buffer.from(sealed, 'base64').toString('latin1')).not.toContain('geheim');
  expect(seal.close('geheim 密码')).not.toBe(sealed);
  expect((await createSeal(directory)).open(sealed)).toBe('geheim 密码');
});

test('what was changed, or sealed with another secret, is refused', async () => {
  const directory = await folder();
  const seal = await createSeal(directory);
  const sealed = seal.close('x');
  const bytes = Buffer.from(sealed, 'base64');
  bytes[bytes.length - 1]! ^= 1;
  for (const broken of [bytes.toString('base64'), '', 'AAAA', sealed.slice(0, 20)]) {
    expect(() => seal.open(broken)).toThrow(expect.objectContaining({ code: 'access.seal_broken' }));
  }
  await writeFile(join(directory, 'secret'), 'ab'.repeat(32));
  const other = await createSeal(directory);
  expect(() => other.open(sealed)).toThrow(expect.objectContaining({ code: 'access.seal_broken' }));
});
